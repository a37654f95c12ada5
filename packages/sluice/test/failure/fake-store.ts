/** A store whose replies a test controls, and helpers that advance time for its callers. */
import { vi } from 'vitest';
import { memoryStore, type Store } from '../../src/index.ts';
import { promisesOnly } from '../promises-only.ts';
import { turn } from '../rejections.ts';

/** What the store does when it is asked: `hold` decides at once, and answers when it is let. */
export type Mood = 'answer' | 'reject' | 'throw' | 'silence' | 'hold' | 'nonsense';

/** The failure that a store in the mood to fail has. */
export const OUTAGE = new Error('the cable is cut');

export interface FakeStore extends Store {
  mood: Mood;
  /** What was asked, in order: `decide`, `adjust`, `reset` or `inspect`. */
  readonly asked: string[];
  /** How many questions were never answered. */
  readonly open: number;
  /** Lets the answers out that were held back. */
  release(): void;
  /** What the store holds about a key, whatever its mood. */
  used(limiterKey: string): number;
}

const never = (): Promise<never> => new Promise(() => {});

/** Keeps its counters in memory, under a policy `p` with the given options. */
export function fakeStore(mood: Mood = 'answer'): FakeStore {
  const memory = memoryStore();
  const real = promisesOnly(memory);
  const asked: string[] = [];
  const held: (() => void)[] = [];
  const charged = new Map<string, number>();
  let open = 0;
  const act = <T>(what: string, work: () => Promise<T>): Promise<T> => {
    asked.push(what);
    const { mood: now } = store;
    if (now === 'throw') throw OUTAGE;
    if (now === 'reject') return Promise.reject(OUTAGE);
    if (now === 'nonsense') return undefined as unknown as Promise<T>;
    if (now === 'silence') {
      open++;
      return never();
    }
    const answer = work();
    if (now === 'answer') return answer;
    return new Promise((resolve) => held.push(() => resolve(answer)));
  };
  const count = (key: string, by: number): void =>
    void charged.set(key, (charged.get(key) ?? 0) + by);
  const store: FakeStore = {
    mood,
    asked,
    get open() {
      return open;
    },
    release() {
      for (const answer of held.splice(0)) answer();
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
    reset: (policy, key) => act('reset', () => real.reset(policy, key)),
    inspect: (policy, params, key, nowMs) =>
      act('inspect', () => real.inspect!(policy, params, key, nowMs ?? Date.now())),
    close: () => real.close(),
  };
  return store;
}

/** Timers and dates are fake from here on; the turns of the event loop stay real. */
export function useFakeTime(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
    now: 1_745_000_100_000,
  });
}

/** Lets fake time pass, and then whatever it woke do its work. */
export async function pass(ms: number): Promise<void> {
  await turn();
  await vi.advanceTimersByTimeAsync(ms);
  await turn();
  await turn();
}
