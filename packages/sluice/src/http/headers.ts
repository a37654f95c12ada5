/**
 * Rate-limit response headers in each supported form.
 *
 * Numbers are rounded so that a client that follows them is never denied: waits and windows are
 * rounded up, remaining is rounded down. Shadow limits are never shown.
 */
import { type HeaderReport, type LimitReport, shownLimits, waitMs } from './header-report.ts';
import { integer, quoted, seconds, windowSeconds } from './structured-fields.ts';

/**
 * `draft` is draft-ietf-httpapi-ratelimit-headers-11. `draft-7` and `draft-6` are older versions
 * that are in wide use. `legacy` is the `X-RateLimit-*` headers that GitHub sends.
 */
export type HeaderForm = 'draft' | 'draft-7' | 'draft-6' | 'legacy' | 'none';

export type Header = readonly [name: string, value: string];

/**
 * Returns the time until a limit admits more: the retry time of a violated limit, else the reset
 * time. In a denied response, the reset time may be after Retry-After, which the draft advises
 * against. So in a denied response, returns undefined for a limit that is not violated.
 */
function untilMoreMs(limit: LimitReport, report: HeaderReport): number | undefined {
  if (limit.windowMs === 0) return undefined;
  if (!limit.allowed) return limit.retryAfterMs;
  return report.allowed ? limit.resetAfterMs : undefined;
}

/** Returns the limits that the older forms can express: those with a window. */
const windowLimits = (report: HeaderReport): readonly LimitReport[] =>
  shownLimits(report).filter(({ windowMs }) => windowMs !== 0);

function draft(report: HeaderReport): readonly Header[] {
  const limits = shownLimits(report);
  // A structured field cannot be an empty list, so the header is omitted.
  if (limits.length === 0) return [];
  const policies = limits.map(({ policy, limit, windowMs }) => {
    // A concurrency limit has the quota unit of the draft, and neither a window nor a reset.
    const kind = windowMs === 0 ? ';qu="concurrent-requests"' : `;w=${windowSeconds(windowMs)}`;
    return `${quoted(policy)};q=${integer(limit)}${kind}`;
  });
  const current = limits.map((limit) => {
    const ms = untilMoreMs(limit, report);
    const until = ms === undefined ? '' : `;t=${seconds(ms)}`;
    return `${quoted(limit.policy)};r=${integer(limit.remaining)}${until}`;
  });
  return [
    ['RateLimit-Policy', policies.join(', ')],
    ['RateLimit', current.join(', ')],
  ];
}

/**
 * Returns the one limit that the older forms can show: if denied, the violated limit with the
 * longest wait; if allowed, the limit with the least remaining. In a tie, the first.
 */
function decisiveLimit(report: HeaderReport): LimitReport | undefined {
  const limits = windowLimits(report);
  const violated = report.allowed ? [] : limits.filter(({ allowed }) => !allowed);
  if (violated.length > 0) {
    return violated.reduce((best, each) => (each.retryAfterMs > best.retryAfterMs ? each : best));
  }
  if (limits.length === 0) return undefined;
  return limits.reduce((best, each) => (each.remaining < best.remaining ? each : best));
}

/** Returns the numbers of the decisive limit. If denied, the reset is never after Retry-After. */
function decisiveNumbers(
  report: HeaderReport,
): { limit: number; remaining: number; resetMs: number } | undefined {
  const found = decisiveLimit(report);
  if (found === undefined) return undefined;
  const resetMs = untilMoreMs(found, report) ?? report.retryAfterMs;
  return { limit: integer(found.limit), remaining: integer(found.remaining), resetMs };
}

/**
 * Returns the policies without names. The old drafts forbid two policies with the same quota. Of
 * such policies, only the one with the longest window is listed, which is the strictest.
 */
function namelessPolicies(report: HeaderReport): string {
  const windows = new Map<number, number>();
  for (const { limit, windowMs } of windowLimits(report)) {
    const quota = integer(limit);
    windows.set(quota, Math.max(windows.get(quota) ?? 0, windowSeconds(windowMs)));
  }
  return [...windows].map(([quota, window]) => `${quota};w=${window}`).join(', ');
}

function draft7(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  const { limit, remaining, resetMs } = found;
  return [
    ['RateLimit-Policy', namelessPolicies(report)],
    ['RateLimit', `limit=${limit}, remaining=${remaining}, reset=${seconds(resetMs)}`],
  ];
}

function draft6(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  return [
    ['RateLimit-Policy', namelessPolicies(report)],
    ['RateLimit-Limit', String(found.limit)],
    ['RateLimit-Remaining', String(found.remaining)],
    ['RateLimit-Reset', String(seconds(found.resetMs))],
  ];
}

/** Returns the headers that GitHub sends. The reset is a time in seconds since the epoch. */
function legacy(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  const resetMs = report.atMs + Math.max(found.resetMs, 0);
  return [
    ['X-RateLimit-Limit', String(found.limit)],
    ['X-RateLimit-Remaining', String(found.remaining)],
    ['X-RateLimit-Reset', String(seconds(resetMs))],
  ];
}

/** The headers of each form, without `Retry-After`: see `retryAfter`. */
export const headerForms: Readonly<
  Record<HeaderForm, (report: HeaderReport) => readonly Header[]>
> = {
  draft,
  'draft-7': draft7,
  'draft-6': draft6,
  legacy,
  none: () => [],
};

/**
 * Returns the `Retry-After` header of a denied response, in whole seconds, rounded up. It is at
 * least 1, because with 0 clients would retry in a loop. Every form except `none` has this header.
 */
export function retryAfter(report: HeaderReport, form: HeaderForm = 'draft'): Header | undefined {
  if (report.allowed || form === 'none') return undefined;
  return retryAfterHeader(seconds(waitMs(report)));
}

export function retryAfterHeader(waitSeconds: number): Header {
  return ['Retry-After', String(Math.max(waitSeconds, 1))];
}
