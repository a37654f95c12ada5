import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, memoryStore, type PolicyInput } from '../../src/index.ts';
import { ALGORITHMS } from '../properties/traces.ts';

const START_MS = 1_745_000_100_000;

function setUp<const P extends Record<string, PolicyInput>>(policies: P, maxKeys = 1_000_000) {
  const clock = new ManualClock(START_MS);
  const store = memoryStore({ maxKeys });
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

describe('maxKeys', () => {
  it.each(ALGORITHMS)('a flood of keys does not let a denied key of %s pass again', (algorithm) => {
    const { limiter } = setUp({ p: { limit: 10, window: '1h', algorithm } }, 1000);
    limiter.checkSync('p', 'abuser', { cost: 10 });
    for (let key = 0; key < 50_000; key++) limiter.checkSync('p', `throw-away-${key}`);
    expect(limiter.checkSync('p', 'abuser').allowed).toBe(false);
    expect(limiter.size).toBe(1000);
  });

  it('a flood of keys restores no capacity if nearly all keys are at their limit', () => {
    const { limiter } = setUp({ p: { limit: 10, window: '1h' } }, 1000);
    for (let key = 0; key < 999; key++) limiter.checkSync('p', `full-${key}`, { cost: 10 });
    for (let key = 0; key < 20_000; key++) limiter.checkSync('p', `throw-away-${key}`);
    let freed = 0;
    for (let key = 0; key < 999; key++) freed += limiter.peekSync('p', `full-${key}`).remaining;
    expect(freed).toBe(0);
  });

  it('maxKeys applies to all policies, and a flood in one frees no denied key of another', () => {
    const { limiter } = setUp({ login: '5/1h', api: '1000/1h' }, 500);
    limiter.checkSync('login', 'abuser', { cost: 5 });
    for (let key = 0; key < 20_000; key++) limiter.checkSync('api', `throw-away-${key}`);
    expect(limiter.checkSync('login', 'abuser').allowed).toBe(false);
    expect(limiter.size).toBe(500);
  });

  it('expired keys are evicted first', () => {
    const { clock, limiter } = setUp({ short: '10/1s', long: '10/1h' }, 200);
    for (let key = 0; key < 100; key++) limiter.checkSync('long', `long-${key}`);
    for (let key = 0; key < 100; key++) limiter.checkSync('short', `short-${key}`, { cost: 10 });
    clock.advance(1000);
    for (let key = 0; key < 60; key++) limiter.checkSync('long', `more-${key}`);
    let kept = 0;
    for (let key = 0; key < 100; key++) {
      if (limiter.peekSync('long', `long-${key}`).remaining === 9) kept++;
    }
    // If half of the keys have expired, a sample of 16 contains none once in 65,536 times.
    expect(kept).toBeGreaterThan(95);
  });

  it('a new key is limited if the store is full of keys that have used more', () => {
    const { limiter } = setUp({ login: '5/1h' }, 1000);
    for (let key = 0; key < 1000; key++) limiter.checkSync('login', `used-${key}`, { cost: 2 });
    let admitted = 0;
    for (let round = 0; round < 500; round++) {
      if (limiter.checkSync('login', 'victim').allowed) admitted++;
      limiter.checkSync('login', `sprayed-${round}`);
    }
    // It may be evicted while it has used little, but not repeatedly.
    expect(admitted).toBeLessThan(50);
  });

  it('store.evicted counts evicted keys that had not expired', () => {
    const { clock, limiter, store } = setUp({ p: '10/1s' }, 100);
    for (let key = 0; key < 100; key++) limiter.checkSync('p', `first-${key}`);
    expect(store.evicted).toBe(0);
    for (let key = 0; key < 50; key++) limiter.checkSync('p', `more-${key}`);
    expect(store.evicted).toBe(50);
    // All keys have expired.
    clock.advance(2000);
    for (let key = 0; key < 20; key++) limiter.checkSync('p', `later-${key}`);
    expect(store.evicted).toBe(50);
  });

  it('with maxKeys: 1, a check of two limits stays within both limits', () => {
    const { limiter } = setUp({ a: '5/1s', b: '5/1s' }, 1);
    const both = [
      { policy: 'a', key: 'k' },
      { policy: 'b', key: 'k' },
    ] as const;
    const decisions = Array.from({ length: 50 }, () => limiter.checkSync(both).allowed);
    expect(decisions.filter(Boolean)).toHaveLength(5);
  });
});

describe('expiry', () => {
  it.each(ALGORITHMS)('expired keys of %s are deleted while keys are added', (algorithm) => {
    const { clock, limiter } = setUp({ p: { limit: 100, window: '1s', algorithm } });
    let largest = 0;
    for (let key = 0; key < 100_000; key++) {
      if (key % 10 === 0) clock.advance(1);
      limiter.checkSync('p', `key-${key}`);
      largest = Math.max(largest, limiter.size);
    }
    // 10,000 new keys per window, each of which is kept for at most three windows.
    expect(largest).toBeLessThan(40_000);
    expect(limiter.size).toBeLessThan(40_000);
  });

  it('no key is deleted early if the clock jumps a day ahead and back', () => {
    const { clock, limiter } = setUp({ p: '5/1m' });
    for (let key = 0; key < 5000; key++) limiter.checkSync('p', `key-${key}`, { cost: 5 });
    clock.advance(86_400_000);
    for (let key = 0; key < 20_000; key++) limiter.checkSync('p', `later-${key}`);
    clock.set(START_MS + 1);
    let admitted = 0;
    for (let key = 0; key < 5000; key++)
      if (limiter.checkSync('p', `key-${key}`).allowed) admitted++;
    expect(admitted).toBe(0);
  });

  it('expired keys of a policy without new keys are deleted too', () => {
    const { clock, limiter } = setUp({ idle: '5/1s', busy: '5/1s' });
    for (let key = 0; key < 5000; key++) limiter.checkSync('idle', `key-${key}`);
    for (let key = 0; key < 20_000; key++) {
      if (key % 5 === 0) clock.advance(1);
      limiter.checkSync('busy', `key-${key}`);
    }
    expect(limiter.inspectSync('idle', 'key-1')).toBeUndefined();
    // The busy policy has 5,000 new keys per window, each kept for at most two more. The idle
    // policy keeps a few expired keys, for which a sweep would not be worth it.
    expect(limiter.size).toBeLessThan(5000 * 3 + 1024);
  });

  it.each([
    ['in bursts of a window', 5000, 60_000],
    ['one by one, far apart', 1, 18_000],
  ])('keys that arrive %s are deleted after they expire', (_, burst, gapMs) => {
    const { clock, limiter } = setUp({ p: '5/1m' });
    for (let key = 0; key < 100_000; key++) {
      if (key % burst === 0) clock.advance(gapMs);
      limiter.checkSync('p', `key-${key}`);
    }
    expect(limiter.size).toBeLessThan(35_000);
  });

  it('no key is lost if the clock steps back by less than a window', () => {
    const { clock, limiter } = setUp({ p: '5/1m' });
    for (let key = 0; key < 2000; key++) limiter.checkSync('p', `key-${key}`, { cost: 5 });
    for (let key = 0; key < 6100; key++) {
      clock.advance(10);
      limiter.checkSync('p', `new-${key}`);
    }
    clock.set(START_MS + 59_500);
    let admitted = 0;
    for (let key = 0; key < 2000; key++)
      if (limiter.checkSync('p', `key-${key}`).allowed) admitted++;
    expect(admitted).toBe(0);
  });
});

describe('size and inspect', () => {
  it('size counts keys, and peeks and denials add none', () => {
    const { limiter } = setUp({ p: '1/1s' });
    expect(limiter.size).toBe(0);
    limiter.peekSync('p', 'a');
    expect(limiter.size).toBe(0);
    limiter.checkSync('p', 'a');
    limiter.checkSync('p', 'a');
    limiter.checkSync('p', 'b');
    expect(limiter.size).toBe(2);
    limiter.resetSync('p', 'a');
    limiter.resetSync('p', 'never seen');
    expect(limiter.size).toBe(1);
  });

  it('inspect decodes the state of each algorithm', () => {
    const policies = Object.fromEntries(
      ALGORITHMS.map((algorithm) => [
        algorithm,
        {
          limit: 10,
          window: 1000,
          algorithm,
          ...(algorithm === 'sliding-buckets' && { buckets: 50 }),
        },
      ]),
    );
    const { clock, limiter } = setUp(policies);
    for (const algorithm of ALGORITHMS) limiter.checkSync(algorithm, 'a', { cost: 3 });
    clock.advance(10);
    for (const algorithm of ALGORITHMS) limiter.checkSync(algorithm, 'a', { cost: 2 });
    const seen = ALGORITHMS.map((algorithm) => limiter.inspectSync(algorithm, 'a'));
    expect(seen.map((state) => [state?.used, state?.cells.slice(0, 2), state?.entries])).toEqual([
      [5, [START_MS + 1000, 5], []],
      [
        5,
        [START_MS + 1010, 5],
        [
          { atMs: START_MS, cost: 3 },
          { atMs: START_MS + 10, cost: 2 },
        ],
      ],
      [5, [START_MS + 2000, 5], []],
      [5, [START_MS + 1019, 5], [{ atMs: START_MS + 19, cost: 5 }]],
      [5, [START_MS + 500, 5100], []],
    ]);
  });

  it('the costs of 100,000 entries of one key are summed exactly', () => {
    const { clock, limiter } = setUp({ p: { limit: 200_000, window: '365d' } });
    for (let call = 0; call < 100_000; call++) {
      limiter.checkSync('p', 'a', { cost: 2 });
      clock.advance(1);
    }
    expect(limiter.checkSync('p', 'a')).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 365 * 86_400_000 - 100_000,
    });
    clock.advance(365 * 86_400_000 - 100_000 + 49_999);
    expect(limiter.peekSync('p', 'a').remaining).toBe(100_000);
  });
});
