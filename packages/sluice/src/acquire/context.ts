/** The options of `acquire`, and the methods of the limiter that `acquire` calls. */
import type { Clock } from '../clock.ts';
import type { CheckResult } from '../decision.ts';
import { checkInteger, checkMethods, expected } from '../errors.ts';
import type { FailureAction } from '../policy.ts';
import type { Adjustment, Check, OnRelease } from '../store.ts';

export interface AcquireOptions {
  /**
   * The longest wait, in ms. Default: unlimited.
   *
   * @example maxWaitMs: 5000
   */
  readonly maxWaitMs?: number | undefined;
  /**
   * Aborts the wait: the promise rejects with the signal's reason, and nothing is charged.
   * Default: the wait cannot be aborted.
   *
   * @example signal: AbortSignal.timeout(5000)
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * What to do if the store cannot decide. Default: the policy's action, else the store's.
   *
   * @example onFailure: 'deny'
   */
  readonly onFailure?: FailureAction | undefined;
  /**
   * A name for the holder, as in `check`. The store keeps it with the holds of concurrency limits,
   * and `inspect` returns it. Default: none.
   *
   * @example label: 'worker-3'
   */
  readonly label?: string | undefined;
  /**
   * The flow that the call belongs to, for example a tenant. Calls that wait for the same limits
   * share the capacity by weighted fair queueing between their flows. Calls of one flow are served
   * in order of arrival. Default: none, all calls are served in order of arrival.
   *
   * @example flow: tenantId
   */
  readonly flow?: string | undefined;
  /**
   * The weight of the flow, an integer from 1 to 1000. Default 1. While two flows have waiting
   * calls, a flow of weight 3 gets three times the capacity of a flow of weight 1.
   *
   * @example weight: plan === 'pro' ? 3 : 1
   */
  readonly weight?: number | undefined;
}

const MAX_FLOW_LENGTH = 1024;
const MAX_WEIGHT = 1000;

/** Throws for an invalid `maxWaitMs` or `signal`, and if the signal is aborted. */
export function checkWait({ maxWaitMs = 0, signal }: AcquireOptions): void {
  if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
    throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
  }
  if (signal === undefined) return;
  checkMethods('`signal` to be an AbortSignal', signal, 'throwIfAborted');
  signal.throwIfAborted();
}

/** Throws for an invalid `flow` or `weight`, and for a `weight` other than 1 without a `flow`. */
export function checkFlow({ flow, weight = 1 }: AcquireOptions): void {
  if (flow === undefined ? weight !== 1 : !isFlow(flow)) {
    const what = `\`flow\` to be text of 1 to ${MAX_FLOW_LENGTH} characters`;
    throw expected('ERR_INVALID_OPTION', what, flow);
  }
  checkInteger('ERR_INVALID_OPTION', '`weight`', weight, 1, MAX_WEIGHT);
}

const isFlow = (flow: unknown): boolean =>
  typeof flow === 'string' && flow.length > 0 && flow.length <= MAX_FLOW_LENGTH;

/** The methods of the limiter that `acquire` calls. */
export interface WaitingContext {
  readonly clock: Clock;
  decide(check: Check): CheckResult | Promise<CheckResult>;
  refund(adjustments: readonly Adjustment[]): void;
  /** The store's `onRelease`. Undefined if the store does not report released holds. */
  readonly onRelease?: OnRelease | undefined;
}
