/**
 * Compares the Redis scripts with the model of leases (tools/simulate/lease-model.ts) on random
 * traces, in every field of every reply.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { LeaseModel, type ModelDecision } from '../../../../tools/simulate/lease-model.ts';
import type { CheckResult } from '../../src/decision.ts';
import type { LeaseRequest } from '../../src/leases/lease.ts';
import { definePolicy, type Policy } from '../../src/policy.ts';
import { Batcher } from '../../src/stores/redis/batch.ts';
import { KeyNames } from '../../src/stores/redis/keys.ts';
import { LendOperation } from '../../src/stores/redis/operations.ts';
import { RedisStore } from '../../src/stores/redis/redis-store.ts';
import { isFull, newPrefix, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const TRACES = isFull ? 5_000 : 150;
const STEPS = 80;
const AT_ONCE = 50;
const START_MS = 1_745_000_100_000;

const names = new KeyNames(newPrefix());
let batcher: Batcher;
let store: RedisStore;

beforeAll(() => {
  batcher = new Batcher(world.send, false, 60_000);
  store = new RedisStore(batcher, false, names);
});

interface Leg {
  readonly policy: Policy;
  readonly model: LeaseModel;
}

interface TraceCharge {
  readonly leg: Leg;
  readonly atMs: number;
  readonly cost: number;
  readonly lease?: number;
}

/** A process that borrows, as the store sees it. */
interface Borrower {
  readonly leg: Leg;
  readonly id: number;
  spent: number;
  units: number;
  /** The requests so far, of which late copies can arrive. */
  readonly requests: LeaseRequest[];
  grantedMs: number;
}

function legFrom(dice: Dice, name: string, window: number): Leg {
  const algorithm = dice.pick(['sliding-log', 'sliding-buckets'] as const);
  const buckets = algorithm === 'sliding-buckets' ? { buckets: dice.pick([1, 4, 60]) } : {};
  const limit = dice.pick([5, 20, 100, 1000]);
  const policy = definePolicy(name, { limit, window, algorithm, ...buckets, lease: true });
  // A sliding log has an entry for each millisecond.
  const bucketMs = algorithm === 'sliding-log' ? 1 : policy.bucketMs;
  return { policy, model: new LeaseModel({ limit, windowMs: window, bucketMs }) };
}

/** The fields of a decision that both have. */
const fromModel = ({ atMs, waitMs, free, resetMs }: ModelDecision) => ({
  ...{ atMs, retryAfterMs: waitMs, remaining: Math.max(free, 0), resetAfterMs: resetMs },
});
const fromRedis = ({ limits }: CheckResult) =>
  limits.map(({ atMs, retryAfterMs, remaining, resetAfterMs }) => ({
    ...{ atMs, retryAfterMs, remaining, resetAfterMs },
  }));

/** Runs the steps of one seed on both, and compares the results. */
class Trace {
  readonly #dice: Dice;
  readonly #key: string;
  readonly #windowMs: number;
  readonly #legs: readonly Leg[];
  readonly #borrowers: readonly Borrower[];
  readonly #isBack: boolean;
  readonly #charges: TraceCharge[] = [];
  readonly #steps: string[] = [];
  #latestMs = START_MS;
  #nowMs = START_MS;

