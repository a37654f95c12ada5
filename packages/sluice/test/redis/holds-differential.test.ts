/** Compares memory and Redis on random traces with concurrency limits and blocks. */
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  type Hold,
  type KeyState,
  type Limiter,
  ManualClock,
  memoryStore,
  type Policies,
  type PolicyOptions,
  type Receipt,
  type Store,
} from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { newPrefix, silent, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const TRACES = Number(process.env.DIFFERENTIAL_TRACES ?? 150);
const FIRST_SEED = Number(process.env.DIFFERENTIAL_SEED ?? 1);
const AT_ONCE = 100;
const START_MS = 1_745_000_100_000;
const ALGORITHMS = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
] as const;

interface Step {
  readonly atMs: number;
  readonly op: string;
  readonly costs: readonly number[];
  /** The number of an earlier step. */
  readonly of: number;
  /** The number of a policy. */
  readonly place: number;
  readonly id?: string;
  readonly label?: string;
  readonly ms: number;
}

interface Trace {
  readonly policies: readonly PolicyOptions[];
  readonly steps: readonly Step[];
  /** Whether the clock sometimes steps back. */
  readonly isBack: boolean;
}

function policyFrom(dice: Dice): PolicyOptions {
  const ms = dice.pick([1, 7, 100, 1000, 60_000, 86_400_000]);
  const most = dice.pick([1, 2, 3, 5, 10, 200]);
  if (dice.roll(5) < 3) return { concurrency: most, lease: ms };
  const base = { limit: most, window: ms, algorithm: dice.pick(ALGORITHMS) };
  if (dice.roll(4) === 0) return base;
  const first = dice.pick([1, 5, 100, 5000]);
  const max = first * dice.pick([1, 3, 50]);
  const forget = dice.pick([0, 10, 1000, 100_000]);
  return { ...base, block: { for: first, factor: dice.pick([1, 2, 7]), max, forget } };
}

function traceFrom(seed: number): Trace {
  const dice = new Dice(seed);
  const policies = Array.from({ length: 1 + dice.roll(3) }, () => policyFrom(dice));
  const spans = policies.map(({ lease, window }) => (lease ?? window) as number);
  const [span, isBack] = [dice.pick(spans), dice.roll(3) === 0];
  // Without resets, whose number is part of an id in memory and may expire before it. Without
  // refunds, because a repeated decision has the same receipt object only in memory.
  const hasIds = !isBack && dice.roll(2) === 0;
  const steps: Step[] = [];
  let atMs = START_MS + dice.roll(1_000_000);
  let latestMs = atMs;
  for (let number = 0; number < 60; number++) {
    const stride = dice.roll(Math.ceil(span * dice.pick([0.02, 0.2, 0.2, 1, 3]))) + dice.roll(2);
    atMs += stride;
    latestMs = Math.max(latestMs, atMs);
    // By at most a window: the state of a key is dropped beyond that.
    if (isBack && dice.roll(12) === 0) atMs = latestMs - dice.roll(Math.min(...spans) + 1);
    const most = Math.min(
      ...policies.map(({ concurrency, limit }) => (concurrency ?? limit) as number),
    );
    const kind = dice.roll(24);
    const ops = ['peek', 'peek', 'release', 'release', 'renew', 'renew', 'inspect', 'inspect'];
    ops.push('block', 'unblock', ...(hasIds ? ['release'] : ['refund', 'settle', 'reset']));
    const op = number === 0 || kind < 11 ? 'check' : dice.pick(ops);
    const least = op === 'check' ? 1 : 0;
    steps.push({
      ...{ atMs, op, of: dice.roll(number + 1), place: dice.roll(policies.length) },
      costs: policies.map(() => least + dice.roll(dice.pick([1, 1, Math.min(2, most), most]))),
      ms: 1 + dice.roll(dice.pick([10, 1000, span])),
      ...(hasIds && dice.roll(3) === 0 && { id: `id-${dice.roll(4)}` }),
      ...(dice.roll(3) === 0 && { label: dice.pick(['a', 'job 7', 'x=1:2', 'ü\n']) }),
    });
  }
  return { policies, steps, isBack };
}

const inOrder = (a: Hold, b: Hold): number => a.expiresAtMs - b.expiresAtMs || a.fence - b.fence;

