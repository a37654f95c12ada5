/** Many processes that reserve tokens of one limit on Redis, before they call a model. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';

const world = useRedis();
const PROCESSES = isFull ? 8 : 2;
const CALLS = isFull ? 100_000 : 1000;
const WINDOW_MS = 1000;

type Call = readonly [atMs: number, tokens: number];

interface Outcome {
  readonly made: readonly Call[];
  readonly denied: number;
  readonly settled: number;
}

const isOutcome = (message: unknown): message is Outcome => typeof message === 'object';

/** Resolves to the next message of a process. Rejects if the process ends before. */
async function messageOf(child: ChildProcess): Promise<unknown> {
  const stop = new AbortController();
  const { signal } = stop;
  const failed = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`Expected a message, the process exited with ${code}`);
  });
  const [message] = await Promise.race([once(child, 'message', { signal }), failed]).finally(() =>
    stop.abort(),
  );
  return message;
}

/** Makes calls in all processes. With `isHeld`, the model replies after `held` was called. */
async function runProcesses(
  settings: { readonly isHeld?: boolean; readonly calls: number } & Record<string, unknown>,
  held: () => Promise<void> = async () => {},
): Promise<Outcome> {
  const worker = new URL('llm-worker.mjs', import.meta.url).pathname;
  const calls = settings.calls / PROCESSES;
  const children = Array.from({ length: PROCESSES }, (_, number) =>
    fork(worker, [JSON.stringify({ url: world.server.url, ...settings, calls, seed: number + 1 })]),
  );
  try {
    if (settings.isHeld) {
      await Promise.all(children.map(messageOf));
      await held();
      for (const child of children) child.send('reply');
    }
    const all = (await Promise.all(children.map(messageOf))).filter(isOutcome);
    return {
      made: all.flatMap(({ made }) => made),
      denied: all.reduce((sum, { denied }) => sum + denied, 0),
      settled: all.reduce((sum, { settled }) => sum + settled, 0),
    };
  } finally {
    for (const child of children) child.kill();
  }
}

const sumOf = (calls: readonly Call[]): number =>
  calls.reduce((sum, [, tokens]) => sum + tokens, 0);

/** Returns the most tokens of calls that were admitted within one window. */
function mostInWindow(calls: readonly Call[]): number {
  const sorted = [...calls].sort(([one], [other]) => one - other);
  let [most, sum, first] = [0, 0, 0];
  for (const [atMs, tokens] of sorted) {
    sum += tokens;
    while (sorted[first][0] <= atMs - WINDOW_MS) sum -= sorted[first++][1];
    most = Math.max(most, sum);
  }
  return most;
}

describe(`${CALLS} reservations by ${PROCESSES} processes`, () => {
  it('calls that reserve upper bounds exceed no window, and use most of the limit', async () => {
    const prefix = newPrefix();
    // A call uses 70 tokens on average, of about 240 that it reserves.
    const limit = isFull ? 140_000 : 20_000;
    const policy = { limit, window: WINDOW_MS };
    const { made, denied, settled } = await runProcesses({
      ...{ prefix, policy, calls: CALLS, inFlight: 32, maxTokens: 200, mostOutput: 100 },
      maxWaitMs: 60_000,
    });
    expect(denied).toBe(0);
    expect([made.length, settled]).toEqual([CALLS, CALLS]);
    const most = mostInWindow(made);
    if (isFull) console.log(`${made.length} calls, at most ${most} of ${limit} tokens in a window`);
    expect(most).toBeLessThanOrEqual(limit);
    // Otherwise the limit was not tested. A busy machine makes fewer calls per window.
    expect(most).toBeGreaterThan((isFull ? 0.5 : 0.1) * limit);
  });

  it('estimates that are too low exceed the limit by exactly the sum of their errors', async () => {
    const prefix = newPrefix();
    const policy = { limit: 100 * CALLS, window: '1h' } as const;
    const store = redisStore(world.send, { ...silent, prefix, onFailure: 'throw' });
    const limiter = createLimiter({ policies: { tokens: policy }, store });
    const used = async (): Promise<number> => (await limiter.inspect('tokens', 'all'))?.used ?? 0;
    const calls = CALLS + 10 * PROCESSES;
    const { made, denied, settled } = await runProcesses(
      {
        ...{ prefix, policy, calls, inFlight: calls, maxTokens: 1000, mostOutput: 300 },
        ...{ estimate: { inputTokens: 20, outputTokens: 80 }, maxWaitMs: 0, isHeld: true },
      },
      async () => expect(await used()).toBe(policy.limit),
    );
    expect([made.length, denied, settled]).toEqual([CALLS, 10 * PROCESSES, CALLS]);
    const errors = sumOf(made) - 100 * CALLS;
    expect(errors).toBeGreaterThan(0);
    await expect.poll(used, { timeout: 60_000 }).toBe(policy.limit + errors);
    if (isFull)
      console.log(`exceeded by ${errors} tokens, the sum of the errors of ${CALLS} calls`);
  });
});
