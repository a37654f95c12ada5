/** The holder of a lease, with manual clocks: when it borrows, and when its units end. */
import { describe, expect, it } from 'vitest';
import { definePolicy, ManualClock } from '../../src/index.ts';
import { Holder } from '../../src/leases/holder.ts';
import type { Grant, LeaseRequest } from '../../src/leases/lease.ts';
import { Leases } from '../../src/leases/leases.ts';

const LENGTH_MS = 1000;

/** A holder whose requests are collected. `grant` replies to the last one with all it wants. */
function open() {
  const monotonic = new ManualClock(5000);
  const system = new ManualClock(1_745_000_000_000);
  const requests: LeaseRequest[] = [];
  let reply: { resolve(grant: Grant): void; reject(error: unknown): void } | undefined;
  const borrow = (request: LeaseRequest): Promise<Grant> => {
    requests.push(request);
    return new Promise((resolve, reject) => {
      reply = { resolve, reject };
    });
  };
  const options = { id: 1, lengthMs: LENGTH_MS, longestMs: 4 * LENGTH_MS, thousandths: 250 };
  const holder = new Holder(borrow, { monotonic, system }, options);
  const advance = (ms: number): void => {
    system.advance(ms);
    monotonic.advance(ms);
  };
  const settle = async (work: () => void): Promise<void> => {
    work();
    await Promise.resolve();
    await Promise.resolve();
  };
  return {
    ...{ holder, monotonic, system, requests, advance },
    last: () => requests.at(-1)!,
    grant: (units = requests.at(-1)!.want) =>
      settle(() => reply!.resolve({ units, atMs: system.now() })),
    fail: () => settle(() => reply!.reject(new Error('lost'))),
  };
}

/** Creates demand until the holder sends a request. */
function demand({ holder, requests, advance }: ReturnType<typeof open>): void {
  const before = requests.length;
  for (let count = 0; requests.length === before && count < 100; count++) {
    holder.canSpend(1);
    advance(1);
  }
}

describe('when a process borrows', () => {
  it('ten calls within a lease length cause a request, nine do not', () => {
    const world = open();
    for (let count = 0; count < 9; count++) world.holder.canSpend(1);
    expect(world.requests).toHaveLength(0);
    world.holder.canSpend(1);
    expect(world.requests).toHaveLength(1);
  });

  it('a key with less demand per lease length is never requested', () => {
    const world = open();
    for (let count = 0; count < 200; count++) {
      world.holder.canSpend(1);
      world.advance(LENGTH_MS / 4);
    }
    expect(world.requests).toHaveLength(0);
  });

  it('a request wants a quarter more than the demand of a lease length', () => {
    const world = open();
    for (let count = 0; count < 10; count++) {
      world.advance(1);
      world.holder.canSpend(1);
    }
    expect(world.last()).toMatchObject({ want: 1.25 * LENGTH_MS, spent: 0, acked: 0, endsMs: 0 });
  });

  it('a lease with few units left is renewed once, and reports what was spent', async () => {
    const world = open();
    demand(world);
    const { want } = world.last();
    await world.grant();
    const { holder, requests } = world;
    while (requests.length === 1 && holder.canSpend(1)) holder.lease.spend(1);
    expect(requests).toHaveLength(2);
    const { spent } = world.last();
    expect(spent / want).toBeGreaterThan(0.65);
    expect(spent / want).toBeLessThan(0.75);
    for (let count = 0; count < 10; count++) holder.canSpend(1);
    expect(requests).toHaveLength(2);
  });

  it('a lease without demand is returned before it ends', async () => {
    const world = open();
    demand(world);
    await world.grant();
    world.advance(0.8 * LENGTH_MS);
    expect(world.last()).toMatchObject({ want: 0 });
    expect(world.holder.lease.left).toBe(0);
    await world.grant(0);
    world.advance(10 * LENGTH_MS);
    expect(world.requests).toHaveLength(2);
    expect(world.holder.isActive).toBe(false);
  });

  it.each([0, 100])(
    'after a grant of %i units, fewer than requested, a delay follows',
    async (units) => {
      const world = open();
      demand(world);
      await world.grant(units);
      world.holder.lease.spend(units);
      for (let count = 0; count < 50; count++) world.holder.canSpend(1);
      expect(world.requests).toHaveLength(1);
      world.advance(LENGTH_MS / 2);
      world.holder.canSpend(1);
      expect(world.requests).toHaveLength(2);
    },
  );

  it('a failed request is followed by another one with the same report', async () => {
    const world = open();
    demand(world);
    await world.grant();
    const { holder, requests } = world;
    while (holder.canSpend(1) && requests.length === 1) holder.lease.spend(1);
    const { spent } = world.last();
    await world.fail();
    holder.canSpend(1);
    expect(requests).toHaveLength(2);
    world.advance(250);
    expect(requests).toHaveLength(3);
    expect(world.last()).toMatchObject({ spent, acked: 0 });
  });

  it('a closed holder returns its units and sends no further request', async () => {
    const world = open();
    demand(world);
    await world.grant();
    const closed = world.holder.close();
    expect(world.last()).toMatchObject({ want: 0 });
    await world.grant(0);
    await closed;
    demand(world);
    expect(world.requests).toHaveLength(2);
  });
});

