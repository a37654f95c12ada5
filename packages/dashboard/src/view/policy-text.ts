/** Policies and denials as text. */
import type { Denial, PolicyDefinition } from '../api/types.ts';
import { countText, durationText, windowText } from './format.ts';

/** `100 per 1 min, sliding-log` */
export function definitionText(policy: PolicyDefinition): string {
  const { limit, windowMs, algorithm, burst, buckets } = policy;
  return [
    `${countText(limit)} per ${windowText(windowMs)}`,
    ...(burst === undefined ? [] : [`burst ${countText(burst)}`]),
    ...(buckets === undefined ? [] : [`${countText(buckets)} buckets`]),
    algorithm,
  ].join(', ');
}

/** Names of clock-aligned windows. */
const SPANS: readonly [number, string][] = [
  [1000, 'this second'],
  [60_000, 'this minute'],
  [3_600_000, 'this hour'],
  [86_400_000, 'this day'],
];

const thisSpan = (windowMs: number): string =>
  SPANS.find(([size]) => size === windowMs)?.[1] ?? `this window of ${windowText(windowMs)}`;

const REASONS: Readonly<Record<string, string>> = {
  timeout: 'the store timed out',
  error: 'the store failed',
  open: 'the circuit breaker is open',
  overload: 'the store is overloaded',
};

/** `used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s` */
export function denialText(denial: Denial): string {
  const { degraded } = denial;
  if (degraded === undefined) return roomText(denial);
  const cause = REASONS[degraded.reason] ?? `the store is unavailable (${degraded.reason})`;
  if (degraded.action !== 'local') return `${cause}; onFailure: ${degraded.action}`;
  return `${roomText(denial)}; local fallback: ${cause}`;
}

function roomText(denial: Denial): string {
  const { algorithm, limit, remaining, cost, retryAfterMs } = denial;
  if (retryAfterMs === undefined || cost > limit) {
    return `this call costs ${countText(cost)}, more than the limit of ${countText(limit)}`;
  }
  const call = `this call costs ${countText(cost)}`;
  const wait = durationText(retryAfterMs);
  if (algorithm === 'token-bucket') {
    const tokens = `${countText(remaining)} of ${countText(limit)} tokens remaining`;
    return `${tokens}; ${call}; enough in ${wait}`;
  }
  return `${usedText(denial)}; ${call}; fits in ${wait}`;
}

function usedText({ algorithm, windowMs, limit, remaining }: Denial): string {
  const about = algorithm === 'sliding-counter' ? 'about ' : '';
  const used = `used ${about}${countText(limit - remaining)} of ${countText(limit)}`;
  if (windowMs === undefined) return used;
  if (algorithm === 'fixed-window') return `${used} in ${thisSpan(windowMs)}`;
  return `${used} in the last ${windowText(windowMs)}`;
}
