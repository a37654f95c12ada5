/**
 * Random checks of a concurrency limit together with window limits: a denied check charges none of
 * its limits, and memory and Redis agree in every field.
 */
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  type Decision,
  type Limiter,
  ManualClock,
  memoryStore,
  type Policies,
  type PolicyOptions,
  type Receipt,
  type Store,
} from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const CHECKS = isFull ? 10_000 : 1000;
const CHECKS_PER_KEY = 50;
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
  readonly costs: readonly number[];
  /** The number of an earlier check whose holds are released before this one, if admitted. */
  readonly release: number;
}

interface Trace {
  readonly key: string;
  readonly policies: Policies;
  readonly names: readonly string[];
  readonly steps: readonly Step[];
}

/** Returns checks of one concurrency limit, at a random place, and of one or two windows. */
function traceFrom(seed: number): Trace {
  const dice = new Dice(seed);
  const span = dice.pick([100, 1000, 60_000]);
  const limits: PolicyOptions[] = Array.from({ length: 1 + dice.roll(2) }, () => ({
    ...{ limit: dice.pick([3, 5, 20]), window: span, algorithm: dice.pick(ALGORITHMS) },
  }));
  const jobs = { concurrency: dice.pick([2, 3, 10]), lease: span * dice.pick([1, 3]) };
  limits.splice(dice.roll(limits.length + 1), 0, jobs);
  const names = limits.map((_, place) => `p${place}`);
  let atMs = START_MS;
  const steps = Array.from({ length: CHECKS_PER_KEY }, (_, number) => {
    atMs += dice.roll(span / 4);
    const costs = limits.map(() => 1 + dice.roll(2));
    return { atMs, costs, release: dice.roll(3 * (number + 1)) };
  });
  const policies = Object.fromEntries(names.map((name, place) => [name, limits[place]]));
  return { key: `key-${seed}`, policies, names, steps };
}

/** What each limit has left, and when it resets. */
async function stateOf(limiter: Limiter<Policies>, { key, names }: Trace): Promise<string> {
  const peeks = await Promise.all(names.map((name) => limiter.peek(name, key)));
  return JSON.stringify(peeks);
}

interface Outcome {
  /** Decisions and states, as JSON. */
  readonly texts: readonly string[];
  /** The numbers of the denied checks that changed a limit. */
  readonly charged: readonly number[];
  readonly byHold: number;
  readonly byWindow: number;
}

/** Makes the checks of a trace, and compares the limits before and after each denial. */
async function outcomeOf(trace: Trace, store: Store): Promise<Outcome> {
  const clock = new ManualClock(START_MS);
  const limiter = createLimiter({ policies: trace.policies, store, clock }) as Limiter<Policies>;
  const receipts: (Receipt | undefined)[] = [];
  const texts: string[] = [];
  const charged: number[] = [];
  let [byHold, byWindow] = [0, 0];
  for (const [number, { atMs, costs, release }] of trace.steps.entries()) {
    clock.set(atMs);
    const receipt = receipts[release];
    if (receipt !== undefined) texts.push(String(await limiter.release(receipt)));
    const before = await stateOf(limiter, trace);
    const limits = trace.names.map((policy, at) => ({ policy, key: trace.key, cost: costs[at] }));
    const decision: Decision = await limiter.check(limits);
    const after = await stateOf(limiter, trace);
    receipts.push(decision.receipt);
    texts.push(JSON.stringify(decision), after);
    if (decision.allowed) continue;
    if (before !== after) charged.push(number);
    const fits = decision.limits.map(({ allowed }) => allowed);
    const holdAt = trace.names.findIndex((name) => isConcurrency(trace.policies[name]));
    const windowsFit = fits.every((each, at) => each || at === holdAt);
    if (!fits[holdAt] && windowsFit) byHold++;
    if (fits[holdAt]) byWindow++;
  }
  return { texts, charged, byHold, byWindow };
}

const isConcurrency = (policy: Policies[string]): boolean =>
  typeof policy === 'object' && 'concurrency' in policy;

describe('checks of a concurrency limit and of windows', () => {
  it(`a denial charges no limit in ${CHECKS} joint checks, and both stores agree`, async () => {
    const options = { ...silent, prefix: newPrefix(), deadlineMs: 60_000 } as const;
    const redis = redisStore(world.client, { ...options, onFailure: 'throw' });
    const seeds = Array.from({ length: CHECKS / CHECKS_PER_KEY }, (_, at) => at + 1);
    const traces = seeds.map(traceFrom);
    const inMemory = await Promise.all(traces.map((trace) => outcomeOf(trace, memoryStore())));
    const inRedis = await Promise.all(traces.map((trace) => outcomeOf(trace, redis)));
    const sum = (field: 'byHold' | 'byWindow'): number =>
      inRedis.reduce((total, outcome) => total + outcome[field], 0);
    const denials = { byHold: sum('byHold'), byWindow: sum('byWindow') };
    if (isFull) console.log('denials', denials);
    for (const [at, { texts, charged }] of inRedis.entries()) {
      expect({ seed: seeds[at], charged }).toEqual({ seed: seeds[at], charged: [] });
      expect(inMemory[at].charged).toEqual([]);
      expect(texts).toEqual(inMemory[at].texts);
    }
    // Both kinds of denials occurred.
    expect(denials.byHold).toBeGreaterThan(CHECKS / 20);
    expect(denials.byWindow).toBeGreaterThan(CHECKS / 20);
  });
});
