/**
 * A second implementation of one limit with leases, written from the definition: plain arrays that
 * are summed for each decision. The Lua scripts (leases.lua, sliding-log.lua) must return the same.
 *
 *     item             units that count              until
 *     entry at t       those recorded                stamp(t) + W
 *     lease that ends  those lent and not refunded   stamp(end) + W: it becomes an entry at its end
 *
 * `stamp(t)` is the last millisecond of the bucket of t; a bucket of a sliding log has 1 ms.
 */

export interface ModelPolicy {
  readonly limit: number;
  readonly windowMs: number;
  readonly bucketMs: number;
}

interface Entry {
  readonly stampMs: number;
  readonly cost: number;
}

interface ModelLease {
  readonly id: number;
  /** The units that have not been reported as spent. */
  readonly units: number;
  /** Units that were spent, not yet reported and refunded. */
  readonly refunded: number;
  /** The number of units that the holder has reported in total. */
  readonly reported: number;
  /** The number of the newest request. */
  readonly number: number;
  readonly startMs: number;
  readonly endsMs: number;
}

/** What a holder sends, see `LeaseRequest` of the library. */
export interface ModelRequest {
  readonly id: number;
  readonly number: number;
  readonly want: number;
  readonly lengthMs: number;
  readonly thousandths: number;
  readonly spent: number;
  readonly acked: number;
  readonly endsMs: number;
}

export interface ModelCharge {
  readonly atMs: number;
  readonly cost: number;
  readonly lease?: number | undefined;
}

export interface ModelDecision {
  readonly atMs: number;
  /** 0 if the cost fits. */
  readonly waitMs: number;
  readonly free: number;
  readonly resetMs: number;
}

/** The state of the limit at the time of an operation. */
interface View {
  readonly timeMs: number;
  entries: readonly Entry[];
  /** The latest time that the log has seen; undefined for a new log. */
  knownMs: number | undefined;
  leases: readonly ModelLease[];
}

/**
 * A wrong rule, to show that a simulation finds it. `grant`: units are recorded at the time of
 * their grant, instead of the time of their report or the end of the lease.
 */
export type Mutation = 'grant';

const MOST_LEASES = 128;

export class LeaseModel {
  readonly #policy: ModelPolicy;
  readonly #mutation: Mutation | undefined;
  #entries: readonly Entry[] = [];
  #knownMs: number | undefined;
  #leases: readonly ModelLease[] = [];
  /** How many leases have ended with units that were not reported. */
  expired = 0;

  constructor(policy: ModelPolicy, mutation?: Mutation) {
    this.#policy = policy;
    this.#mutation = mutation;
  }

