/**
 * Wakes waiters of a concurrency limit when another process releases a hold. The store's
 * notifications are used if it has them. A notification can be lost, so waiters also poll.
 */
import { isConcurrency } from '../algorithms/index.ts';
import type { Charge, CheckResult } from '../decision.ts';
import type { Check, OnRelease } from '../store.ts';

/** The longest time between two checks of the first waiter: with notifications, and without. */
const NOTIFIED_POLL_MS = 1000;
const POLL_MS = 100;

export class RemoteReleases {
  readonly #onRelease: OnRelease | undefined;
  readonly #wake: (released: Pick<Charge, 'policy' | 'key'>) => void;
  #unsubscribe: (() => void) | undefined;

  constructor(
    onRelease: OnRelease | undefined,
    wake: (released: Pick<Charge, 'policy' | 'key'>) => void,
  ) {
    this.#onRelease = onRelease;
    this.#wake = wake;
  }

  /**
   * Returns the time, in ms, after which a denied check is repeated because a hold may have been
   * released; infinite if no concurrency limit denied it. Subscribes to notifications.
   */
  pollMs(denial: CheckResult, { limits }: Check): number {
    const isHeld = denial.limits.some(
      ({ allowed }, at) => !allowed && isConcurrency(limits[at].policy),
    );
    if (!isHeld) return Number.POSITIVE_INFINITY;
    this.#unsubscribe ??= this.#onRelease?.((policy, key) => this.#wake({ policy, key }));
    return this.#unsubscribe === undefined ? POLL_MS : NOTIFIED_POLL_MS;
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}
