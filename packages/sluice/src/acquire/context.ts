/** The options of `acquire`, and the methods of the limiter that it calls. */
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
   * Names the holder of a concurrency limit, as in `check`. Default: none.
   *
   * @example label: 'worker-3'
   */
  readonly label?: string | undefined;
  /**
   * Shares the capacity fairly between flows, for example tenants: of the calls with a flow that
   * wait for the same limits, the next is chosen by weighted fair queueing over the flows, not by
   * arrival. Default: none, in order of arrival.
   *
   * @example flow: tenantId
   */
  readonly flow?: string | undefined;
  /**
   * The share of the call's flow, an integer from 1 to 1000. Default 1. A flow of weight 3 is
   * served three times as often as one of weight 1, while both wait.
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

/** Throws for an invalid `flow` or `weight`. */
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
  /** The store's notifications of released holds, if it has them. */
  readonly onRelease?: OnRelease | undefined;
}
