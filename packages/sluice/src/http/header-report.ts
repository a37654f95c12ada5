/** The state of the limits of one decision, as input for response headers and bodies. */

/** The state of one limit. */
export interface LimitReport {
  /** The policy's name. */
  readonly policy: string;
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** 0 if allowed. */
  readonly retryAfterMs: number;
  /** Time until the full limit is available again, if no further request is admitted. */
  readonly resetAfterMs: number;
  /** 0 for a concurrency limit, which has no window. */
  readonly windowMs: number;
  /** Whether the limit is in shadow mode. Shadow limits never appear in responses. */
  readonly shadow?: boolean;
}

/** The state of all limits of one decision. */
export interface HeaderReport {
  readonly allowed: boolean;
  readonly retryAfterMs: number;
  /** When the decision was made, in ms since the epoch. */
  readonly atMs: number;
  readonly limits: readonly LimitReport[];
}

/** Builds the report of limits that were decided together; `windowOf` returns a policy's window. */
export function headerReport(
  { allowed, retryAfterMs, atMs }: Omit<HeaderReport, 'limits'>,
  limits: readonly Omit<LimitReport, 'windowMs'>[],
  windowOf: (policy: string) => number,
): HeaderReport {
  const all = limits.map((each) => ({
    policy: each.policy,
    allowed: each.allowed,
    limit: each.limit,
    remaining: each.remaining,
    retryAfterMs: each.retryAfterMs,
    resetAfterMs: each.resetAfterMs,
    windowMs: windowOf(each.policy),
  }));
  return { allowed, retryAfterMs, atMs, limits: all };
}

/** Returns the limits to show in responses, which are the enforced ones. */
export function shownLimits({ limits }: HeaderReport): readonly LimitReport[] {
  return limits.filter(({ shadow }) => shadow !== true);
}

/** Returns how long a denied client has to wait until every violated limit admits the request. */
export function waitMs(report: HeaderReport): number {
  const violated = shownLimits(report).filter(({ allowed }) => !allowed);
  const waits = [report, ...violated].map(({ retryAfterMs }) => retryAfterMs);
  // The filter also drops NaN, which would make the maximum NaN.
  return Math.max(0, ...waits.filter((ms) => ms > 0));
}
