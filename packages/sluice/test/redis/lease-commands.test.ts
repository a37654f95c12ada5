/** Commands that begin, renew and end leases, at given times on a real server. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Grant, LeaseRequest } from '../../src/leases/lease.ts';
import { definePolicy, type Policy } from '../../src/policy.ts';
import { Batcher } from '../../src/stores/redis/batch.ts';
import { KeyNames } from '../../src/stores/redis/keys.ts';
import { LendOperation } from '../../src/stores/redis/operations.ts';
import { RedisStore } from '../../src/stores/redis/redis-store.ts';
import { newPrefix, useRedis } from './campaign.ts';

const world = useRedis();
const START_MS = 1_745_000_100_000;
const LENGTH_MS = 1000;

const log = definePolicy('p', { limit: 100, window: '1m', lease: true });
const names = new KeyNames(newPrefix());
let batcher: Batcher;
let store: RedisStore;

beforeAll(() => {
  batcher = new Batcher(world.send, false, 60_000);
  store = new RedisStore(batcher, false, names);
});

/** Sends a request of a holder after `atMs`. */
function lend(key: string, atMs: number, own: Partial<LeaseRequest>, policy = log): Promise<Grant> {
  const request = {
    ...{ id: 1, number: 1, want: 10, lengthMs: LENGTH_MS, thousandths: 250 },
    ...{ spent: 0, acked: 0, endsMs: 0, ...own },
  };
  const name = names.of(policy, key);
  const limit = { policy, params: policy.params!, key, cost: 0 };
  const operation = new LendOperation(limit, [name, names.ofRecords(name)], request);
  return batcher.do(operation, START_MS + atMs);
}

const inspect = (key: string, atMs: number, policy: Policy) =>
  store.inspect(policy, policy.params!, key, START_MS + atMs);

async function used(key: string, atMs: number, policy = log): Promise<number> {
  return (await inspect(key, atMs, policy))?.used ?? 0;
}

async function resetMs(key: string, atMs: number, policy: Policy): Promise<number> {
  return (await inspect(key, atMs, policy))?.resetAfterMs ?? 0;
}

describe('commands of leases', () => {
  it('a late copy of a request does not return units that were lent later', async () => {
    expect(await lend('late', 0, { want: 2 })).toMatchObject({ units: 2 });
    expect(await lend('late', 10, { number: 2, want: 20 })).toMatchObject({ units: 20 });
    expect(await lend('late', 20, { want: 2 })).toMatchObject({ units: 0 });
    expect(await used('late', 30)).toBe(20);
  });

  it('units that were not reported can be refunded before the first report', async () => {
    await lend('refund', 0, { want: 10 });
    const charge = { policy: 'p', key: 'refund', cost: 4, atMs: START_MS + 1, lease: 1 };
    const refund = { policy: log, params: log.params!, charge, delta: -4 };
    expect(await store.adjust([refund], START_MS + 10)).toEqual([-4]);
    expect(await used('refund', 20)).toBe(6);
    expect(await used('refund', LENGTH_MS)).toBe(6);
  });

  it('units of a lease count until the bucket of its end has left the window', async () => {
    const own = { limit: 100, window: '1m', algorithm: 'sliding-buckets', buckets: 4 } as const;
    const buckets = definePolicy('b', { ...own, lease: true });
    await lend('bucket', 0, {}, buckets);
    const before = await used('bucket', LENGTH_MS - 1, buckets);
    const leavesMs = await resetMs('bucket', LENGTH_MS - 1, buckets);
    expect([before, leavesMs > 60_000 + 1]).toEqual([10, true]);
    expect(await used('bucket', LENGTH_MS - 2 + leavesMs, buckets)).toBe(10);
    expect(await used('bucket', LENGTH_MS - 1 + leavesMs, buckets)).toBe(0);
  });

  it('a refund does not take units from a lease that no longer has the charge', async () => {
    await lend('cross', 0, {});
    await lend('cross', 0, { id: 2 });
    const refund = (lease: number, atMs: number, nowMs: number) => {
      const charge = { policy: 'p', key: 'cross', cost: 5, atMs: START_MS + atMs, lease };
      const refund = { policy: log, params: log.params!, charge, delta: -5 };
      return store.adjust([refund], START_MS + nowMs);
    };
    // Lease 1 has spent 5 units at 5, and reports them. Lease 2 spends 5 units at 11.
    await lend('cross', 10, { number: 2, spent: 5 });
    await refund(2, 11, 12);
    await refund(1, 5, 13);
    // Lease 2 is returned. Lease 1 has spent its 10 units, and is returned too.
    await lend('cross', 14, { id: 2, number: 2, spent: 5, want: 0 });
    await lend('cross', 900, { number: 3, spent: 15, acked: 5, want: 0 });
    expect(await used('cross', 60_100)).toBeGreaterThanOrEqual(10);
  });

  it('a second copy of the newest request returns the same grant', async () => {
    const first = await lend('copy', 0, { want: 10 });
    expect(await lend('copy', 10, { want: 10 })).toEqual(first);
    expect(await used('copy', LENGTH_MS - 1)).toBe(10);
  });
});
