/**
 * Decides when a process borrows, and how much.
 *
 *     state    leaves it when
 *     cold     a lease length contains at least `HOT_UNITS` of demand: requests a lease
 *     hot      the lease needs a renewal: few units are left, or most of its time has passed.
 *              A renewal reports what was spent and requests units for the current demand. Without
 *              demand it returns all units, and the key is cold again
 *
 * A request grants at most a share of the free units, so no holder takes them all. If none are
 * granted, or the request fails, the holder waits before it sends another one. Meanwhile, and
 * whenever too few units are left, the store decides.
 */
import { type Clocks, type Grant, type Instant, Lease, type LeaseRequest } from './lease.ts';

/** The demand per lease length from which a key is hot. */
const HOT_UNITS = 10;
/** Units are requested for this many lease lengths of the current demand. */
const HEADROOM = 1.25;
/** A renewal starts when this part of the granted units is left. */
const LOW = 0.3;
/** A renewal starts when this part of the lease has passed, or earlier if replies are slow. */
const RENEW_AT = 0.75;
/** The delay after a request that was granted few units or none, as a part of the lease length. */
const EMPTY_DELAY = 1 / 8;
/** The delay after a request that failed. */
const FAILED_DELAY_MS = 250;

/** Sends the requests of a holder to the store. */
export type Borrow = (request: LeaseRequest) => Promise<Grant>;

export interface HolderOptions {
  /** The id of the lease. */
  readonly id: number;
  readonly lengthMs: number;
  /** The part of the free units that a request may be granted, in thousandths. */
  readonly thousandths: number;
}

export class Holder {
  readonly lease: Lease;
  readonly #borrow: Borrow;
  readonly #clocks: Clocks;
  readonly #options: HolderOptions;
  /** Demand since `#sinceMs`, and the demand per ms before that. */
  #demand = 0;
  #sinceMs: number;
  #perMs = 0;
  #granted = 0;
  #isRequested = false;
  /** The duration of a request; the slowest ones count most. */
  #latencyMs = 0;
  #notBeforeMs = 0;
  #cancelTimer: (() => void) | undefined = undefined;
  #isClosed = false;

  constructor(borrow: Borrow, clocks: Clocks, options: HolderOptions) {
    this.#borrow = borrow;
    this.#clocks = clocks;
    this.#options = options;
    this.lease = new Lease(options.id, clocks, options.lengthMs);
    this.#sinceMs = clocks.monotonic.now();
  }

  /** Returns whether the lease has units for a cost. Also counts the cost as demand. */
  canSpend(cost: number): boolean {
    this.#demand += cost;
    const { left } = this.lease;
    if (left - cost <= this.#granted * LOW) this.#renewIfHot();
    return left >= cost;
  }

  /** Whether units are lent to this process or a request is pending. */
  get isActive(): boolean {
    return this.#isRequested || this.lease.isOpen;
  }

  /** Returns all units. Resolves when the store has replied, or immediately if there are none. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer?.();
    if (!this.lease.isOpen) return;
    await this.#borrow(this.lease.request(0, 0)).catch(() => {});
  }

  #renewIfHot(): void {
    const nowMs = this.#clocks.monotonic.now();
    if (this.#isRequested || this.#isClosed || nowMs < this.#notBeforeMs) return;
    const isCold = this.#perMs === 0;
    if (isCold && this.#demand < HOT_UNITS) {
      if (nowMs - this.#sinceMs > this.#options.lengthMs) this.#restart(nowMs);
      return;
    }
    this.#measure(nowMs);
    if (this.#perMs > 0) this.#request();
  }

  #restart(nowMs: number): void {
    this.#demand = 0;
    this.#sinceMs = nowMs;
  }

  /**
   * Updates the demand per ms: the mean of the value before and of the time since the last request.
   * Only the latter counts if it is longer than a lease, or had no demand. Sets it to 0 if the key
   * is cold.
   */
  #measure(nowMs: number): void {
    const elapsedMs = Math.max(nowMs - this.#sinceMs, 1);
    const perMs = this.#demand / elapsedMs;
    const isAlone = this.#perMs === 0 || perMs === 0 || elapsedMs > this.#options.lengthMs;
    this.#perMs = isAlone ? perMs : (this.#perMs + perMs) / 2;
    if (this.#perMs * this.#options.lengthMs < HOT_UNITS) this.#perMs = 0;
    this.#restart(nowMs);
  }

  /** The time of a renewal: reports what was spent, and requests units for the demand. */
  #renew(): void {
    if (this.#isRequested || this.#isClosed) return;
    this.#measure(this.#clocks.monotonic.now());
    this.#request();
  }

  #request(): void {
    this.#cancelTimer?.();
    this.#isRequested = true;
    const { lengthMs, thousandths } = this.#options;
    const sent = this.lease.now();
    const request = this.lease.request(Math.ceil(this.#perMs * lengthMs * HEADROOM), thousandths);
    this.#borrow(request).then(
      (grant) => this.#received(request, grant, sent),
      () => this.#failed(),
    );
  }

  #received(request: LeaseRequest, grant: Grant, sent: Instant): void {
    this.#isRequested = false;
    this.lease.granted(request, grant, sent);
    const { lengthMs } = this.#options;
    const nowMs = this.#clocks.monotonic.now();
    const tookMs = nowMs - sent.monotonicMs;
    this.#latencyMs = Math.max(tookMs, this.#latencyMs * 0.9 + tookMs * 0.1);
    this.#granted = grant.units;
    if (grant.units < Math.min(request.want, HOT_UNITS)) {
      this.#notBeforeMs = nowMs + lengthMs * EMPTY_DELAY;
    }
    if (this.#isClosed) return;
    const renewAtMs = Math.min(RENEW_AT * lengthMs, 0.95 * lengthMs - 3 * this.#latencyMs);
    this.#scheduleRenewal(Math.max(sent.monotonicMs + renewAtMs - nowMs, 0));
  }

  /** The store may have applied the request. The lease ends by itself. */
  #failed(): void {
    this.#isRequested = false;
    this.#notBeforeMs = this.#clocks.monotonic.now() + FAILED_DELAY_MS;
    this.#scheduleRenewal(FAILED_DELAY_MS);
  }

  #scheduleRenewal(delayMs: number): void {
    if (this.#isClosed || !this.lease.isOpen) return;
    this.#cancelTimer = this.#clocks.monotonic.schedule(delayMs, () => this.#renew());
  }
}
