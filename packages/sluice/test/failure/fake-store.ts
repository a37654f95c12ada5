/** A store whose replies a test controls, and helpers that advance time for its callers. */
import { vi } from 'vitest';
import { memoryStore, type Store } from '../../src/index.ts';
import { promisesOnly } from '../promises-only.ts';
import { turn } from '../rejections.ts';

/** How the store behaves. `hold` decides at once and replies when `release` is called. */
export type StoreMode = 'reply' | 'reject' | 'throw' | 'silent' | 'hold' | 'invalid';

/** The error of a failing store. */
export const OUTAGE = new Error('the cable is cut');

export interface FakeStore extends Store {
  mode: StoreMode;
  /** The called methods, in order: `decide`, `adjust`, `reset` or `inspect`. */
  readonly calls: string[];
  /** The number of calls in the mode `silent`, which never get a reply. */
  readonly silentCalls: number;
  /** Sends the replies that were held. */
  release(): void;
  /** Returns the cost charged to a key, in every mode. */
  used(limiterKey: string): number;
}

const never = (): Promise<never> => new Promise(() => {});

/** Creates a store that keeps its counters in memory. */
export function fakeStore(mode: StoreMode = 'reply'): FakeStore {
  const memory = memoryStore();
  const real = promisesOnly(memory);
  const calls: string[] = [];
  const held: (() => void)[] = [];
  const charged = new Map<string, number>();
  let silentCalls = 0;
  const act = <T>(method: string, work: () => Promise<T>): Promise<T> => {
    calls.push(method);
    const { mode: current } = store;
    if (current === 'throw') throw OUTAGE;
    if (current === 'reject') return Promise.reject(OUTAGE);
    if (current === 'invalid') return undefined as unknown as Promise<T>;
    if (current === 'silent') {
      silentCalls++;
      return never();
    }
    const reply = work();
    if (current === 'reply') return reply;
    return new Promise((resolve) => held.push(() => resolve(reply)));
  };
  const count = (key: string, by: number): void =>
    void charged.set(key, (charged.get(key) ?? 0) + by);
  const store: FakeStore = {
    features: real.features,
    mode,
    calls,
    get silentCalls() {
      return silentCalls;
    },
    release() {
      for (const send of held.splice(0)) send();
    },
    used: (key) => charged.get(key) ?? 0,
    decide: (checks, nowMs) =>
      act('decide', async () => {
        const results = await real.decide(checks, nowMs);
        for (const [place, { limits, peek }] of checks.entries()) {
          if (peek || !results[place].allowed) continue;
          for (const { key, cost } of limits) count(key, cost);
        }
        return results;
      }),
    adjust: (adjustments, nowMs) =>
      act('adjust', async () => {
        const changes = await real.adjust(adjustments, nowMs);
        for (const [place, { charge }] of adjustments.entries()) count(charge.key, changes[place]);
        return changes;
      }),
    block: (...args) => act('block', () => real.block!(...args)),
    reset: (policy, key) => act('reset', () => real.reset(policy, key)),
    inspect: (policy, params, key, nowMs) =>
      act('inspect', () => real.inspect!(policy, params, key, nowMs ?? Date.now())),
    close: () => real.close(),
  };
  return store;
}

/** Replaces timers and dates. Turns of the event loop stay real. */
export function useFakeTime(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
    now: 1_745_000_100_000,
  });
}

/** Advances the fake time, and lets the work of the timers complete. */
export async function pass(ms: number): Promise<void> {
  await turn();
  await vi.advanceTimersByTimeAsync(ms);
  await turn();
  await turn();
}
