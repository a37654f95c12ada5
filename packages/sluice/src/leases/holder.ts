/**
 * Decides when a process borrows, and how much.
 *
 *     state    leaves it when
 *     cold     a lease length contains at least `HOT_UNITS` of demand: requests a lease
 *     hot      the lease needs a renewal: few units are left, or most of its time has passed.
 *              A renewal reports what was spent and requests units for the current demand. Without
 *              demand it returns all units, and the key is cold again
 *
 * A request grants at most a share of the free units, so no holder takes them all. If it grants too
 * few, or fails, the holder waits before it sends another one. Meanwhile the store decides. Calls
 * that find too few units are in its queue.
 */
import { CallQueue } from './call-queue.ts';
import { type Clocks, type Grant, type Instant, Lease, type LeaseRequest } from './lease.ts';

/** The demand per lease length from which a key is hot. */
const HOT_UNITS = 10;
/** Units are requested for this many lease lengths of the current demand. */
const HEADROOM = 1.25;
/** A renewal starts when this part of the granted units is left. */
const LOW = 0.3;
/** A renewal starts when this part of the lease has passed, or earlier if replies are slow. */
const RENEW_AT = 0.75;
/** The time between requests if one was granted fewer units than requested, in lease lengths. */
const SHORT_DELAY = 1 / 2;
/** Calls wait for the reply to a request for at most this time. Their deadline may be earlier. */
const REPLY_MS = 1000;
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
  readonly queue = new CallQueue(() => this.#isReplyExpected);
  readonly #borrow: Borrow;
  readonly #clocks: Clocks;
  readonly #options: HolderOptions;
  /** Demand since `#sinceMs`, and the demand per ms before that. */
  #demand = 0;
  #sinceMs: number;
  #perMs = 0;
  #granted = 0;
  #isRequested = false;
  #isShort = false;
  #isReplyExpected = false;
  /** The duration of a request; the slowest ones count most. */
  #latencyMs = 0;
  #notBeforeMs = 0;
  #cancelTimer: (() => void) | undefined = undefined;
  #isClosed = false;

  constructor(borrow: Borrow, clocks: Clocks, options: HolderOptions) {
    this.#borrow = borrow;
    this.#clocks = clocks;
    this.#options = options;
    this.lease = new Lease(options.id, clocks);
    this.#sinceMs = clocks.monotonic.now();
  }

  /** Returns whether the lease has units for a cost. Also counts the cost as demand. */
  canSpend(cost: number): boolean {
    this.#demand += cost;
    const { left } = this.lease;
    if (left - cost <= this.#granted * LOW) this.#renewIfHot();
    return left >= cost;
  }

  /** Whether the key is hot, and the last request was granted fewer units than requested. */
  get isShort(): boolean {
    return this.#isShort;
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
    const { lengthMs } = this.#options;
    await this.#borrow(this.lease.request(0, 0, lengthMs, this.lease.now())).catch(() => {});
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
    const { lengthMs } = this.#options;
    const sent = this.lease.now();
    const want = Math.ceil(this.#perMs * lengthMs * HEADROOM);
    const request = this.lease.request(want, this.#options.thousandths, lengthMs, sent);
    this.#isReplyExpected = true;
    const handled = (): void => {
      cancel();
      this.#isReplyExpected = false;
      this.queue.advance();
    };
    const cancel = this.#clocks.monotonic.schedule(REPLY_MS, handled);
    this.#borrow(request)
      .then(
        (grant) => this.#received(request, grant, sent),
        () => this.#failed(),
      )
      .then(handled);
  }

  #received(request: LeaseRequest, grant: Grant, sent: Instant): void {
    this.#isRequested = false;
    this.lease.granted(request, grant, sent);
    const { lengthMs } = request;
    const nowMs = this.#clocks.monotonic.now();
    const tookMs = nowMs - sent.monotonicMs;
    this.#latencyMs = Math.max(tookMs, this.#latencyMs * 0.9 + tookMs * 0.1);
    this.#granted = grant.units;
    this.#isShort = grant.units < request.want;
    if (this.#isShort) this.#notBeforeMs = nowMs + this.#options.lengthMs * SHORT_DELAY;
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
