/**
 * Simulates processes that admit calls with leases, while clocks, network and processes fail. The
 * processes run the code of the library; the store is the model (lease-model.ts). All times and
 * faults follow from the seed.
 *
 * Every unit is recorded at the server's time at which it was spent: when the store decided, or
 * when a process admitted the call. At the end, the units of each window are summed. No window may
 * contain more than the limit. Refunded units do not count. Neither do units that `settle` adds,
 * since it may exceed the limit.
 *
 * During the run, the store must never count fewer units than were spent in the window that ends
 * now. Otherwise, the limit would be exceeded if a client used all free units at this moment.
 */

import type { Charge } from '../../packages/sluice/src/decision.ts';
import { definePolicy, type Policy } from '../../packages/sluice/src/policy.ts';
import type { Limit } from '../../packages/sluice/src/store.ts';
import { type Fault, Faults, PROCESS_FAULTS } from './faults.ts';
import { LeaseModel, type ModelPolicy, type Mutation } from './lease-model.ts';
import { type Exceeded, Ledger, type Spent } from './ledger.ts';
import { type Link, Network } from './network.ts';
import { MAX_DRIFT, Process } from './process.ts';
import { Random } from './random.ts';
import { type Rhythm, rhythmOf } from './rhythm.ts';
import { World } from './world.ts';

/** The number of calls of a run. */
const CALLS = 500;
/** The longest time that a run simulates, in windows. */
const MAX_WINDOWS = 5;
const MAX_COST = 5;

export interface RunResult {
  readonly seed: number;
  readonly exceeded: readonly Exceeded[];
  /** How often the store counted fewer units than were spent in its current window. */
  readonly uncounted: number;
  readonly faults: Readonly<Record<Fault, number>>;
  /** Calls admitted with leases, admitted by the store, and denied. */
  readonly leased: number;
  readonly stored: number;
  readonly denied: number;
  /** Leases that ended with units that were not reported. */
  readonly expired: number;
  readonly refunds: number;
  /** The policies and the load, as text. */
  readonly setting: string;
}

/** One limit: its policy, its state in the store, and the units that were spent. */
interface Key {
  readonly policy: Policy;
  readonly model: LeaseModel;
  readonly ledger: Ledger;
}

/** A charge, and the units that it spent. */
interface Receipt {
  readonly key: Key;
  readonly charge: Pick<Charge, 'atMs' | 'cost' | 'lease'>;
  readonly spent: Spent;
}

interface Member {
  readonly process: Process;
  readonly link: Link;
}

export interface RunOptions {
  readonly mutation?: Mutation | undefined;
}

class Run {
  readonly #random: Random;
  readonly #world = new World();
  readonly #faults: Faults;
  readonly #keys: readonly Key[];
  readonly #members: readonly Member[];
  readonly #serverRate: number;
  readonly #windowMs: number;
  readonly #leaseMs: number;
  /** The demand relative to the limit. */
  readonly #load: number;
  readonly #maxCost: number;
  readonly #rhythm: Rhythm;
  readonly #refunds: number;
  /** After which part of the faults the greedy client comes. */
  readonly #greedyAtFault: number;
  /** After which part of the leased calls it comes: soon, or one window later. */
  readonly #greedySoon: number;
  readonly #greedyLater: number;
  #calls = CALLS;
  readonly counts = { uncounted: 0, leased: 0, stored: 0, denied: 0, refunds: 0 };

  constructor(seed: number, { mutation }: RunOptions) {
    const random = new Random(seed);
    this.#random = random;
    this.#faults = new Faults(random, () => {
      if (random.chance(this.#greedyAtFault))
        this.#beGreedy(this.#keys, random.exponential(this.#leaseMs / 8));
    });
    this.#serverRate = 1 + random.between(-MAX_DRIFT, MAX_DRIFT);
    this.#windowMs = random.pick([200, 1000, 5000, 30_000, 60_000, 60_000]);
    this.#load = random.pick([0.1, 0.5, 1, 2, 4]);
    this.#refunds = random.pick([0, 0.03, 0.3]);
    this.#greedyAtFault = random.pick([0, 0, 0.05]);
    this.#greedySoon = random.pick([0, 0.01, 0.05]);
    this.#greedyLater = random.pick([0, 0.03, 0.2]);
    const maxLeaseMs = random.pick([1000, 1000, 20]);
    this.#leaseMs = Math.min(maxLeaseMs, this.#windowMs / 32);
    this.#keys = Array.from({ length: random.integer(1, 2) }, (_, place) => {
      const policy = policyFrom(random, `p${place}`, this.#windowMs);
      const { limit } = policy.params!;
      const ledger = new Ledger(limit, this.#windowMs);
      return { policy, model: new LeaseModel(paramsOf(policy), mutation), ledger };
    });
    const network = new Network(this.#world, random, this.#faults, this.#leaseMs);
    const count = random.pick([1, 2, 2, 3, 16]);
    this.#maxCost = random.pick([1, 3, MAX_COST]);
    this.#rhythm = rhythmOf(random, {
      windowMs: this.#windowMs,
      leaseMs: this.#leaseMs,
      calls: (this.#load * this.#keys[0].policy.params!.limit * 2) / (this.#maxCost + 1) / count,
    });
    this.#members = Array.from({ length: count }, () => this.#member(network, maxLeaseMs));
  }

