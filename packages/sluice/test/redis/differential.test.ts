/** Compares the memory store with the Redis store on the same random traces. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { memoryStore } from '../../src/index.ts';
import type { Store } from '../../src/store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { longTraceFrom, resultsOf, type Trace, traceFrom } from './traces.ts';

const TRACES = Number(process.env.DIFFERENTIAL_TRACES ?? 150);
const LONG_TRACES = Math.ceil(TRACES / 100);
const FIRST_SEED = Number(process.env.DIFFERENTIAL_SEED ?? 1);
const AT_ONCE = 250;
/** Fewer, because these traces are longer. */
const LONG_AT_ONCE = 10;

let server: RedisServer;
let open: OpenClient;
let store: Store;

beforeAll(async () => {
  server = await startRedis();
  open = await clients.ioredis(server.url);
  store = redisStore(open.client, { onFailure: 'throw', deadlineMs: 60_000 });
});
afterAll(async () => {
  await open.close();
  await server.stop();
});

/** Describes the first step whose results differ between the stores, or returns undefined. */
function difference(
  name: string,
  trace: Trace,
  memory: readonly string[],
  redis: readonly string[],
): string | undefined {
  const step = memory.findIndex((result, place) => result !== redis[place]);
  if (step < 0) return undefined;
  const what = JSON.stringify({ policies: trace.policies, step: trace.steps[step] });
  return `${name}, step ${step}: ${what}\n memory ${memory[step]}\n redis  ${redis[step]}`;
}

async function differencesOf(
  kind: string,
  count: number,
  traceOf: (seed: number) => Trace,
  atOnce = AT_ONCE,
): Promise<string[]> {
  const found: string[] = [];
  for (let done = 0; done < count; done += atOnce) {
    const length = Math.min(atOnce, count - done);
    const names = Array.from({ length }, (_, place) => `${kind}-${FIRST_SEED + done + place}`);
    const traces = names.map((_, place) => traceOf(FIRST_SEED + done + place));
    const resultsIn = (open: () => Store): Promise<string[][]> =>
      Promise.all(traces.map((trace, place) => resultsOf(trace, open(), names[place])));
    // First in memory, because the memory store does not yield to the Redis client.
    const [memory, redis] = [await resultsIn(() => memoryStore()), await resultsIn(() => store)];
    const some = traces.map((trace, place) =>
      difference(names[place], trace, memory[place], redis[place]),
    );
    found.push(...some.filter((each) => each !== undefined));
    if (count > 20_000 && (done / atOnce) % 40 === 0) console.log(`${kind}: ${done} of ${count}`);
  }
  return found;
}

describe('memory and Redis on one injected clock', () => {
  it(`memory and Redis agree in every field on ${TRACES} random traces of 50 steps`, async () => {
    expect(await differencesOf('trace', TRACES, traceFrom)).toEqual([]);
  });

  it('memory and Redis agree on long traces, whose logs become hashes and strings', async () => {
    expect(await differencesOf('long', LONG_TRACES, longTraceFrom, LONG_AT_ONCE)).toEqual([]);
  });
});
