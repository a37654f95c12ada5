import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  definePolicy,
  ManualClock,
  memoryStore,
  type Receipt,
} from '../../src/index.ts';
import type { BlockTable } from '../../src/stores/memory/block-table.ts';
import { Records } from '../../src/stores/memory/records.ts';

const START_MS = 1_745_000_100_000;

function setUp(maxKeys: number) {
  const clock = new ManualClock(START_MS);
  const store = memoryStore({ maxKeys });
  const policies = {
    jobs: { concurrency: 3, lease: 10_000 },
    login: { limit: 2, window: 10_000, block: 20_000 },
    other: { limit: 5, window: 10_000 },
  } as const;
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

/** Numbers from 0 to below `below`, the same in each run. */
function random(below: number, seed: { state: number }): number {
  seed.state = (Math.imul(seed.state, 1_103_515_245) + 12_345) >>> 0;
  return Math.floor((seed.state / 2 ** 32) * below);
}

describe('holds in a full store', () => {
  it('evictions never let a key have more holds than its limit', () => {
    const { clock, limiter, store } = setUp(50);
    const seed = { state: 7 };
    const held = new Map<string, { receipt: Receipt; untilMs: number }[]>();
    let released = 0;
    let renewed = 0;
    for (let call = 0; call < 12_000; call++) {
      if (random(10, seed) === 0) clock.advance(random(400, seed));
      const nowMs = clock.now();
      const key = `key-${random(200, seed)}`;
      const own = (held.get(key) ?? []).filter(({ untilMs }) => untilMs > nowMs);
      held.set(key, own);
      const kind = random(4, seed);
      if (kind === 0 && own.length > 0) {
        const { receipt } = own.shift()!;
        if (limiter.releaseSync(receipt)) released++;
        expect(limiter.releaseSync(receipt)).toBe(false);
      } else if (kind === 1 && own.length > 0) {
        const hold = own[random(own.length, seed)];
        if (limiter.renewSync(hold.receipt)) {
          renewed++;
          hold.untilMs = nowMs + 10_000;
        } else own.splice(own.indexOf(hold), 1);
      } else {
        const decision = limiter.checkSync('jobs', key);
        if (decision.allowed) own.push({ receipt: decision.receipt, untilMs: nowMs + 10_000 });
        expect(own.length).toBeLessThanOrEqual(3);
      }
      expect(store.size).toBeLessThanOrEqual(50);
    }
    expect(store.evicted).toBeGreaterThan(500);
    expect(Math.min(released, renewed)).toBeGreaterThan(100);
  });

  it('a flood of keys does not end a hold that is renewed', () => {
    const { clock, limiter } = setUp(1000);
    const { receipt } = limiter.checkSync('jobs', 'honest', { cost: 3 });
    for (let round = 0; round < 20; round++) {
      for (let key = 0; key < 900; key++) limiter.checkSync('jobs', `flood-${round}-${key}`);
      clock.advance(3000);
      expect(limiter.renewSync(receipt!)).toBe(true);
      expect(limiter.checkSync('jobs', 'honest').allowed).toBe(false);
    }
    expect(limiter.releaseSync(receipt!)).toBe(true);
  });

  it('a hold whose record was evicted counts until its lease ends and cannot be released', () => {
    const { clock, limiter } = setUp(3);
    const { receipt } = limiter.checkSync('jobs', 'a', { cost: 3 });
    for (let call = 0; call < 3; call++) limiter.checkSync('jobs', 'b');
    expect(limiter.releaseSync(receipt!)).toBe(false);
    expect(limiter.checkSync('jobs', 'a').allowed).toBe(false);
    clock.advance(10_000);
    expect(limiter.checkSync('jobs', 'a', { cost: 3 }).allowed).toBe(true);
  });

  it('release of an evicted key returns true, and the slot is free when the lease ends', () => {
    const { clock, limiter, store } = setUp(4);
    const receipts = ['a', 'b', 'c', 'd'].map((key) => limiter.checkSync('jobs', key).receipt!);
    limiter.checkSync('other', 'e');
    limiter.checkSync('other', 'f');
    expect(store.evicted).toBe(2);
    for (const receipt of receipts) expect(limiter.releaseSync(receipt)).toBe(true);
    const keys = ['a', 'b', 'c', 'd'];
    const free = keys.map((key) => limiter.peekSync('jobs', key).remaining);
    expect([...free].sort()).toEqual([2, 2, 3, 3]);
    clock.advance(10_000);
    expect(keys.map((key) => limiter.peekSync('jobs', key).remaining)).toEqual([3, 3, 3, 3]);
  });
});

describe('blocks in a full store', () => {
  it('a flood of keys does not end a block', () => {
    const { limiter } = setUp(500);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    for (let key = 0; key < 5000; key++) limiter.checkSync('other', `flood-${key}`);
    expect(limiter.checkSync('login', 'a')).toMatchObject({ allowed: false, retryAfterMs: 20_000 });
  });

  it('a flood of blocks deletes the oldest block, whose key is still limited by the window', () => {
    const { limiter } = setUp(500);
    const block = (key: string) => {
      limiter.checkSync('login', key, { cost: 2 });
      return limiter.checkSync('login', key);
    };
    block('a');
    for (let key = 0; key < 500; key++) expect(block(`flood-${key}`).allowed).toBe(false);
    const { allowed, blockedUntilMs } = limiter.peekSync('login', 'a', { cost: 1 });
    expect([allowed, blockedUntilMs]).toEqual([false, undefined]);
    expect(limiter.peekSync('login', 'flood-499').retryAfterMs).toBe(20_000);
  });
});

describe('records', () => {
  const record = (id: number, expiresMs = 0) => ({ id, expiresMs });
  const idsOf = (records: Records<{ id: number; expiresMs: number }>) =>
    records.all().map(({ id }) => id);

  it('Records keeps records in order of insertion, up to the maximum', () => {
    const records = new Records(3);
    for (const id of [5, 1, 9, 1, 7]) records.add(record(id));
    expect(idsOf(records)).toEqual([9, 1, 7]);
    expect(records.lastId).toBe(9);
    records.delete(1);
    records.delete(1);
    records.add(record(2));
    expect(idsOf(records)).toEqual([9, 7, 2]);
    records.add(record(3));
    expect(idsOf(records)).toEqual([7, 2, 3]);
  });

  it('Records.expire deletes expired records from the oldest on', () => {
    const records = new Records(10);
    for (const [id, expiresMs] of [
      [1, 5],
      [2, 6],
      [3, 20],
      [4, 7],
    ]) {
      records.add(record(id, expiresMs));
    }
    records.expire(1, 10);
    expect(idsOf(records)).toEqual([2, 3, 4]);
    records.expire(9, 10);
    expect(idsOf(records)).toEqual([3, 4]);
    records.expire(9, 20);
    expect(records.size).toBe(0);
    records.expire(9, 20);
    records.add(record(5));
    expect(idsOf(records)).toEqual([5]);
  });

  it.each([10, 3600_000])(
    'records of expired holds and blocks are deleted by later calls, %i ms apart',
    (pauseMs) => {
      const clock = new ManualClock(START_MS);
      const store = memoryStore();
      const policies = {
        jobs: definePolicy('jobs', { concurrency: 100_000, lease: 1000 }),
        login: definePolicy('login', { limit: 1, window: 1000, block: { for: 1000, forget: 0 } }),
      };
      const sizes = (): number[] =>
        Object.values(policies).map(
          (policy) => (store.open(policy) as BlockTable).base.records!.size,
        );
      for (let call = 0; call < 5000; call++) {
        clock.advance(pauseMs);
        for (const policy of Object.values(policies)) {
          const key = `key-${call}`;
          const limits = [{ policy, params: policy.paramsFor(key), key, cost: 1 }];
          store.decideSync({ limits, peek: false }, clock.now());
          store.decideSync({ limits, peek: false }, clock.now());
        }
      }
      for (const size of sizes()) expect(size).toBeLessThan(1000);
      expect(Math.min(...sizes())).toBeGreaterThan(0);
    },
  );
});
