/** The options of `acquire`, and the part of the limiter that it needs. */
import type { Clock } from '../clock.ts';
import type { CheckResult } from '../decision.ts';
import type { FailureAction } from '../policy.ts';
import type { Adjustment, Check } from '../store.ts';

export interface AcquireOptions {
  /** The longest wait, in ms. Default: unlimited. */
  readonly maxWaitMs?: number | undefined;
  /** Aborts the wait: the promise rejects with the signal's reason, and nothing is charged. */
  readonly signal?: AbortSignal | undefined;
  /** What to do if the store cannot decide. Default: the policy's action, else the store's. */
  readonly onFailure?: FailureAction | undefined;
}

/** The part of the limiter that waiting needs. */
export interface WaitingContext {
  readonly clock: Clock;
  decide(check: Check): CheckResult | Promise<CheckResult>;
  refund(adjustments: readonly Adjustment[]): void;
}
