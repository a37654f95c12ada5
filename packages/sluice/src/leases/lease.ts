/**
 * The lease of one limit, as its holder sees it.
 *
 * Its units can be spent until 99 % of its length has passed. The time counts from before the
 * command was sent, so the lease never ends later for its holder than for the store. Two clocks
 * measure it, because each can miss time: the monotonic clock may stop while a virtual machine is
 * suspended, and the system clock can be set back.
 */
import type { Clock } from '../clock.ts';

/** The part of a lease that is not used, because two clocks may differ in speed. */
const MARGIN = 1 / 100;

export interface Clocks {
  readonly monotonic: Clock;
  readonly system: Clock;
}

/** A moment by both clocks. */
export interface Instant {
  readonly monotonicMs: number;
  readonly systemMs: number;
}

/** What the store granted. */
export interface Grant {
  /** The units that the holder had not spent when it sent the request, and those added. */
  readonly units: number;
  /** When the store decided, in ms since the epoch by its clock. */
  readonly atMs: number;
}

/** Asks the store to begin or renew a lease. The holder has reported all that it spent. */
export interface LeaseRequest {
  /** Identifies the lease of this process among the leases of the key. */
  readonly id: number;
  /**
   * Counts the requests of the lease. A connection that was closed can deliver a request after a
   * newer one; the store must not apply it then.
   */
  readonly number: number;
  /** The number of units that the holder needs. Fewer than it has returns the rest. */
  readonly want: number;
  readonly lengthMs: number;
  /** The part of the free units that the lease may get, in thousandths. */
  readonly thousandths: number;
  /** The number of units spent in total. */
  readonly spent: number;
  /** The part of `spent` that was reported by a request that had a reply. */
  readonly acked: number;
  /** When the lease ends by the store's clock, as far as the holder knows; 0 if it has none. */
  readonly endsMs: number;
}

export class Lease {
  readonly #clocks: Clocks;
  /** The units that can be spent. */
  #left = 0;
  #spent = 0;
  #requests = 0;
  #acked = 0;
  #untilMonotonicMs = 0;
  #untilSystemMs = 0;
  #endsMs = 0;
  /** When the store decided the last grant, and when its reply arrived by the monotonic clock. */
  #grantMs = 0;
  #receivedMs = 0;

  /** `id` identifies this lease among the leases of the key: an integer from 1 to 2^48 - 1. */
  constructor(
    readonly id: number,
    clocks: Clocks,
  ) {
    this.#clocks = clocks;
  }

  /** Returns the number of units that can be spent now. */
  get left(): number {
    const { monotonic, system } = this.#clocks;
    const isOver =
      this.#left === 0 ||
      monotonic.now() >= this.#untilMonotonicMs ||
      system.now() >= this.#untilSystemMs;
    return isOver ? 0 : this.#left;
  }

  /** Spends units, at most `left`. */
  spend(units: number): void {
    this.#left -= units;
    this.#spent += units;
  }

  /** Whether units that were spent have not been reported, or units are left to return. */
  get isOpen(): boolean {
    return this.#left > 0 || this.#spent > this.#acked;
  }

  /**
   * The time of an admission by the clock of the store, in ms since the epoch. Never later than the
   * real time there, because it counts from the arrival of the reply, and slower than two clocks
   * differ. Otherwise, a refund could apply after the entry of its charge has left the window.
   */
  get nowMs(): number {
    const elapsedMs = this.#clocks.monotonic.now() - this.#receivedMs;
    return this.#grantMs + Math.floor(elapsedMs * (1 - MARGIN));
  }

  /** When the lease ends by the clock of the store. */
  get endsMs(): number {
    return this.#endsMs;
  }

  now(): Instant {
    const { monotonic, system } = this.#clocks;
    return { monotonicMs: monotonic.now(), systemMs: system.now() };
  }

  /**
   * Returns a request for `want` units, which is sent at `sent`. Units above them can no longer be
   * spent. Also limits the time of the units that are left: when the store has applied the request,
   * the lease may end earlier than before, and the reply may be lost.
   */
  request(want: number, thousandths: number, lengthMs: number, sent: Instant): LeaseRequest {
    this.#left = Math.min(this.left, want);
    const usableMs = lengthMs * (1 - MARGIN);
    this.#untilMonotonicMs = Math.min(this.#untilMonotonicMs, sent.monotonicMs + usableMs);
    this.#untilSystemMs = Math.min(this.#untilSystemMs, sent.systemMs + usableMs);
    const { id } = this;
    const [spent, acked, endsMs] = [this.#spent, this.#acked, this.#endsMs];
    const number = ++this.#requests;
    return { id, number, want, lengthMs, thousandths, spent, acked, endsMs };
  }

  /** Applies the reply to a request that was sent at `sent`. */
  granted({ spent, lengthMs }: LeaseRequest, { units, atMs }: Grant, sent: Instant): void {
    const usableMs = lengthMs * (1 - MARGIN);
    this.#acked = spent;
    this.#left = Math.max(units - (this.#spent - spent), 0);
    this.#untilMonotonicMs = sent.monotonicMs + usableMs;
    this.#untilSystemMs = sent.systemMs + usableMs;
    this.#endsMs = atMs + lengthMs;
    this.#grantMs = atMs;
    this.#receivedMs = this.#clocks.monotonic.now();
  }
}
