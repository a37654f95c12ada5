/**
 * The leases of a process: admits calls of hot keys without a call to the store.
 *
 * The memory is bounded: at most `MAX_KEYS` keys are observed, about 400 bytes each. When another
 * key is added, the one that was added first is deleted, unless it has a lease.
 */
import { monotonicClock, scheduleInBackground, systemClock } from '../clock.ts';
import { type CheckResult, DecisionRecord, jointDecision } from '../decision.ts';
import type { Policy } from '../policy.ts';
import type { Check, Limit } from '../store.ts';
import type { CallQueue } from './call-queue.ts';
import { Holder } from './holder.ts';
import type { Clocks, Grant, Lease, LeaseRequest } from './lease.ts';

const MAX_KEYS = 10_000;
/** The number of keys that are checked for one to delete. */
const SAMPLED = 8;
/** The longest lease, as a part of the window. Longer ones would leave too much of it unused. */
const LONGEST = 1 / 32;

/** The clocks of this process. Its timers do not keep it alive. */
const processClocks: Clocks = {
  monotonic: { now: () => monotonicClock.now(), schedule: scheduleInBackground },
  system: systemClock,
};

const ID_RANGE = 2 ** 48;
const randomId = (): number => Math.floor(Math.random() * (ID_RANGE - 1)) + 1;

/** Sends the request of a limit to the store. */
export type Lend = (limit: Limit, request: LeaseRequest) => Promise<Grant>;

interface Entry {
  readonly holder: Holder;
  /** The limit of the last check, because the parameters of a policy can change. */
  limit: Limit;
}

class LeasedDecision extends DecisionRecord {
  readonly leased = true;
  override readonly lease: number;

  constructor({ policy, params, key, cost }: Limit, lease: Lease) {
    const atMs = lease.nowMs;
    // The latest time at which the charge can be recorded, rounded up to the end of its bucket.
    const resetAfterMs = lease.endsMs - atMs + params.windowMs + params.bucketMs;
    super(policy.name, key, cost, params.capacity, 0, atMs, { free: lease.left, resetAfterMs });
    this.lease = lease.id;
  }
}

function spend({ lease }: Holder, limit: Limit): CheckResult {
  lease.spend(limit.cost);
  return new LeasedDecision(limit, lease);
}

export class Leases {
  readonly #lend: Lend;
  readonly #maxMs: number;
  readonly #clocks: Clocks;
  readonly #newId: () => number;
  readonly #entries = new Map<Policy, Map<string, Entry>>();
  #size = 0;

  /** `newId` returns the ids of leases: integers from 1 to 2^48 - 1 that no process uses twice. */
  constructor(lend: Lend, maxMs: number, clocks = processClocks, newId = randomId) {
    this.#lend = lend;
    this.#maxMs = maxMs;
    this.#clocks = clocks;
    this.#newId = newId;
  }

  /** Decides a check if all of its limits have leases with enough units. */
  decide({ limits }: Check): CheckResult | undefined {
    if (limits.length === 1) {
      const holder = this.#holderOf(limits[0]);
      return holder.canSpend(limits[0].cost) ? spend(holder, limits[0]) : undefined;
    }
    const holders = limits.map((limit) => this.#holderOf(limit));
    // Calls all of them, because `canSpend` also counts demand.
    const fits = holders.filter((holder, at) => holder.canSpend(limits[at].cost));
    if (fits.length < holders.length) return undefined;
    const decisions = holders.map((holder, at) => spend(holder, limits[at]));
    return Object.assign(jointDecision(decisions, true), { leased: true as const });
  }

  /** Whether the limit's key is hot, and the store granted fewer units than requested. */
  isShort({ policy, key }: Limit): boolean {
    return this.#entries.get(policy)?.get(key)?.holder.isShort === true;
  }

  /** Decides a check of one limit again, without counting it as demand. */
  decideAgain({ limits: [limit] }: Check): CheckResult | undefined {
    const holder = this.#holderOf(limit);
    return holder.lease.left >= limit.cost ? spend(holder, limit) : undefined;
  }

  /** Returns the calls of a limit that `decide` did not admit. */
  queueOf(limit: Limit): CallQueue {
    return this.#holderOf(limit).queue;
  }

  /**
   * Returns all units of all leases. Waits for the replies, but not longer than the longest lease:
   * then all leases have ended by themselves.
   */
  async close(): Promise<void> {
    const holders = [...this.#entries.values()].flatMap((each) => [...each.values()]);
    this.#entries.clear();
    let cancel: (() => void) | undefined;
    const haveEnded = new Promise<void>((resolve) => {
      cancel = monotonicClock.schedule(this.#maxMs, resolve);
    });
    await Promise.race([Promise.all(holders.map(({ holder }) => holder.close())), haveEnded]);
    cancel?.();
  }

  #holderOf(limit: Limit): Holder {
    const keys = this.#entries.get(limit.policy);
    const entry = keys?.get(limit.key);
    if (entry === undefined) return this.#add(limit);
    entry.limit = limit;
    return entry.holder;
  }

  #add(limit: Limit): Holder {
    const { policy, key } = limit;
    if (this.#size >= MAX_KEYS) this.#deleteOne();
    const { windowMs, lease } = policy;
    const { maxMs = this.#maxMs, thousandths } = lease!;
    const lengthMs = Math.max(Math.floor(Math.min(maxMs, this.#maxMs, windowMs * LONGEST)), 1);
    const borrow = (request: LeaseRequest): Promise<Grant> => this.#lend(entry.limit, request);
    const options = { id: this.#newId(), lengthMs, thousandths };
    const holder = new Holder(borrow, this.#clocks, options);
    const entry: Entry = { holder, limit };
    const keys = this.#entries.get(policy) ?? new Map<string, Entry>();
    this.#entries.set(policy, keys.set(key, entry));
    this.#size++;
    return holder;
  }

  /** Deletes one of the oldest keys without a lease. If all have one, returns a lease first. */
  #deleteOne(): void {
    const [[policy, keys]] = this.#entries;
    const oldest = [...take(keys, SAMPLED)];
    const [key, { holder }] = oldest.find(([, each]) => !each.holder.isActive) ?? oldest[0];
    void holder.close();
    keys.delete(key);
    if (keys.size === 0) this.#entries.delete(policy);
    this.#size--;
  }
}

function* take<T>(items: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const item of items) {
    if (left-- === 0) return;
    yield item;
  }
}
