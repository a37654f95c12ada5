/**
 * Delays calls that the provider would deny: after a 429, 503 or 529 with Retry-After, and while
 * the provider reports less remaining capacity than a call needs. The limits of the limiter apply
 * as well.
 *
 * A reported limit is assumed to refill evenly until its reset, because providers use token
 * buckets. A report may not include calls that have no response headers yet, so the needs of these
 * calls are subtracted.
 */
import type { Clock } from '../clock.ts';
import { type ProviderLimit, type ProviderUnit, providerReport } from './provider-headers.ts';

const UNITS = ['requests', 'tokens', 'inputTokens', 'outputTokens'] as const;
const DELAYING_STATUSES = new Set([429, 503, 529]);
/** Above this number of accounts, the least recently used one is evicted. */
const MAX_ACCOUNTS = 10_000;

/** The capacity of the provider's limits that a call uses, by unit. */
export type Needs = Readonly<Record<ProviderUnit, number>>;

interface ReportedLimit extends ProviderLimit {
  readonly atMs: number;
}

/** The limits of one account and model at the provider. */
export class ProviderAccount {
  readonly #clock: Clock;
  readonly #maxHoldMs: number;
  #delayedUntilMs = 0;
  readonly #reported = new Map<ProviderUnit, ReportedLimit>();
  /** The summed needs of calls that have no response headers yet. */
  readonly #unreported = { requests: 0, tokens: 0, inputTokens: 0, outputTokens: 0 };

  constructor(clock: Clock, maxHoldMs: number) {
    this.#clock = clock;
    this.#maxHoldMs = maxHoldMs;
  }

  /** Returns how long a call has to wait, in ms. */
  waitMs(needs: Needs): number {
    const nowMs = this.#clock.now();
    const waits = [...this.#reported.values()].map((each) => this.#waitFor(each, needs, nowMs));
    return Math.max(this.#delayedUntilMs - nowMs, ...waits, 0);
  }

  #waitFor(reported: ReportedLimit, needs: Needs, nowMs: number): number {
    const { unit, limit, remaining, resetAfterMs, atMs } = reported;
    const leftMs = atMs + resetAfterMs - nowMs;
    if (leftMs <= 0) {
      this.#reported.delete(unit);
      return 0;
    }
    const perMs = limit !== undefined && limit > remaining ? (limit - remaining) / resetAfterMs : 0;
    const free = remaining + perMs * (nowMs - atMs) - this.#unreported[unit];
    if (needs[unit] <= free) return 0;
    const waitMs = perMs > 0 ? Math.ceil((needs[unit] - free) / perMs) : leftMs;
    return Math.min(Math.max(waitMs, 1), leftMs);
  }

  /** Counts a call as sent. Returns a function to call when it has a response or has failed. */
  sent(needs: Needs): (response?: Response) => void {
    let isReported = false;
    for (const unit of UNITS) this.#unreported[unit] += needs[unit];
    return (response) => {
      if (isReported) return;
      isReported = true;
      for (const unit of UNITS) this.#unreported[unit] -= needs[unit];
      if (response !== undefined) this.#update(response);
    };
  }

  #update({ status, headers }: Response): void {
    const nowMs = this.#clock.now();
    const { limits, retryAfterMs } = providerReport(headers, nowMs, this.#maxHoldMs);
    for (const limit of limits) this.#reported.set(limit.unit, { ...limit, atMs: nowMs });
    if (retryAfterMs === undefined || !DELAYING_STATUSES.has(status)) return;
    this.#delayedUntilMs = Math.max(this.#delayedUntilMs, nowMs + retryAfterMs);
  }
}

export class ProviderLimits {
  readonly #clock: Clock;
  readonly #maxHoldMs: number;
  readonly #accounts = new Map<string, ProviderAccount>();

  constructor(clock: Clock, maxHoldMs: number) {
    this.#clock = clock;
    this.#maxHoldMs = maxHoldMs;
  }

  account(name: string): ProviderAccount {
    const found = this.#accounts.get(name) ?? new ProviderAccount(this.#clock, this.#maxHoldMs);
    // Moves the account to the end of the map, so that the first is the least recently used one.
    this.#accounts.delete(name);
    this.#accounts.set(name, found);
    if (this.#accounts.size > MAX_ACCOUNTS) {
      this.#accounts.delete(this.#accounts.keys().next().value!);
    }
    return found;
  }
}
