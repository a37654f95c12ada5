/**
 * Wakes waiters of a concurrency limit when another process releases a hold. Uses the store's
 * release notifications if the store sends them. A notification can be lost, and some stores send
 * none, so the first waiter of a queue also polls: it repeats its check at an interval.
 */
import { isConcurrency } from '../algorithms/index.ts';
import type { Charge, CheckResult } from '../decision.ts';
import type { Check, OnRelease } from '../store.ts';

/** The poll interval for a store that sends notifications. */
const NOTIFIED_POLL_MS = 1000;
/** The poll interval for a store that sends no notifications. */
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
   * Returns the time, in ms, after which to repeat a denied check because a hold may have been
   * released. If a concurrency limit denied the check, subscribes to notifications. Otherwise
   * returns infinity.
   */
  pollIntervalMs(denial: CheckResult, { limits }: Check): number {
    const isDeniedByHolds = denial.limits.some(
      ({ allowed }, at) => !allowed && isConcurrency(limits[at].policy),
    );
    if (!isDeniedByHolds) return Number.POSITIVE_INFINITY;
    this.#unsubscribe ??= this.#onRelease?.((policy, key) => this.#wake({ policy, key }));
    return this.#unsubscribe === undefined ? POLL_MS : NOTIFIED_POLL_MS;
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}
