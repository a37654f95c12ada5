/** The input and the result of `RequestLimiter.decide`. */
import type { Decision } from '../decision.ts';
import type { Origin } from './client-address.ts';
import type { Header } from './headers.ts';
import type { ResponseOutcome } from './options.ts';
import type { Rejection } from './rejection.ts';

/** A request as an adapter describes it. */
export interface RequestInfo<R> extends Origin {
  /** The framework's request, passed to the functions among the options. */
  readonly request: R;
}

/** The decision about one request. */
export interface RequestDecision<R> {
  /** Whether the handler may run. */
  readonly passes: boolean;
  /** Headers for the response, whether the request passes or not. */
  readonly headers: readonly Header[];
  /** The response to send if the request does not pass. */
  readonly rejection: Rejection | undefined;
  /** The decision of the enforced limits; undefined if `skip`, `allow` or `deny` applied. */
  readonly decision: Decision | undefined;
  /** The decisions of the shadow limits. */
  readonly shadow: readonly Decision[];
  /**
   * Adjusts the charge to the outcome, and releases the holds of concurrency limits unless
   * `isStreaming` is set. Call this when the response has ended. Undefined if there is nothing to
   * adjust.
   */
  readonly settle: ((outcome: ResponseOutcome<R>, isStreaming?: boolean) => void) | undefined;
  /** Releases the holds of concurrency limits. Undefined if there are none. */
  readonly release: (() => void) | undefined;
}