describe('when borrowed units end', () => {
  it('a lease ends 99 % of its length after its request was sent', async () => {
    const world = open();
    demand(world);
    const sentMs = world.monotonic.now();
    world.advance(300);
    await world.grant();
    expect(world.holder.lease.left).toBeGreaterThan(0);
    // Moves the clocks without timers, as in a pause.
    world.monotonic.set(sentMs - 1 + 0.99 * LENGTH_MS - 1);
    expect(world.holder.lease.left).toBeGreaterThan(0);
    world.monotonic.set(sentMs + 0.99 * LENGTH_MS);
    expect(world.holder.lease.left).toBe(0);
  });

  it.each(['monotonic', 'system'] as const)(
    'a pause that only the %s clock shows ends the lease',
    async (clock) => {
      const world = open();
      demand(world);
      await world.grant();
      expect(world.holder.canSpend(1)).toBe(true);
      world[clock].set(world[clock].now() + 2 * LENGTH_MS);
      expect(world.holder.canSpend(1)).toBe(false);
    },
  );

  it('a system clock that is set back does not extend the lease', async () => {
    const world = open();
    demand(world);
    await world.grant();
    world.system.set(world.system.now() - 60_000);
    world.monotonic.set(world.monotonic.now() + LENGTH_MS);
    expect(world.holder.lease.left).toBe(0);
  });

  it('a reply that arrives after the end of the lease grants nothing', async () => {
    const world = open();
    demand(world);
    world.advance(2 * LENGTH_MS);
    await world.grant();
    expect(world.holder.lease.left).toBe(0);
  });

  it('a request for a shorter lease ends the units that are left earlier', async () => {
    const world = open();
    demand(world);
    await world.grant(100);
    const { lease } = world.holder;
    lease.request(100, 250, LENGTH_MS / 4, lease.now());
    world.monotonic.set(world.monotonic.now() + LENGTH_MS / 4);
    expect(lease.left).toBe(0);
  });

  it('units spent while a renewal is pending are subtracted from its grant', async () => {
    const world = open();
    demand(world);
    await world.grant();
    const { holder, requests } = world;
    while (holder.canSpend(1) && requests.length === 1) holder.lease.spend(1);
    holder.lease.spend(5);
    await world.grant(60);
    expect(holder.lease.left).toBe(55);
  });

  it('a request for fewer units than are left returns the rest immediately', async () => {
    const world = open();
    demand(world);
    await world.grant(100);
    world.holder.lease.request(30, 250, LENGTH_MS, world.holder.lease.now());
    expect(world.holder.lease.left).toBe(30);
  });
});

describe('the observed keys', () => {
  it('at most 10,000 keys are observed, and a lease outlives keys without one', async () => {
    const policy = definePolicy('p', { limit: 1000, window: '1m', lease: true });
    const { params } = policy;
    const monotonic = new ManualClock(0);
    let requests = 0;
    const lend = async (_limit: unknown, { want }: LeaseRequest): Promise<Grant> => {
      requests++;
      return { units: want, atMs: 0 };
    };
    const leases = new Leases(lend, 1000, { monotonic, system: new ManualClock(0) });
    const check = (key: string) =>
      leases.decide({ limits: [{ policy, params: params!, key, cost: 1 }], peek: false });
    for (let count = 0; count < 10; count++) check('hot');
    await Promise.resolve();
    await Promise.resolve();
    expect(check('hot')).toMatchObject({ leased: true });
    for (let key = 0; key < 30_000; key++) check(`rare ${key}`);
    expect(check('hot')).toMatchObject({ leased: true });
    expect(requests).toBe(1);
  });
});