  async result(seed: number): Promise<RunResult> {
    const { firstMs } = this.#rhythm;
    for (const member of this.#members) this.#scheduleBurst(member, firstMs());
    await this.#world.runUntil(MAX_WINDOWS * this.#windowMs);
    const exceeded = this.#keys.flatMap(({ ledger }) => ledger.exceeded());
    const expired = this.#keys.reduce((sum, { model }) => sum + model.expired, 0);
    const policies = this.#keys.map(({ policy }) => describe(policy)).join(' and ');
    const setting = `${this.#members.length} processes, load ${this.#load}, ${policies}`;
    return { seed, exceeded, faults: this.#faults.counts, expired, setting, ...this.counts };
  }

  get #serverMs(): number {
    return Math.floor(1.745e12 + this.#world.nowMs * this.#serverRate);
  }

  #member(network: Network, maxLeaseMs: number): Member {
    const link = network.newLink();
    const process: Process = new Process(
      this.#world,
      this.#random,
      this.#faults,
      ({ policy }, request) =>
        new Promise((resolve, reject) => {
          const { model } = this.#keys.find((key) => key.policy === policy)!;
          const settle = process.guarded((work: () => void) => {
            work();
            this.#world.settled();
          });
          link.send(
            () => model.lend(this.#serverMs, request),
            (grant) => settle(() => resolve(grant)),
            () => settle(() => reject(new Error('No reply'))),
          );
        }),
      maxLeaseMs,
    );
    return { process, link };
  }

  /** Calls come in bursts, which are short enough that the keys become hot. */
  #scheduleBurst(member: Member, startMs: number): void {
    const random = this.#random;
    const { calls, meanMs, pauseMs } = this.#rhythm.next();
    let left = calls;
    const next = (): void => {
      this.#call(member);
      if (--left > 0) this.#world.after(random.exponential(meanMs), next);
      else if (this.#calls > 0) this.#scheduleBurst(member, startMs + pauseMs);
    };
    this.#world.at(startMs, next);
  }

  #call(member: Member): void {
    if (--this.#calls < 0) return;
    const random = this.#random;
    const keys = random.chance(0.15) ? this.#keys : [random.pick(this.#keys)];
    const costs = keys.map(() => random.integer(1, this.#maxCost));
    member.process.guarded(() => this.#check(member, keys, costs))();
  }

  #check(member: Member, keys: readonly Key[], costs: readonly number[]): void {
    const limits = keys.map(
      ({ policy }, at): Limit => ({ policy, params: policy.params!, key: 'k', cost: costs[at] }),
    );
    const result = member.process.leases.decide({ limits, peek: false });
    if (result === undefined) this.#checkInStore(member, keys, costs);
    else {
      this.counts.leased++;
      const receipts = keys.map((key, at) => this.#spend(key, result.limits[at]));
      this.#adjustLater(member, receipts);
      this.#attractGreedy(keys);
    }
    this.#disturb(member.process);
  }

  #checkInStore(member: Member, keys: readonly Key[], costs: readonly number[]): void {
    const execute = (): readonly Receipt[] | undefined => {
      const nowMs = this.#serverMs;
      const fits = keys.every(({ model }, at) => costs[at] <= model.free(nowMs));
      if (!fits) this.counts.denied++;
      if (!fits) return undefined;
      this.counts.stored++;
      return keys.map((key, at) => {
        const { atMs } = key.model.decide(nowMs, costs[at], true);
        return this.#spend(key, { atMs, cost: costs[at] });
      });
    };
    const received = member.process.guarded((receipts: readonly Receipt[] | undefined) => {
      if (receipts !== undefined) this.#adjustLater(member, receipts);
    });
    member.link.send(execute, received, () => {});
  }

  /** Schedules a client without leases, see `#beGreedy`. */
  #attractGreedy(keys: readonly Key[]): void {
    const random = this.#random;
    const someMs = random.between(0, this.#leaseMs);
    if (random.chance(this.#greedySoon)) this.#beGreedy(keys, someMs);
    if (random.chance(this.#greedyLater)) this.#beGreedy(keys, this.#windowMs - someMs / 8);
  }

  /**
   * Takes all units of the keys that are free after a delay. So if the store does not count a unit,
   * or no longer, while it should, the limit is exceeded.
   */
  #beGreedy(keys: readonly Key[], delayMs: number): void {
    this.#world.after(delayMs, () => {
      for (const key of keys) {
        this.#audit(key);
        const cost = key.model.free(this.#serverMs);
        if (cost <= 0) continue;
        key.model.decide(this.#serverMs, cost, true);
        this.#spend(key, { atMs: this.#serverMs, cost });
      }
    });
  }

  #spend(key: Key, charge: Receipt['charge']): Receipt {
    const spent = key.ledger.spend(this.#serverMs, charge.cost);
    this.#audit(key);
    return { key, charge, spent };
  }

  /** Checks that the store counts all units that were spent in the current window. */
  #audit({ policy, model, ledger }: Key): void {
    const counted = policy.params!.limit - model.free(this.#serverMs);
    if (counted < ledger.inWindow(this.#serverMs)) this.counts.uncounted++;
  }

  /** Refunds or settles some receipts: at once, during the lease, or about one window later. */
  #adjustLater(member: Member, receipts: readonly Receipt[]): void {
    const random = this.#random;
    if (!random.chance(this.#refunds)) return;
    const delayMs = random.pick([
      0,
      random.between(0, this.#leaseMs),
      random.between(0, this.#windowMs),
      this.#windowMs + random.between(-0.02, 0.01) * this.#leaseMs,
    ]);
    const isRefund = random.chance(0.7);
    const work = (): void => {
      for (const receipt of receipts) {
        const { cost } = receipt.charge;
        this.#adjust(member, receipt, isRefund ? -cost : random.integer(-cost, MAX_COST));
      }
    };
    this.#world.after(delayMs, member.process.guarded(work));
  }

  #adjust({ link }: Member, { key, charge, spent }: Receipt, delta: number): void {
    this.counts.refunds++;
    if (delta < 0) key.ledger.refund(spent, -delta);
    // The store remembers the receipt, so that a second copy of the command changes nothing.
    let isUsed = false;
    const execute = (): void => {
      if (!isUsed) key.model.adjust(this.#serverMs, charge, delta);
      this.#audit(key);
      isUsed = true;
    };
    link.send(
      execute,
      () => {},
      () => {},
    );
  }

  #disturb(process: Process): void {
    const random = this.#random;
    for (const fault of PROCESS_FAULTS) {
      if (!this.#faults.occurs(fault)) continue;
      const forMs = this.#leaseMs * random.pick([random.next(), random.between(0, 3), 32]);
      if (fault === 'pause') process.pause(forMs);
      else if (fault === 'suspension') process.suspend(forMs);
      else if (fault === 'crash') process.crash();
      else if (fault === 'shutdown') process.shutDown();
      else process.setClock(fault === 'clock set back' ? -forMs : forMs);
    }
  }
}

function policyFrom(random: Random, name: string, windowMs: number): Policy {
  const limit = random.pick([30, 100, 300, 1000, 1000]);
  const isLog = random.chance(0.5);
  const lease = { maxShare: random.pick([0.05, 0.25, 0.25]) };
  const rest = { limit, window: windowMs, lease };
  if (isLog) return definePolicy(name, { ...rest, algorithm: 'sliding-log' });
  const buckets = random.pick([4, 60, 200]);
  return definePolicy(name, { ...rest, algorithm: 'sliding-buckets', buckets });
}

/** A sliding log has an entry for each millisecond. */
const paramsOf = ({ algorithm, params, bucketMs }: Policy): ModelPolicy => ({
  ...params!,
  bucketMs: algorithm === 'sliding-log' ? 1 : bucketMs,
});

function describe(policy: Policy): string {
  const { algorithm } = policy;
  const { limit, windowMs, bucketMs } = paramsOf(policy);
  return `${limit} per ${windowMs} ms (${algorithm}, buckets of ${bucketMs} ms)`;
}

/** Simulates the run of a seed. */
export function simulateLeases(seed: number, options: RunOptions = {}): Promise<RunResult> {
  return new Run(seed, options).result(seed);
}