  /** Decides a cost. Charges it if it fits and `take` is true. */
  decide(nowMs: number, cost: number, take: boolean): ModelDecision {
    const view = this.#open(nowMs);
    const waitMs = this.#waitOf(view, cost);
    if (take && waitMs === 0) {
      this.#record(view, view.timeMs, cost);
      this.#store(view);
    }
    return { atMs: view.timeMs, waitMs, free: this.#freeOf(view), resetMs: this.#resetOf(view) };
  }

  /** Returns the number of units that are free now. */
  free(nowMs: number): number {
    return this.#freeOf(this.#open(nowMs));
  }

  /** Begins or renews a lease. */
  lend(nowMs: number, request: ModelRequest): { units: number; atMs: number } {
    const { id, number, want, lengthMs, thousandths, spent, acked, endsMs } = request;
    const view = this.#open(nowMs);
    const { timeMs } = view;
    const lease = view.leases.find((each) => each.id === id);
    if (lease !== undefined && number <= lease.number) {
      // A copy of the newest request, or a request that a newer one has overtaken.
      return { units: number === lease.number ? lease.units : 0, atMs: lease.startMs };
    }
    view.leases = view.leases.filter((each) => each !== lease);
    let used = 0;
    let kept = 0;
    if (lease !== undefined) {
      const reported = Math.min(Math.max(spent - lease.reported, 0), lease.units);
      kept = Math.min(lease.units - reported, want);
      used = Math.max(reported - lease.refunded, 0);
    } else if (endsMs >= timeMs) used = Math.max(spent - acked, 0);
    if (used > 0) this.#record(view, this.#dateOf(lease, timeMs), used);
    const part = Math.floor(((this.#freeOf(view) - kept) * thousandths) / 1000);
    let units = kept + Math.max(Math.min(want - kept, part), 0);
    if (view.leases.length >= MOST_LEASES) units = 0;
    if (units > 0) {
      const rest = {
        refunded: 0,
        reported: spent,
        number,
        startMs: timeMs,
        endsMs: timeMs + lengthMs,
      };
      view.leases = [...view.leases, { id, units, ...rest }];
    }
    this.#store(view);
    return { units, atMs: timeMs };
  }

  /** Refunds a charge or adds to it. Returns the change made. */
  adjust(nowMs: number, { atMs, lease }: ModelCharge, delta: number): number {
    if (lease === undefined) return this.#adjustEntry(nowMs, atMs, delta);
    const view = this.#open(nowMs);
    const change = this.#adjustLeased(view, atMs, delta, lease);
    this.#store(view);
    return change;
  }

  /** Deletes the entries. Leases that have not ended are kept. */
  reset(nowMs: number): void {
    this.#leases = this.#open(nowMs).leases;
    this.#entries = [];
    this.#knownMs = undefined;
  }

  /** Returns what counts: entries and leases, oldest first. */
  inspect(nowMs: number) {
    const view = this.#open(nowMs);
    const { windowMs, limit } = this.#policy;
    const [free, resetMs] = [this.#freeOf(view), this.#resetOf(view)];
    return {
      used: limit - free,
      remaining: Math.max(free, 0),
      resetMs,
      entries: view.entries.filter(({ stampMs }) => stampMs + windowMs > view.timeMs),
      leases: view.leases.map(({ id, units, refunded, endsMs }) => ({
        id,
        units: units - refunded,
        endsAtMs: endsMs,
      })),
    };
  }

  #stampOf(timeMs: number): number {
    const { bucketMs } = this.#policy;
    return (Math.floor(timeMs / bucketMs) + 1) * bucketMs - 1;
  }

  /** Returns when an admission at `timeMs` leaves the window. */
  #leaves(timeMs: number): number {
    return this.#stampOf(timeMs) + this.#policy.windowMs;
  }

  /** Reads the state. Leases that have ended become entries. */
  #open(nowMs: number): View {
    const { bucketMs, windowMs } = this.#policy;
    const view: View = {
      timeMs: nowMs,
      entries: this.#entries,
      knownMs: this.#knownMs,
      leases: [],
    };
    const startMs = view.knownMs === undefined ? 0 : this.#stampOf(view.knownMs) - bucketMs + 1;
    // A state that is more than a window ahead was written by a wrong clock.
    const isWrong = startMs - nowMs > windowMs;
    const timeMs = isWrong ? nowMs : Math.max(nowMs, startMs);
    const opened: View = isWrong
      ? { ...view, entries: [], knownMs: undefined }
      : { ...view, timeMs };
    for (const lease of this.#leases) {
      if (lease.endsMs - timeMs > windowMs) continue;
      if (lease.endsMs > timeMs) opened.leases = [...opened.leases, lease];
      else if (lease.units > lease.refunded && this.#leaves(lease.endsMs) > timeMs) {
        this.#record(opened, this.#dateOf(lease, lease.endsMs), lease.units - lease.refunded);
      }
    }
    return opened;
  }

  #store({ entries, knownMs, leases, timeMs }: View): void {
    const { bucketMs, windowMs } = this.#policy;
    this.expired += this.#leases.filter(({ endsMs }) => endsMs <= timeMs).length;
    // No decision is taken before the newest bucket, so these entries can never count again.
    const edgeMs = (knownMs ?? 0) - bucketMs - windowMs;
    const isOld = entries.length > 0 && entries[0].stampMs <= edgeMs;
    this.#entries = isOld ? entries.filter(({ stampMs }) => stampMs > edgeMs) : entries;
    this.#knownMs = knownMs;
    this.#leases = leases.toSorted((one, other) => one.endsMs - other.endsMs);
  }

  /** The time at which the units of a lease are recorded. */
  #dateOf(lease: ModelLease | undefined, timeMs: number): number {
    return this.#mutation === 'grant' ? (lease?.startMs ?? timeMs) : timeMs;
  }

