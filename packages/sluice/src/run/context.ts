/** The options and the result of `run`, and the methods of the limiter that `run` calls. */
import type { AcquireOptions } from '../acquire/context.ts';
import type { Clock } from '../clock.ts';
import type { Admitted, Decision, Denied } from '../decision.ts';
import type { Adjustment, Check } from '../store.ts';

/** The options of `acquire`. The `signal` also aborts the `signal` that the function receives. */
export type RunOptions = AcquireOptions;

/** The argument that `run` passes to its function. */
export interface RunContext {
  /**
   * Aborts when the work must stop: with a `SluiceError` of the code `ERR_LEASE_LOST` when the hold
   * no longer counts, or with the reason of the `signal` option. Created when it is first read.
   */
  readonly signal: AbortSignal;
  /** The fence of the first concurrency limit; undefined if the check has none. */
  readonly fence: number | undefined;
  readonly decision: Admitted;
}

/** The result of `run`. */
export type RunResult<T> =
  | { readonly allowed: true; readonly value: T; readonly decision: Admitted }
  | { readonly allowed: false; readonly value?: undefined; readonly decision: Denied };

/** A check with the time at which it was last sent to the store. */
export interface TimedCheck extends Check {
  /** When the check was sent, by the `clock` option of the limiter or else the monotonic clock. */
  sentMs?: number;
}

/** The methods of the limiter that `run` calls. */
export interface RunsContext {
  /** The `clock` option of the limiter. */
  readonly clock: Clock | undefined;
  acquire(check: TimedCheck, options: AcquireOptions): Promise<Decision>;
  /** Calls the listeners of decisions. Returns the decision. */
  notify(decision: Decision): Decision;
  /** Renews holds. Returns whether all of them still counted. */
  renew(holds: readonly Adjustment[]): boolean | Promise<boolean>;
  /** Sends adjustments that no caller waits for: releases and refunds. Never throws. */
  release(adjustments: readonly Adjustment[]): void;
}
