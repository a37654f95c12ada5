import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLimiter, ManualClock, memoryStore, type PolicyInput } from '../../src/index.ts';
import { ALGORITHMS } from '../properties/traces.ts';

const START_MS = 1_745_000_100_000;

function setUp<const P extends Record<string, PolicyInput>>(policies: P, maxKeys?: number) {
  const clock = new ManualClock(START_MS);
  const store = memoryStore(maxKeys === undefined ? {} : { maxKeys });
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

afterEach(() => void vi.restoreAllMocks());

describe('eviction between policies', () => {
  it('a flood of keys in a policy with a limit of 1 does not disable another policy', () => {
    const { limiter } = setUp({ perIp: '100/1h', signup: '1/1d' }, 100_000);
    for (let key = 0; key < 101_000; key++) limiter.checkSync('signup', `throw-away-${key}`);
    let admitted = 0;
    for (let call = 0; call < 20_000; call++) {
      if (limiter.checkSync('perIp', `honest-${call % 2}`).allowed) admitted++;
    }
    expect(admitted).toBe(200);
  });

  it.each(ALGORITHMS)(
    'a %s policy within its share of keys decides like an unbounded store',
    (algorithm) => {
      const policies = {
        honest: { limit: 5, window: '1h', algorithm },
        flooded: { limit: 1, window: '1d', algorithm },
        other: { limit: 3, window: '1m', algorithm },
      } as const;
      const bounded = setUp(policies, 3000);
      const unbounded = setUp(policies);
      const differences: unknown[] = [];
      for (let call = 0; call < 30_000; call++) {
        if (call % 10 === 0) for (const { clock } of [bounded, unbounded]) clock.advance(3);
        bounded.limiter.checkSync('flooded', `throw-away-${call}`);
        if (call % 3 === 0) bounded.limiter.checkSync('other', `also-${call}`, { cost: 3 });
        const key = `honest-${call % 999}`;
        const got = JSON.stringify(bounded.limiter.checkSync('honest', key));
        const wanted = JSON.stringify(unbounded.limiter.checkSync('honest', key));
        if (got !== wanted) differences.push([call, got, wanted]);
      }
      expect(bounded.store.guaranteedKeys).toBe(1000);
      expect(bounded.limiter.size).toBe(3000);
      expect(differences).toEqual([]);
    },
  );

  it('keys are evicted from the policy with the most keys', () => {
    const { limiter, store } = setUp({ small: '5/1h', large: '5/1h' }, 1000);
    for (let key = 0; key < 400; key++) limiter.checkSync('small', `small-${key}`);
    for (let key = 0; key < 5000; key++) limiter.checkSync('large', `large-${key}`, { cost: 5 });
    let kept = 0;
    for (let key = 0; key < 400; key++) {
      if (limiter.inspectSync('small', `small-${key}`)?.used === 1) kept++;
    }
    expect(kept).toBe(400);
    expect(store.evicted).toBeGreaterThan(100);
    expect(limiter.size).toBe(1000);
  });

  it('a policy regains its share of keys when it is used again', () => {
    const { limiter } = setUp({ first: '5/1h', second: '5/1h' }, 1000);
    for (let key = 0; key < 1000; key++) limiter.checkSync('first', `first-${key}`, { cost: 5 });
    for (let key = 0; key < 500; key++) limiter.checkSync('second', `second-${key}`, { cost: 2 });
    for (let key = 0; key < 2000; key++) limiter.checkSync('first', `more-${key}`, { cost: 5 });
    let used = 0;
    for (let key = 0; key < 500; key++) {
      used += limiter.inspectSync('second', `second-${key}`)?.used ?? 0;
    }
    expect(used).toBe(1000);
  });
});

describe('eviction within a policy', () => {
  it('two keys used in turn stay within their limit in a full store', () => {
    const { limiter } = setUp({ login: '5/1h' }, 10_000);
    for (let key = 0; key < 10_000; key++) limiter.checkSync('login', `full-${key}`, { cost: 5 });
    let admitted = 0;
    for (let call = 0; call < 20_000; call++) {
      if (limiter.checkSync('login', `honest-${call % 2}`).allowed) admitted++;
    }
    expect(admitted).toBe(10);
  });

  it('a flood of throw-away keys does not evict keys at their limit', () => {
    const { limiter, store } = setUp({ login: '5/1h' }, 1000);
    for (let key = 0; key < 1000; key++) limiter.checkSync('login', `full-${key}`, { cost: 5 });
    for (let key = 0; key < 20_000; key++) limiter.checkSync('login', `throw-away-${key}`);
    let kept = 0;
    for (let key = 0; key < 1000; key++) {
      if (limiter.inspectSync('login', `full-${key}`)?.entries[0]?.cost === 5) kept++;
    }
    expect(store.evicted).toBeGreaterThan(500);
    // Except the first few, before there are throw-away keys to evict instead.
    expect(kept).toBeGreaterThan(980);
  });

  it.each(ALGORITHMS)('a flood of keys lets no key of %s exceed its limit', (algorithm) => {
    const { limiter } = setUp({ p: { limit: 4, window: '1h', algorithm } }, 50);
    const admitted = new Map<string, number>();
    let seed = 1;
    for (let call = 0; call < 50_000; call++) {
      seed = (seed * 48_271) % 2_147_483_647;
      // A few keys are used often, most once or twice.
      const key = seed % 3 === 0 ? `often-${seed % 20}` : `seldom-${seed % 20_000}`;
      const { allowed } = limiter.checkSync('p', key, { cost: 1 + (seed % 2) });
      if (allowed) admitted.set(key, (admitted.get(key) ?? 0) + 1 + (seed % 2));
    }
    expect(Math.max(...admitted.values())).toBeLessThanOrEqual(4);
    expect(limiter.size).toBeLessThanOrEqual(50);
  });

  it('300 keys used in turn stay within their limits in a full store', () => {
    const { limiter } = setUp({ login: '5/1h' }, 1000);
    for (let key = 0; key < 1000; key++) limiter.checkSync('login', `full-${key}`, { cost: 5 });
    const admitted = new Map<string, number>();
    for (let call = 0; call < 30_000; call++) {
      const key = `honest-${call % 300}`;
      if (!limiter.checkSync('login', key).allowed) continue;
      admitted.set(key, (admitted.get(key) ?? 0) + 1);
    }
    expect(Math.max(...admitted.values())).toBeLessThanOrEqual(5);
    // The estimates of evicted keys are shared, but most new keys are still admitted.
    expect([...admitted.values()].reduce((sum, count) => sum + count)).toBeGreaterThan(300);
  });

  it('the use of an evicted key still counts until the window ends', () => {
    const { clock, limiter, store } = setUp({ p: { limit: 10, window: '1m' } }, 100);
    for (let key = 0; key < 300; key++) limiter.checkSync('p', `key-${key}`, { cost: 3 });
    expect(store.evicted).toBe(200);
    for (let key = 0; key < 300; key++) {
      const { remaining } = limiter.peekSync('p', `key-${key}`);
      expect(remaining).toBeLessThanOrEqual(7);
    }
    clock.advance(60_000);
    for (let key = 0; key < 300; key++) {
      expect(limiter.peekSync('p', `key-${key}`).remaining).toBe(10);
    }
  });

  it('an evicted key is admitted after its retryAfterMs', () => {
    const { clock, limiter } = setUp({ p: { limit: 2, window: '1m' } }, 10);
    for (let key = 0; key < 500; key++) {
      clock.advance(7);
      limiter.checkSync('p', `key-${key}`, { cost: 2 });
    }
    for (let key = 0; key < 500; key += 50) {
      const denied = limiter.checkSync('p', `key-${key}`);
      expect(denied.allowed).toBe(false);
      clock.advance(denied.retryAfterMs);
      expect(limiter.peekSync('p', `key-${key}`, { cost: 1 }).allowed).toBe(true);
      clock.set(denied.atMs);
    }
  });

  it('a reset clears an evicted key and no other key', () => {
    const { limiter } = setUp({ p: '5/1h' }, 10);
    for (let key = 0; key < 200; key++) limiter.checkSync('p', `key-${key}`, { cost: 5 });
    const evicted = Array.from({ length: 200 }, (_, key) => `key-${key}`);
    for (const key of evicted.slice(0, 5)) {
      limiter.resetSync('p', key);
      expect(limiter.peekSync('p', key).remaining).toBe(5);
    }
    for (const key of evicted.slice(5)) expect(limiter.peekSync('p', key).remaining).toBe(0);
  });

  it('resets of any number of keys do not exceed maxKeys', () => {
    const { limiter } = setUp({ p: '5/1h' }, 10);
    for (let key = 0; key < 500; key++) limiter.checkSync('p', `key-${key}`, { cost: 5 });
    for (let key = 0; key < 500; key++) limiter.resetSync('p', `never-seen-${key}`);
    expect(limiter.size).toBeLessThanOrEqual(10);
  });

  it('eviction works if Math.random is constant', () => {
    for (const value of [0, 0.5, 0.999_999]) {
      vi.spyOn(Math, 'random').mockReturnValue(value);
      const { limiter } = setUp({ p: '1/1h', q: '1/1h' }, 20);
      for (let key = 0; key < 500; key++) {
        limiter.checkSync('p', `key-${key}`);
        limiter.checkSync('q', `key-${key}`);
      }
      expect(limiter.size).toBe(20);
    }
  });
});

describe('a check of several limits in a full table', () => {
  it('a check of several limits charges all or none despite evictions', () => {
    const names = ['a', 'b', 'c', 'd'] as const;
    const policy = { limit: 3, window: '1h' } as const;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.array(fc.nat(30), { minLength: 1, maxLength: 4 }), { maxLength: 200 }),
        (maxKeys, checks) => {
          const { limiter } = setUp({ a: policy, b: policy, c: policy, d: policy }, maxKeys);
          const charged = new Map<string, number>();
          for (const keys of checks) {
            const limits = keys.map((key, place) => ({ policy: names[place], key: `k${key}` }));
            const decision = limiter.checkSync(limits);
            // An admitted check has charged each of its limits.
            expect(decision.limits.every(({ allowed }) => allowed)).toBe(decision.allowed);
            expect(limiter.size).toBeLessThanOrEqual(maxKeys);
            if (!decision.allowed) continue;
            for (const { policy: name, key } of limits) {
              const id = `${name} ${key}`;
              charged.set(id, (charged.get(id) ?? 0) + 1);
            }
          }
          for (const count of charged.values()) expect(count).toBeLessThanOrEqual(3);
        },
      ),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 66) },
    );
  });

  it('a denied check of several limits evicts no key', () => {
    const { limiter, store } = setUp({ p: '1/1h', q: '1/1h' }, 4);
    for (const key of ['a', 'b', 'c', 'd']) limiter.checkSync('p', key);
    const denied = limiter.checkSync([
      { policy: 'p', key: 'a' },
      { policy: 'q', key: 'new' },
    ]);
    expect(denied.allowed).toBe(false);
    expect([store.size, store.evicted]).toEqual([4, 0]);
  });
});

