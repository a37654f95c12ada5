import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { createLimiter, type Decision, definePolicy, ManualClock, memoryStore } from 'sluice';
import { parseVectors, runVectors, storeContract } from 'sluice/testing';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MAX_CHANNEL_POLICIES } from '../../src/cluster/operations.ts';
import { StoreServerProcess } from './store-server-process.ts';

const VECTORS = new URL('../../../sluice/test/vectors/', import.meta.url);

let server: StoreServerProcess;
beforeAll(async () => {
  server = await StoreServerProcess.start();
});
afterAll(() => server.stop());

describe('RemoteStore', () => {
  for (const { name, run } of storeContract) test(name, () => run(() => server.store()));

  test.each([
    ['decisions.json', 160],
    ['concurrency.json', 60],
    ['blocks.json', 60],
  ])('the remote store decides all vectors of %s as expected', async (name, passed) => {
    const vectors = parseVectors(readFileSync(new URL(name, VECTORS), 'utf8'));
    const report = await runVectors(vectors, () => server.store());
    expect(report).toEqual({ passed, failed: 0, differences: [] });
  });

  test('the remote store returns the same results as the embedded store', async () => {
    const policies = {
      log: { limit: 5, window: 1000 },
      buckets: { limit: 7, window: 900, algorithm: 'sliding-buckets', buckets: 9 },
      counter: { limit: 6, window: 1100, algorithm: 'sliding-counter' },
      tokens: { limit: 4, window: 800, algorithm: 'token-bucket', burst: 8 },
      fixed: { limit: 3, window: 700, algorithm: 'fixed-window' },
      plans: { limit: (key: string) => 2 + key.length, window: 1000 },
      wide: { limit: 2 ** 32, window: 1000 },
      held: { concurrency: 4, lease: 900 },
      blocked: { limit: 3, window: 400, block: { for: 300, factor: 2, max: 2000, forget: 800 } },
    } as const;
    type Name = keyof typeof policies;
    const name = fc.constantFrom(...(Object.keys(policies) as Name[]));
    const key = fc.constantFrom(
      'a',
      'b',
      'ab',
      '\ud800',
      '\udc00x',
      'a\n"b',
      '\u2028',
      '__proto__',
    );
    const limit = fc.record({ policy: name, key, cost: fc.integer({ min: 1, max: 3 }) });
    const step = fc.record({
      afterMs: fc.integer({ min: -200, max: 700 }),
      kind: fc.constantFrom(
        ...(['check', 'check', 'check', 'peek', 'refund', 'reset', 'inspect'] as const),
        ...(['release', 'renew', 'block', 'unblock'] as const),
      ),
      limits: fc.uniqueArray(limit, {
        minLength: 1,
        maxLength: 4,
        selector: (each) => `${each.policy} ${each.key}`,
      }),
      id: fc.option(fc.constantFrom('one', 'two'), { nil: undefined }),
      settled: fc.integer({ min: 0, max: 9 }),
    });
    const trace = fc.array(step, { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(trace, async (steps) => {
        const clock = new ManualClock(1_745_000_000_000);
        const stores = [memoryStore(), await server.store()];
        const limiters = stores.map((store) => createLimiter({ policies, store, clock }));
        const receipts = limiters.map(() => [] as Decision['receipt'][]);
        for (const { afterMs, kind, limits, id, settled } of steps) {
          clock.set(clock.now() + afterMs);
          const [first] = limits;
          const results = await Promise.all(
            limiters.map(async (limiter, place) => {
              if (kind === 'peek') return limiter.peek(limits);
              if (kind === 'reset') return limiter.reset(first.policy, first.key);
              if (kind === 'inspect') return limiter.inspect(first.policy, first.key);
              if (kind === 'block') return limiter.block('blocked', first.key, '1s');
              if (kind === 'unblock') return limiter.unblock('blocked', first.key);
              if (kind === 'release' || kind === 'renew') {
                const receipt = receipts[place].at(-1);
                const isHeld = receipt?.charges.some(({ fence }) => fence !== undefined);
                return isHeld ? limiter[kind](receipt!) : undefined;
              }
              if (kind === 'refund') {
                const receipt = receipts[place].pop();
                return receipt && limiter.settle(receipt, settled);
              }
              const label = `holder ${settled}`;
              const call = id === undefined ? { label } : { id, label };
              const decision = await limiter.check(limits, call);
              receipts[place].push(decision.receipt);
              return decision;
            }),
          );
          expect(plain(results[1])).toEqual(plain(results[0]));
        }
        await stores[1].close();
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 20) },
    );
  });

  /** Omits the third cell of logs, which is internal to the store. */
  function plain(value: unknown): unknown {
    if (typeof value !== 'object') return value;
    const { cells, ...rest } = JSON.parse(JSON.stringify(value ?? null)) ?? {};
    return { ...rest, cells: cells?.slice(0, 2) };
  }

  test('concurrent clients of the store process are admitted exactly the limit', async () => {
    const stores = await Promise.all(Array.from({ length: 4 }, () => server.store('shared')));
    const limiters = stores.map((store) =>
      createLimiter({ policies: { shared: '100/1h' }, store }),
    );
    const checks = Array.from({ length: 4000 }, (_, call) =>
      limiters[call % 4].check('shared', 'hot'),
    );
    const decisions = await Promise.all(checks);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100);
    await Promise.all(stores.map((store) => store.close()));
  });

  test('keys that differ in one UTF-16 code unit are distinct in the store process', async () => {
    const store = await server.store();
    const limiter = createLimiter({ policies: { p: '1/1h' }, store });
    const units = Array.from({ length: 0x10000 / 97 }, (_, at) => String.fromCharCode(at * 97));
    const keys = [...units, '\ud83d\ude00', '\ud83d', '\ude00', '\ude00\ud83d', 'a'.repeat(1024)];
    const first = await Promise.all(keys.map((key) => limiter.check('p', key)));
    expect(first.filter(({ allowed }) => !allowed)).toEqual([]);
    expect(first.map(({ key }) => key)).toEqual(keys);
    expect(store.size).toBe(new Set(keys).size);
    await store.close();
  });

  test('the remote store uses the clock of the store process', async () => {
    const store = await server.store();
    const policy = definePolicy('p', '5/1h');
    const check = { limits: [{ policy, params: policy.params!, key: 'a', cost: 1 }], peek: false };
    vi.useFakeTimers({ now: 0, toFake: ['Date'] });
    try {
      const [result] = await store.decide([check]);
      expect(Date.now()).toBe(0);
      expect(result.atMs).toBeGreaterThan(1_600_000_000_000);
    } finally {
      vi.useRealTimers();
    }
    await store.close();
  });

  test('counters in the store process survive a new definition of the policy', async () => {
    const store = await server.store();
    const before = createLimiter({ policies: { p: '5/1h' }, store });
    for (let call = 0; call < 4; call++) await before.check('p', 'a');
    const after = createLimiter({ policies: { p: '6/1h', other: '1/1m' }, store });
    expect(await after.check('p', 'a')).toMatchObject({ limit: 6, remaining: 1 });
    await store.close();
  });

  test('a store process client can use more than MAX_CHANNEL_POLICIES policies', async () => {
    const store = await server.store();
    const hot = createLimiter({ policies: { hot: '10/1h' }, store });
    await hot.check('hot', 'a');
    const checks: Promise<Decision>[] = [];
    for (let number = 0; number < MAX_CHANNEL_POLICIES + 500; number++) {
      const limiter = createLimiter({ policies: { [`policy ${number}`]: '1/1h' }, store });
      checks.push(limiter.check(`policy ${number}`, 'a'));
      if (number % 500 === 0) checks.push(hot.check('hot', 'a'));
    }
    const decisions = await Promise.all(checks);
    expect(decisions.filter(({ allowed }) => !allowed)).toEqual([]);
    expect((await hot.check('hot', 'a')).remaining).toBe(10 - 1 - 4 - 1);
    await store.close();
  });

  test('an invalid store operation is rejected without affecting others in its line', async () => {
    const store = await server.store();
    const policy = definePolicy('p', '5/1h');
    const check = (cost: number, key: string, params = policy.params!) =>
      store.decide([{ limits: [{ policy, params, key, cost }], peek: false }]);
    const huge = { ...policy.params!, limit: Number.MAX_SAFE_INTEGER };
    const results = await Promise.allSettled([
      check(1, 'a'),
      check(6, 'a'),
      check(1, ''),
      check(1, 'x'.repeat(1025)),
      check(1, 'a', huge),
      check(1, 'a'),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      ...Array(4).fill('rejected'),
      'fulfilled',
    ]);
    for (const result of results) {
      if (result.status !== 'rejected') continue;
      expect(result.reason).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    }
    expect((await check(1, 'a'))[0].remaining).toBe(2);
    await store.close();
  });

  test('the adjustments of a receipt are applied once for all clients', async () => {
    const stores = [await server.store('shared'), await server.store('shared')];
    const policies = [definePolicy('receipt a', '10/1h'), definePolicy('receipt b', '10/1h')];
    const limits = policies.map((policy) => ({
      policy,
      params: policy.params!,
      key: 'k',
      cost: 4,
    }));
    const [{ atMs }] = await stores[0].decide([{ limits, peek: false }]);
    const refund = limits.map(({ policy, params, key, cost }, at) => ({
      ...{ policy, params, delta: at === 0 ? -3 : 2 },
      charge: { policy: policy.name, key, cost, atMs },
    }));
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, call) => stores[call % 2].adjustOnce('receipt 1', refund)),
    );
    expect(results.filter((each) => each !== undefined)).toEqual([[-3, 2]]);
    const states = policies.map((policy) => stores[1].inspect(policy, policy.params!, 'k'));
    expect((await Promise.all(states)).map((state) => state?.used)).toEqual([1, 6]);
    for (const store of stores) await store.close();
  });

  test('200,000 receipts of one client do not block those of another', {
    timeout: 120_000,
  }, async () => {
    const stores = [await server.store('shared'), await server.store('shared')];
    const policy = definePolicy('flooded', '10/1h');
    const params = policy.params!;
    const nowMs = 1_745_000_100_000;
    const use = (call: number, id: string, atMs: number, client: string) => {
      const charge = { policy: policy.name, key: 'k', cost: 1, atMs };
      const adjustments = [{ policy, params, charge, delta: 0 }];
      return stores[call % 2].adjustOnce(id, adjustments, nowMs, undefined, client);
    };
    for (let first = 0; first < 200_000; first += 5000) {
      const calls = Array.from({ length: 5000 }, (_, at) => first + at);
      await Promise.all(calls.map((call) => use(call, `flood ${call}`, nowMs, 'flooder')));
    }
    expect(await use(0, 'own', nowMs - 1000, 'victim')).toEqual([0]);
    expect(await use(1, 'own', nowMs - 1000, 'victim')).toBeUndefined();
    expect(await use(1, 'flood 0', nowMs, 'flooder')).toBeUndefined();
    for (const store of stores) await store.close();
  });

  test('the remote store returns the client of the first call under an id', async () => {
    const store = await server.store();
    const policy = definePolicy('p', '10/1h');
    const limits = [{ policy, params: policy.params!, key: 'k', cost: 1 }];
    const decide = async (id?: string, client?: string) =>
      (await store.decide([{ limits, peek: false, id, client }]))[0].client;
    expect(await decide('one', 'a')).toBe('a');
    expect(await decide('one', 'b')).toBe('a');
    expect(await decide('two')).toBeUndefined();
    expect(await decide(undefined, 'a')).toBeUndefined();
    await store.close();
  });

  test('adjustOnce, reset and inspect of the remote store use the given time', async () => {
    const store = await server.store();
    const policy = definePolicy('p', { limit: 10, window: 1000, algorithm: 'token-bucket' });
    const params = policy.params!;
    const limits = [{ policy, params, key: 'k', cost: 10 }];
    await store.decide([{ limits, peek: false }], 1_000_000);
    const charge = { policy: 'p', key: 'k', cost: 10, atMs: 1_000_000 };
    const refund = [{ policy, params, charge, delta: -10 }];
    const changes = store.adjustOnce('r', refund, 1_000_300);
    const reset = store.reset(policy, 'k', 1_000_300);
    const state = store.inspect(policy, params, 'k', 1_000_300);
    expect([await changes, await reset, await state]).toEqual([[-7], undefined, undefined]);
    await store.close();
  });

  test('the store process rejects an invalid receipt and keeps the channel open', async () => {
    const store = await server.store();
    const policy = definePolicy('p', '5/1h');
    const adjustment = (key: string) => ({
      ...{ policy, params: policy.params!, delta: -1 },
      charge: { policy: 'p', key, cost: 1, atMs: 1000 },
    });
    const many = Array.from({ length: 65 }, () => adjustment('k'));
    const results = await Promise.allSettled([
      store.adjustOnce('', [adjustment('k')]),
      store.adjustOnce('x'.repeat(1025), [adjustment('k')]),
      store.adjustOnce('r', [adjustment('k'), adjustment('')]),
      store.adjustOnce('r', many),
      store.adjustOnce('r', [adjustment('k')]),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      ...Array(4).fill('rejected'),
      'fulfilled',
    ]);
    await store.close();
  });

  test('any client of the store process can renew and release a hold with a label', async () => {
    const stores = [await server.store('shared'), await server.store('shared')];
    const policies = { jobs: { concurrency: 2, lease: '1m' } } as const;
    const [one, other] = stores.map((store) => createLimiter({ policies, store }));
    const first = await one.check('jobs', 'a', { label: 'job 7' });
    const second = await other.check('jobs', 'a');
    expect(second.fence).toBeGreaterThan(first.fence!);
    expect((await one.check('jobs', 'a')).allowed).toBe(false);
    const holds = (await other.inspect('jobs', 'a'))?.holds;
    expect(holds?.map(({ fence, label }) => [fence, label])).toEqual([
      [first.fence, 'job 7'],
      [second.fence, undefined],
    ]);
    expect(await other.renew(first.receipt!)).toBe(true);
    expect(await other.release(first.receipt!)).toBe(true);
    expect(await one.release(first.receipt!)).toBe(false);
    expect(await one.renew(first.receipt!)).toBe(false);
    expect((await one.check('jobs', 'a')).allowed).toBe(true);
    await Promise.all(stores.map((store) => store.close()));
  });

  test('a label applies only to the hold of its own check', async () => {
    const store = await server.store();
    const limiter = createLimiter({ policies: { jobs: { concurrency: 2 } }, store });
    const calls = [limiter.check('jobs', 'a', { label: 'one' }), limiter.check('jobs', 'a')];
    await Promise.all(calls);
    const holds = (await limiter.inspect('jobs', 'a'))?.holds;
    expect(holds?.map(({ label }) => label)).toEqual(['one', undefined]);
    await store.close();
  });

  test('a block set by one client of the store process denies calls of the others', async () => {
    const stores = [await server.store('shared'), await server.store('shared')];
    const policies = { logins: { limit: 5, window: '1m', block: '15m' } } as const;
    const [one, other] = stores.map((store) => createLimiter({ policies, store }));
    await one.block('logins', 'a', '1h');
    const denied = await other.check('logins', 'a');
    expect(denied).toMatchObject({ allowed: false, remaining: 0 });
    expect(denied.blockedUntilMs! - denied.atMs).toBeGreaterThan(3_590_000);
    expect(await other.inspect('logins', 'a')).toMatchObject({
      blockedUntilMs: denied.blockedUntilMs,
    });
    await other.unblock('logins', 'a');
    expect((await one.check('logins', 'a')).allowed).toBe(true);
    await Promise.all(stores.map((store) => store.close()));
  });

  test('inspect of the remote store returns the number of log entries and the newest', async () => {
    const store = await server.store();
    const policy = definePolicy('p', '5000/1h');
    const limits = [{ policy, params: policy.params!, key: 'k', cost: 1 }];
    for (let at = 0; at < 1500; at++) await store.decide([{ limits, peek: false }], 1000 + at);
    const state = await store.inspect(policy, policy.params!, 'k', 3000);
    expect([state?.used, state?.entryCount]).toEqual([1500, 1500]);
    expect(state?.entries.at(-1)).toEqual({ atMs: 2499, cost: 1 });
    await store.close();
  });

  test('close of the remote store rejects pending and later checks', async () => {
    const store = await server.store();
    const limiter = createLimiter({ policies: { p: '5/1h' }, store });
    const pending = limiter.check('p', 'a');
    await store.close();
    await expect(pending).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await expect(limiter.check('p', 'a')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
  });
});
