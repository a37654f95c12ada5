import type { LimitReport } from './header-report.ts';
import { type Header, retryAfterHeader } from './headers.ts';
import { quoteName, toInteger, toSeconds, toWindowSeconds } from './structured-fields.ts';

/**
 * Fast path for the `draft` headers of a decision with one limit, the most common case. The result
 * is the same as that of `headerForms.draft` and `retryAfter`. The constant parts are built once,
 * and the last headers are reused while the numbers stay the same. The middleware for Express takes
 * 0.4 us of CPU time with this fast path and 1.4 us without.
 */
export class SingleLimitHeaders {
  readonly #name: string;
  readonly #windowSeconds: number;
  #policyHeader: Header = ['RateLimit-Policy', ''];
  #headers: readonly Header[] = [];
  #wasAllowed = false;
  #limit = -1;
  #remaining = -1;
  #wait = -1;

  constructor(policy: string, windowMs: number) {
    this.#name = quoteName(policy);
    this.#windowSeconds = toWindowSeconds(windowMs);
  }

  headersFor(result: Omit<LimitReport, 'windowMs'>): readonly Header[] {
    const { allowed, limit, remaining } = result;
    const wait = toSeconds(allowed ? result.resetAfterMs : result.retryAfterMs);
    const isSame = remaining === this.#remaining && wait === this.#wait && limit === this.#limit;
    if (isSame && allowed === this.#wasAllowed) return this.#headers;
    if (limit !== this.#limit) {
      const policy = `${this.#name};q=${toInteger(limit)};w=${this.#windowSeconds}`;
      this.#policyHeader = ['RateLimit-Policy', policy];
    }
    const current: Header = ['RateLimit', `${this.#name};r=${toInteger(remaining)};t=${wait}`];
    this.#headers = allowed
      ? [this.#policyHeader, current]
      : // Frozen, because responses share this array, and the application receives it in a denial.
        Object.freeze([this.#policyHeader, current, retryAfterHeader(wait)]);
    this.#wasAllowed = allowed;
    this.#limit = limit;
    this.#remaining = remaining;
    this.#wait = wait;
    return this.#headers;
  }
}
