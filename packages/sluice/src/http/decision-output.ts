import type { CheckResult, Decision } from '../decision.ts';
import { type HeaderReport, headerReport } from './header-report.ts';
import { type Header, type HeaderForm, headerForms, retryAfter } from './headers.ts';
import { type Rejection, rejection } from './rejection.ts';
import { SingleLimitHeaders } from './single-limit-headers.ts';

/** Converts decisions to response headers and rejections. */
export class DecisionOutput {
  readonly #forms: readonly HeaderForm[];
  /** Window in ms by policy. */
  readonly #windows: ReadonlyMap<string, number>;
  readonly #singleLimit: SingleLimitHeaders | undefined;
  #lastRejection: Rejection | undefined;
  #lastRetryAfterMs = 0;

  constructor(windows: ReadonlyMap<string, number>, forms: readonly HeaderForm[]) {
    this.#forms = forms;
    this.#windows = windows;
    const [[policy, windowMs] = ['', 0]] = windows;
    if (windows.size === 1 && windowMs !== 0 && forms.join() === 'draft') {
      this.#singleLimit = new SingleLimitHeaders(policy, windowMs);
    }
  }

  headers(decision: Decision): readonly Header[] {
    const { degraded } = decision;
    if (this.#singleLimit !== undefined && degraded === undefined) {
      return this.#singleLimit.headersFor(decision);
    }
    const report = this.#report(decision);
    // If neither the store nor a local limit decided, only Retry-After can be sent.
    const isMeasured = degraded === undefined || degraded.action === 'local';
    const headers = isMeasured ? this.#forms.flatMap((form) => headerForms[form](report)) : [];
    const wait = this.#forms.every((form) => form === 'none') ? undefined : retryAfter(report);
    return wait === undefined ? headers : [...headers, wait];
  }

  /** Reuses the last rejection if the wait is the same: a flood of requests needs one rejection. */
  rejection(decision: Decision): Rejection {
    const { degraded, retryAfterMs } = decision;
    if (this.#windows.size > 1 || degraded !== undefined) {
      return rejection({ report: this.#report(decision), degraded });
    }
    if (this.#lastRejection === undefined || retryAfterMs !== this.#lastRetryAfterMs) {
      this.#lastRejection = Object.freeze(rejection({ report: this.#report(decision) }));
      this.#lastRetryAfterMs = retryAfterMs;
    }
    return this.#lastRejection;
  }

  #report(result: CheckResult): HeaderReport {
    const limits = this.#windows.size === 1 ? [result] : result.limits;
    return headerReport(result, limits, (policy) => this.#windows.get(policy)!);
  }
}