describe('onEviction', () => {
  it('onEviction is called with the policy, and may throw', () => {
    const seen: string[] = [];
    const clock = new ManualClock(START_MS);
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const store = memoryStore({
      maxKeys: 10,
      onEviction: ({ policy, guaranteedKeys }) => {
        seen.push(`${policy} ${guaranteedKeys}`);
        if (seen.length === 2) throw new Error('of the listener');
      },
    });
    const limiter = createLimiter({ policies: { p: '5/1h', q: '5/1h' }, store, clock });
    for (let key = 0; key < 12; key++) limiter.checkSync('p', `key-${key}`);
    limiter.checkSync('q', 'key');
    expect(seen).toEqual(['p 10', 'p 10', 'p 10']);
    expect(store.evicted).toBe(3);
    expect(store.guaranteedKeys).toBe(5);
    expect(warned).toHaveBeenCalledOnce();
  });

  it('onEviction is not called for expired keys', () => {
    const onEviction = vi.fn();
    const clock = new ManualClock(START_MS);
    const store = memoryStore({ maxKeys: 10, onEviction });
    const limiter = createLimiter({ policies: { p: '5/1s' }, store, clock });
    for (let key = 0; key < 100; key++) {
      limiter.checkSync('p', `key-${key}`);
      clock.advance(200);
    }
    expect(onEviction).not.toHaveBeenCalled();
  });

  it.each([
    [{ maxIdBytes: -1 }, 'maxIdBytes'],
    [{ maxIdBytes: 1.5 }, 'maxIdBytes'],
    [{ onEviction: 'log' as never }, 'onEviction'],
  ])('memoryStore rejects the options %j', (options, name) => {
    expect(() => memoryStore(options)).toThrow(name);
  });
});
