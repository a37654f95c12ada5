/** Formats policies and denials. */
import { algorithmInfo } from 'sluice/engine';
import type { Denial, PolicyDefinition } from '../api/types.ts';
import { countText, durationText, windowText } from './format.ts';

/** Whether the limit is 0. Such a policy has no counters, overrides or keys to inspect. */
export const deniesAll = ({ limit }: PolicyDefinition): boolean => limit === 0;

/** Returns the definition as text: `100 per 1 min, sliding-log`. */
export function definitionText(policy: PolicyDefinition): string {
  const { limit, windowMs, algorithm, burst, buckets } = policy;
  if (deniesAll(policy)) return `0 per ${windowText(windowMs)}, denies every call`;
  return [
    `${countText(limit)} per ${windowText(windowMs)}`,
    ...(burst === undefined ? [] : [`burst ${countText(burst)}`]),
    ...(buckets === undefined ? [] : [`${countText(buckets)} buckets`]),
    algorithm,
  ].join(', ');
}

const REASONS: Readonly<Record<string, string>> = {
  timeout: 'the store timed out',
  error: 'the store failed',
  open: 'the circuit breaker is open',
  overload: 'the store is overloaded',
};

/** Returns the reason: `98 of 100 used in a window of 1 min; this call costs 5; retry in 3.2 s`. */
export function denialText(denial: Denial): string {
  const { degraded } = denial;
  if (degraded === undefined) return limitReasonText(denial);
  const cause = REASONS[degraded.reason] ?? `the store is unavailable (${degraded.reason})`;
  if (degraded.action !== 'local') return `${cause}; onFailure: ${degraded.action}`;
  return `${limitReasonText(denial)}; local fallback: ${cause}`;
}

function limitReasonText(denial: Denial): string {
  const { limit, cost, retryAfterMs } = denial;
  if (limit === 0) return 'the limit is 0, which denies every call';
  const call = `this call costs ${countText(cost)}`;
  if (retryAfterMs === undefined || cost > limit) {
    return `${call}, more than the limit of ${countText(limit)}`;
  }
  return `${usedText(denial)}; ${call}; retry in ${durationText(retryAfterMs)}`;
}

function usedText({ algorithm, windowMs, limit, remaining }: Denial): string {
  const ofLimit = `of ${countText(limit)}`;
  if (algorithm !== undefined && algorithmInfo[algorithm].shape === 'level') {
    return `${countText(remaining)} ${ofLimit} tokens available`;
  }
  const used = `${countText(limit - remaining)} ${ofLimit} used`;
  return windowMs === undefined ? used : `${used} in a window of ${windowText(windowMs)}`;
}