  constructor(seed: number) {
    const dice = new Dice(seed);
    this.#dice = dice;
    this.#key = `k${seed}`;
    this.#windowMs = dice.pick([100, 1000, 60_000]);
    const count = 1 + dice.roll(2);
    this.#legs = Array.from({ length: count }, (_, at) => legFrom(dice, `p${at}`, this.#windowMs));
    this.#borrowers = Array.from({ length: 1 + dice.roll(4) }, (_, at) => ({
      ...{ leg: dice.pick(this.#legs), id: 2 ** 48 - 1 - at, spent: 0, units: 0 },
      ...{ requests: [], grantedMs: 0 },
    }));
    this.#isBack = dice.roll(4) === 0;
  }

  /** Returns the first step with a difference, and the steps before; or undefined. */
  async difference(): Promise<string | undefined> {
    for (let step = 0; step < STEPS; step++) {
      this.#advance();
      const [text, model, redis] = await this.#step();
      this.#steps.push(`${this.#nowMs - START_MS} ${text} ${JSON.stringify(redis)}`);
      if (JSON.stringify(model) === JSON.stringify(redis)) continue;
      const policies = this.#legs.map(({ policy }) => JSON.stringify(policy));
      const steps = this.#steps.slice(-25).join('\n');
      return `${this.#key} ${policies.join()}\n${steps}\n model ${JSON.stringify(model)}`;
    }
    return undefined;
  }

  #advance(): void {
    const dice = this.#dice;
    const most = Math.ceil(this.#windowMs * dice.pick([0.001, 0.01, 0.01, 0.05, 0.3, 1.1]));
    this.#nowMs = Math.max(this.#nowMs, this.#latestMs) + dice.roll(most);
    this.#latestMs = this.#nowMs;
    if (this.#isBack && dice.roll(12) === 0) this.#nowMs -= dice.roll(this.#windowMs);
  }

  /** Runs one operation. Returns its description and both results. */
  #step(): Promise<readonly [string, unknown, unknown]> {
    const kind = this.#dice.roll(20);
    if (kind < 6) return this.#check(kind < 5);
    if (kind < 12) return this.#lend();
    if (kind < 16) return this.#adjust();
    if (kind < 17 && this.#dice.roll(5) === 0) return this.#reset();
    return this.#inspect();
  }

  async #check(take: boolean) {
    const limits = this.#legs.map(({ policy }) => {
      const most = this.#dice.pick([2, 5, policy.params!.limit]);
      return { policy, params: policy.params!, key: this.#key, cost: 1 + this.#dice.roll(most) };
    });
    for (const limit of limits) limit.cost = Math.min(limit.cost, limit.params.limit);
    const decide = (isTaken: boolean) =>
      this.#legs.map(({ model }, at) => model.decide(this.#nowMs, limits[at].cost, isTaken));
    const peeks = decide(false);
    const fits = take && peeks.every(({ waitMs }) => waitMs === 0);
    const model = fits ? decide(true) : peeks;
    const [redis] = await store.decide([{ limits, peek: !take }], this.#nowMs);
    for (const [at, leg] of fits ? this.#legs.entries() : []) {
      this.#charges.push({ leg, atMs: model[at].atMs, cost: limits[at].cost });
    }
    const text = `${take ? 'check' : 'peek'} ${limits.map(({ cost }) => cost)}`;
    return [text, model.map(fromModel), fromRedis(redis)] as const;
  }

  /** A request of a borrower that has spent some units, or a late copy of an earlier one. */
  async #lend() {
    const dice = this.#dice;
    const borrower = dice.pick(this.#borrowers);
    const { leg, requests } = borrower;
    const isCopy = requests.length > 0 && dice.roll(6) === 0;
    if (!isCopy) this.#spend(borrower);
    const request = isCopy
      ? dice.pick(requests.slice(-3))
      : this.#requestOf(borrower, Math.ceil(this.#windowMs / dice.pick([32, 100])));
    const name = names.of(leg.policy, this.#key);
    const limit = { policy: leg.policy, params: leg.policy.params!, key: this.#key, cost: 0 };
    const operation = new LendOperation(limit, [name, names.ofRecords(name)], request);
    const model = leg.model.lend(this.#nowMs, request);
    const redis = await batcher.do(operation, this.#nowMs);
    if (!isCopy) {
      borrower.units = redis.units;
      borrower.grantedMs = redis.atMs;
    }
    return [`lend ${leg.policy.name} ${JSON.stringify(request)}`, model, redis] as const;
  }

  #spend(borrower: Borrower): void {
    const cost = this.#dice.roll(borrower.units + 1);
    if (cost === 0) return;
    borrower.units -= cost;
    borrower.spent += cost;
    const atMs = borrower.grantedMs + this.#dice.roll(this.#nowMs - borrower.grantedMs + 1);
    this.#charges.push({ leg: borrower.leg, atMs, cost, lease: borrower.id });
  }

  #requestOf({ id, spent, requests, grantedMs }: Borrower, lengthMs: number): LeaseRequest {
    const dice = this.#dice;
    const request = {
      ...{ id, number: requests.length + 1, want: dice.roll(dice.pick([1, 5, 50, 500])) },
      ...{ lengthMs, thousandths: dice.pick([50, 250]), spent, acked: requests.at(-1)?.spent ?? 0 },
      endsMs: grantedMs === 0 ? 0 : grantedMs + lengthMs,
    };
    requests.push(request);
    return request;
  }

  /** A refund, or a settlement for less or more than the charge. */
  async #adjust() {
    const dice = this.#dice;
    for (const borrower of this.#borrowers) if (dice.roll(3) === 0) this.#spend(borrower);
    const charge = this.#charges.at(-1 - dice.roll(Math.min(this.#charges.length, 12)));
    if (charge === undefined) return this.#inspect();
    const { leg, ...own } = charge;
    const { policy, model } = leg;
    const delta = dice.roll(2) === 0 ? -own.cost : dice.roll(own.cost + 10) - own.cost;
    const adjustment = {
      ...{ policy, params: policy.params!, delta },
      charge: { policy: policy.name, key: this.#key, ...own },
    };
    const change = model.adjust(this.#nowMs, own, delta);
    const redis = await store.adjust([adjustment], this.#nowMs);
    return [`adjust ${policy.name} ${JSON.stringify(own)} by ${delta}`, [change], redis] as const;
  }

  async #reset() {
    const { policy, model } = this.#dice.pick(this.#legs);
    model.reset(this.#nowMs);
    await store.reset(policy, this.#key, this.#nowMs);
    return [`reset ${policy.name}`, 0, 0] as const;
  }

  async #inspect() {
    const { policy, model } = this.#dice.pick(this.#legs);
    const { entries, leases, resetMs, ...rest } = model.inspect(this.#nowMs);
    const expected = {
      ...{ ...rest, resetAfterMs: resetMs, entryCount: entries.length },
      entries: entries.map(({ stampMs, cost }) => ({ atMs: stampMs, cost })),
      leases,
    };
    const state = await store.inspect(policy, policy.params!, this.#key, this.#nowMs);
    const redis = state && {
      ...{ used: state.used, remaining: state.remaining, resetAfterMs: state.resetAfterMs },
      ...{ entryCount: state.entryCount, entries: state.entries, leases: state.leases ?? [] },
    };
    return [`inspect ${policy.name}`, resetMs > 0 ? expected : undefined, redis] as const;
  }
}

describe('the Redis scripts and the model of leases', () => {
  it(`Redis and the model of leases agree on ${TRACES} random traces`, async () => {
    const found: string[] = [];
    for (let done = 0; done < TRACES && found.length === 0; done += AT_ONCE) {
      const seeds = Array.from({ length: Math.min(AT_ONCE, TRACES - done) }, (_, at) => done + at);
      const all = await Promise.all(seeds.map((seed) => new Trace(seed + 1).difference()));
      found.push(...all.filter((each) => each !== undefined));
    }
    expect(found.slice(0, 3)).toEqual([]);
  });
});