  #record(view: View, timeMs: number, cost: number): void {
    const own = this.#stampOf(timeMs);
    const stampMs = this.#mutation === 'grant' ? own : Math.max(own, view.knownMs ?? 0);
    const at = view.entries.findIndex((each) => each.stampMs === stampMs);
    view.entries =
      at < 0
        ? [...view.entries, { stampMs, cost }].sort((a, b) => a.stampMs - b.stampMs)
        : view.entries.with(at, { stampMs, cost: view.entries[at].cost + cost });
    view.knownMs = Math.max(stampMs, view.knownMs ?? 0);
  }

  /** Returns everything that counts: its units, and when they leave the window. */
  #itemsOf({ timeMs, entries, leases }: View): { leavesMs: number; units: number }[] {
    const { windowMs } = this.#policy;
    const items: { leavesMs: number; units: number }[] = [];
    for (const { stampMs, cost } of entries) {
      if (stampMs + windowMs > timeMs) items.push({ leavesMs: stampMs + windowMs, units: cost });
    }
    for (const { units, refunded, endsMs } of leases) {
      if (units > refunded) items.push({ leavesMs: this.#leaves(endsMs), units: units - refunded });
    }
    return items;
  }

  #freeOf(view: View): number {
    let used = 0;
    for (const { units } of this.#itemsOf(view)) used += units;
    return this.#policy.limit - used;
  }

  #waitOf(view: View, cost: number): number {
    let free = this.#freeOf(view);
    if (cost <= free) return 0;
    for (const item of this.#itemsOf(view).sort((a, b) => a.leavesMs - b.leavesMs)) {
      free += item.units;
      if (cost <= free) return item.leavesMs - view.timeMs;
    }
    throw new Error(`Expected a cost up to the limit, got ${cost}`);
  }

  #resetOf(view: View): number {
    let resetMs = 0;
    for (const { leavesMs } of this.#itemsOf(view)) {
      resetMs = Math.max(resetMs, leavesMs - view.timeMs);
    }
    return resetMs;
  }

  /** Changes the entry of a charge that the store has made. */
  #adjustEntry(nowMs: number, chargedMs: number, delta: number): number {
    const { timeMs } = this.#open(nowMs);
    const stampMs = this.#stampOf(chargedMs);
    const at = this.#entries.findIndex((each) => each.stampMs === stampMs);
    if (at < 0 || stampMs + this.#policy.windowMs <= timeMs) return 0;
    const { cost } = this.#entries[at];
    const change = Math.max(delta, -cost);
    this.#entries = this.#entries
      .with(at, { stampMs, cost: cost + change })
      .filter((each) => each.cost > 0);
    return change;
  }

  #adjustLeased(view: View, chargedMs: number, delta: number, id: number): number {
    const { timeMs } = view;
    if (this.#leaves(chargedMs) <= timeMs) return 0;
    if (delta > 0) {
      this.#record(view, timeMs, delta);
      return delta;
    }
    const at = view.leases.findIndex((each) => each.id === id && chargedMs > each.startMs);
    if (at < 0) return this.#removeOldest(view, -delta);
    // The charge has not been reported, so it is one of the units of the lease.
    const lease = view.leases[at];
    const units = Math.min(-delta, lease.units - lease.refunded);
    view.leases = view.leases.with(at, { ...lease, refunded: lease.refunded + units });
    return -units;
  }

  /** Removes units from the oldest entries that count. Returns the change made. */
  #removeOldest(view: View, units: number): number {
    let left = units;
    const rest = view.entries.map(({ stampMs, cost }) => {
      const removed = stampMs + this.#policy.windowMs > view.timeMs ? Math.min(cost, left) : 0;
      left -= removed;
      return { stampMs, cost: cost - removed };
    });
    view.entries = rest.filter(({ cost }) => cost > 0);
    return left - units;
  }
}
