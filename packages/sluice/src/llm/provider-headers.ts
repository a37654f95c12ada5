/**
 * The provider's own limits, from the headers of a response. Pure.
 *
 *     OpenAI     x-ratelimit-remaining-tokens: 149984    x-ratelimit-reset-tokens: 6m0s
 *     Anthropic  anthropic-ratelimit-tokens-remaining    anthropic-ratelimit-tokens-reset: a date
 *     both       retry-after-ms, retry-after
 *
 * Malformed headers are ignored, and waits are capped: a wrong header must not stop all calls.
 */
import { parseRateLimit } from '../http/parse-rate-limit.ts';

export type ProviderUnit = 'requests' | 'tokens' | 'inputTokens' | 'outputTokens';

export interface ProviderLimit {
  readonly unit: ProviderUnit;
  readonly limit?: number;
  readonly remaining: number;
  /** The time until the limit is full again. */
  readonly resetAfterMs: number;
}

export interface ProviderReport {
  readonly limits: readonly ProviderLimit[];
  readonly retryAfterMs?: number;
}

const ANTHROPIC_UNITS: Readonly<Record<string, ProviderUnit>> = {
  requests: 'requests',
  tokens: 'tokens',
  'input-tokens': 'inputTokens',
  'output-tokens': 'outputTokens',
};

const MAX_DIGITS = 15;

const countOf = (text: string | null): number | undefined =>
  text !== null && /^\d+$/.test(text) && text.length <= MAX_DIGITS ? Number(text) : undefined;

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Returns the time until a date in ms. Returns undefined if the text is not a date. */
function untilDate(text: string | null, nowMs: number): number | undefined {
  const atMs = text !== null && RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? undefined : Math.max(atMs - nowMs, 0);
}

function anthropicLimits(headers: Headers, nowMs: number): ProviderLimit[] {
  return Object.entries(ANTHROPIC_UNITS).flatMap(([name, unit]) => {
    const read = (what: string) => headers.get(`anthropic-ratelimit-${name}-${what}`);
    const remaining = countOf(read('remaining'));
    const resetAfterMs = untilDate(read('reset'), nowMs);
    if (remaining === undefined || resetAfterMs === undefined) return [];
    const limit = countOf(read('limit'));
    return { unit, remaining, resetAfterMs, ...(limit !== undefined && { limit }) };
  });
}

function retryAfterMs(headers: Headers, seconds: number | undefined): number | undefined {
  const ms = headers.get('retry-after-ms') ?? '';
  const isNumber = /^\d{1,12}(?:\.\d{1,9})?$/.test(ms);
  return isNumber ? Math.ceil(Number(ms)) : seconds;
}

/** Returns the limits and the wait that a response reports, with waits of at most `maxMs`. */
export function providerReport(headers: Headers, nowMs: number, maxMs: number): ProviderReport {
  const parsed = parseRateLimit(headers, { nowMs });
  const limits: ProviderLimit[] = anthropicLimits(headers, nowMs);
  for (const { name = 'requests', limit, remaining, resetAfterMs } of parsed.limits) {
    const isUnit = name === 'requests' || name === 'tokens';
    if (parsed.form !== 'legacy' || !isUnit || resetAfterMs === undefined) continue;
    limits.push({ unit: name, remaining, resetAfterMs, ...(limit !== undefined && { limit }) });
  }
  const waitMs = retryAfterMs(headers, parsed.retryAfterMs);
  return {
    limits: limits.map((each) => ({ ...each, resetAfterMs: Math.min(each.resetAfterMs, maxMs) })),
    ...(waitMs !== undefined && { retryAfterMs: Math.min(waitMs, maxMs) }),
  };
}