/**
 * Returns what both stores report alike. Holds of one millisecond may have another order. After the
 * clock stepped back, the memory store also reports holds and blocks that no longer count.
 */
function comparable(state: KeyState | undefined, isBack: boolean): unknown {
  if (state === undefined) return undefined;
  const { cells, holds, blocks, ...rest } = state;
  return isBack ? rest : { ...rest, blocks, holds: holds && [...holds].sort(inOrder) };
}

async function perform(
  limiter: Limiter<Policies>,
  step: Step,
  { policies, isBack }: Trace,
  key: string,
  receipts: readonly (Receipt | undefined)[],
): Promise<unknown> {
  const { op, costs, place, id, label, ms } = step;
  const name = `p${place}`;
  const limits = costs.map((cost, at) => ({ policy: `p${at}`, key, cost }));
  if (op === 'check') return limiter.check(limits, { id, label });
  if (op === 'peek') return limiter.peek(limits);
  if (op === 'reset') return limiter.reset(name, key);
  if (op === 'inspect') return comparable(await limiter.inspect(name, key), isBack);
  if (op === 'block' || op === 'unblock') {
    if (policies[place].block === undefined) return undefined;
    return op === 'block' ? limiter.block(name, key, ms) : limiter.unblock(name, key);
  }
  const receipt = receipts[step.of];
  if (receipt === undefined) return undefined;
  if (op === 'settle') return limiter.settle(receipt, 1);
  if (op === 'refund') return limiter.refund(receipt);
  if (!policies.some(({ concurrency }) => concurrency)) return undefined;
  return op === 'release' ? limiter.release(receipt) : limiter.renew(receipt);
}

async function resultsOf(trace: Trace, store: Store, key: string): Promise<string[]> {
  const clock = new ManualClock();
  const named = trace.policies.map((policy, place) => [`p${place}`, policy]);
  const policies = Object.fromEntries(named) as Policies;
  const limiter = createLimiter({ policies, store, clock }) as Limiter<Policies>;
  const receipts: (Receipt | undefined)[] = [];
  const results: string[] = [];
  for (const step of trace.steps) {
    clock.set(step.atMs);
    const result = await perform(limiter, step, trace, key, receipts);
    receipts.push((result as { receipt?: Receipt } | undefined)?.receipt);
    results.push(JSON.stringify(result) ?? 'undefined');
  }
  return results;
}

/** Describes the first step whose results differ, or returns undefined. */
function difference(
  seed: number,
  { policies, steps }: Trace,
  memory: readonly string[],
  redis: readonly string[],
): string | undefined {
  const place = memory.findIndex((result, at) => result !== redis[at]);
  if (place < 0) return undefined;
  const before = steps.slice(0, place + 1).map((step, at) => `${at} ${JSON.stringify(step)}`);
  return `seed ${seed}, step ${place}: ${JSON.stringify(policies)}\n${before.join('\n')}
 memory ${memory[place]}\n redis  ${redis[place]}`;
}

describe('memory and Redis with holds and blocks', () => {
  it(`memory and Redis agree on ${TRACES} random traces with holds and blocks`, async () => {
    const options = { ...silent, prefix: newPrefix(), deadlineMs: 60_000 } as const;
    const store = redisStore(world.client, { ...options, onFailure: 'throw' });
    const found: string[] = [];
    for (let done = 0; done < TRACES; done += AT_ONCE) {
      const length = Math.min(AT_ONCE, TRACES - done);
      const seeds = Array.from({ length }, (_, place) => FIRST_SEED + done + place);
      const traces = seeds.map(traceFrom);
      // First in memory, because the memory store does not yield to the Redis client.
      const runAll = (open: () => Store): Promise<string[][]> =>
        Promise.all(traces.map((trace, at) => resultsOf(trace, open(), `k${seeds[at]}`)));
      const [memory, redis] = [await runAll(() => memoryStore()), await runAll(() => store)];
      for (const [at, trace] of traces.entries()) {
        const some = difference(seeds[at], trace, memory[at], redis[at]);
        if (some !== undefined) found.push(some);
      }
    }
    expect(found.slice(0, 3)).toEqual([]);
  });
});
