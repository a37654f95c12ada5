/**
 * Rate-limit response headers in each supported form.
 *
 * Numbers are rounded so that a client that follows them is never denied: waits and windows are
 * rounded up, remaining is rounded down. Shadow limits are never shown.
 */
import { type HeaderReport, type LimitReport, shownLimits, waitMs } from './header-report.ts';
import { quoteName, toInteger, toSeconds, toWindowSeconds } from './structured-fields.ts';

/**
 * `draft` is draft-ietf-httpapi-ratelimit-headers-11. `draft-7` and `draft-6` are older versions
 * that are in wide use. `legacy` is the `X-RateLimit-*` headers that GitHub sends.
 */
export type HeaderForm = 'draft' | 'draft-7' | 'draft-6' | 'legacy' | 'none';

export type Header = readonly [name: string, value: string];

/**
 * Returns the wait to report for a limit: the retry time of a violated limit, else the reset time.
 * Returns undefined for a concurrency limit. Also returns undefined for a limit that is not
 * violated in a denied response: its reset time may be after Retry-After, which the draft advises
 * against.
 */
function reportedWaitMs(limit: LimitReport, report: HeaderReport): number | undefined {
  if (limit.windowMs === 0) return undefined;
  if (!limit.allowed) return limit.retryAfterMs;
  return report.allowed ? limit.resetAfterMs : undefined;
}

/** Returns the limits with a window. The older forms cannot express concurrency limits. */
const windowLimits = (report: HeaderReport): readonly LimitReport[] =>
  shownLimits(report).filter(({ windowMs }) => windowMs !== 0);

function draftHeaders(report: HeaderReport): readonly Header[] {
  const limits = shownLimits(report);
  // A structured field cannot be an empty list, so the header is omitted.
  if (limits.length === 0) return [];
  const policies = limits.map(({ policy, limit, windowMs }) => {
    // A concurrency limit has neither a window nor a reset. The draft has a quota unit for it.
    const kind = windowMs === 0 ? ';qu="concurrent-requests"' : `;w=${toWindowSeconds(windowMs)}`;
    return `${quoteName(policy)};q=${toInteger(limit)}${kind}`;
  });
  const current = limits.map((limit) => {
    const ms = reportedWaitMs(limit, report);
    const until = ms === undefined ? '' : `;t=${toSeconds(ms)}`;
    return `${quoteName(limit.policy)};r=${toInteger(limit.remaining)}${until}`;
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

/**
 * Returns the numbers of the limit that the older forms show, or undefined if there is none. In a
 * denied response, `resetMs` is never longer than the wait of Retry-After.
 */
function decisiveNumbers(
  report: HeaderReport,
): { limit: number; remaining: number; resetMs: number } | undefined {
  const found = decisiveLimit(report);
  if (found === undefined) return undefined;
  const resetMs = reportedWaitMs(found, report) ?? report.retryAfterMs;
  return { limit: toInteger(found.limit), remaining: toInteger(found.remaining), resetMs };
}

/**
 * Returns the value of the older `RateLimit-Policy` header, which lists policies without their
 * names: `100;w=60, 1000;w=3600`. The older drafts forbid two policies with the same quota. Of such
 * policies, only the strictest is listed: the one with the longest window.
 */
function olderPolicyHeader(report: HeaderReport): string {
  const windows = new Map<number, number>();
  for (const { limit, windowMs } of windowLimits(report)) {
    const quota = toInteger(limit);
    windows.set(quota, Math.max(windows.get(quota) ?? 0, toWindowSeconds(windowMs)));
  }
  return [...windows].map(([quota, window]) => `${quota};w=${window}`).join(', ');
}

function draft7Headers(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  const { limit, remaining, resetMs } = found;
  return [
    ['RateLimit-Policy', olderPolicyHeader(report)],
    ['RateLimit', `limit=${limit}, remaining=${remaining}, reset=${toSeconds(resetMs)}`],
  ];
}

function draft6Headers(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  return [
    ['RateLimit-Policy', olderPolicyHeader(report)],
    ['RateLimit-Limit', String(found.limit)],
    ['RateLimit-Remaining', String(found.remaining)],
    ['RateLimit-Reset', String(toSeconds(found.resetMs))],
  ];
}

/** Returns the headers that GitHub sends. The reset is a time in seconds since the epoch. */
function legacyHeaders(report: HeaderReport): readonly Header[] {
  const found = decisiveNumbers(report);
  if (found === undefined) return [];
  const resetMs = report.atMs + Math.max(found.resetMs, 0);
  return [
    ['X-RateLimit-Limit', String(found.limit)],
    ['X-RateLimit-Remaining', String(found.remaining)],
    ['X-RateLimit-Reset', String(toSeconds(resetMs))],
  ];
}

/** The headers of each form, without `Retry-After`: see `retryAfter`. */
export const headerForms: Readonly<
  Record<HeaderForm, (report: HeaderReport) => readonly Header[]>
> = {
  draft: draftHeaders,
  'draft-7': draft7Headers,
  'draft-6': draft6Headers,
  legacy: legacyHeaders,
  none: () => [],
};

/**
 * Returns the `Retry-After` header of a denied response, in whole seconds, rounded up. The value is
 * at least 1, because with 0 clients would retry in a loop. Returns undefined if the request was
 * admitted, or if the form is `none`.
 */
export function retryAfter(report: HeaderReport, form: HeaderForm = 'draft'): Header | undefined {
  if (report.allowed || form === 'none') return undefined;
  return retryAfterHeader(toSeconds(waitMs(report)));
}

export function retryAfterHeader(waitSeconds: number): Header {
  return ['Retry-After', String(Math.max(waitSeconds, 1))];
}
