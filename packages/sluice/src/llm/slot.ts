/**
 * The hold of a concurrency limit for the duration of a call. The hold is renewed when a third of
 * its lease has passed, and released once.
 *
 * If the process was paused for longer than the lease, the hold has expired and another call may
 * have taken the slot. Then the call takes a new slot. If all slots are taken, the call continues
 * without one, because the provider is already working on it.
 */
import type { Limiter, Policies } from '../api.ts';
import type { Clock } from '../clock.ts';
import type { Charge } from '../decision.ts';

const RENEWALS_PER_LEASE = 3;
const MAX_INTERVAL_MS = 3_600_000;

export class Slot {
  readonly #limiter: Limiter<Policies>;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #limit: { readonly policy: string; readonly key: string };
  /** Undefined if the hold was lost and no other slot was free. */
  #charge: Charge | undefined;
  #isReleased = false;
  #stopTimer: () => void = () => {};

  constructor(limiter: Limiter<Policies>, charge: Charge, leaseMs: number, clock: Clock) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#charge = charge;
    this.#limit = { policy: charge.policy, key: charge.key };
    const intervalMs = Math.max(Math.floor(leaseMs / RENEWALS_PER_LEASE), 1);
    this.#intervalMs = Math.min(intervalMs, MAX_INTERVAL_MS);
    this.#schedule();
  }

  /** Releases the hold, never rejects. If the store is unreachable, the lease ends the hold. */
  async release(): Promise<void> {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#stopTimer();
    await this.#releaseHold();
  }

  async #releaseHold(): Promise<void> {
    const charge = this.#charge;
    this.#charge = undefined;
    if (charge === undefined) return;
    await this.#limiter.release({ charges: [charge] }).catch(() => {});
  }

  #schedule(): void {
    this.#stopTimer = this.#clock.schedule(this.#intervalMs, () => this.#renew());
  }

  async #renew(): Promise<void> {
    try {
      const charge = this.#charge;
      const isHeld = charge !== undefined && (await this.#limiter.renew({ charges: [charge] }));
      if (!isHeld && !this.#isReleased) await this.#takeAgain();
    } catch {
      // The store is unreachable. The next renewal may still reach it before the lease ends.
    }
    if (this.#isReleased) await this.#releaseHold();
    else this.#schedule();
  }

  async #takeAgain(): Promise<void> {
    this.#charge = undefined;
    const { policy, key } = this.#limit;
    this.#charge = (await this.#limiter.check(policy, key)).receipt?.charges[0];
  }
}
