/** Formats policies and denials. */
import { algorithmInfo, isConcurrency } from 'sluice/engine';
import type { Denial, PolicyDefinition } from '../api/types.ts';
import { countText, durationText, windowText } from './format.ts';

/** Returns true if the limit is 0. Such a policy has no counters, overrides or keys. */
export const deniesAll = ({ limit }: PolicyDefinition): boolean => limit === 0;

/** Returns `100 per 1 min`, or `20 at the same time, lease 30 s`. */
export const limitText = ({ limit, windowMs, algorithm }: PolicyLimit): string =>
  isConcurrency({ algorithm })
    ? `${countText(limit)} at the same time, lease ${windowText(windowMs)}`
    : `${countText(limit)} per ${windowText(windowMs)}`;

export type PolicyLimit = Pick<PolicyDefinition, 'limit' | 'windowMs' | 'algorithm'>;

/** Returns `15 min`, or `1 min, then 2 times longer each, up to 1 h`. */
export function blockText({
  forMs,
  factor,
  maxMs,
}: NonNullable<PolicyDefinition['block']>): string {
  const first = windowText(forMs);
  if (factor === 1) return first;
  return `${first}, then ${factor} times longer each, up to ${windowText(maxMs)}`;
}

/** Returns the definition as text: `100 per 1 min, sliding-log`. */
export function definitionText(policy: PolicyDefinition): string {
  const { windowMs, algorithm, burst, buckets, block } = policy;
  if (deniesAll(policy)) return `0 per ${windowText(windowMs)}, denies every call`;
  if (isConcurrency(policy)) return limitText(policy);
  return [
    limitText(policy),
    ...(burst === undefined ? [] : [`burst ${countText(burst)}`]),
    ...(buckets === undefined ? [] : [`${countText(buckets)} buckets`]),
    algorithm,
    ...(block === undefined ? [] : [`blocks for ${windowText(block.forMs)}`]),
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
  const { limit, cost, retryAfterMs, atMs, blockedUntilMs } = denial;
  if (limit === 0) return 'the limit is 0, which denies every call';
  const call = `this call costs ${countText(cost)}`;
  if (retryAfterMs === undefined || cost > limit) {
    return `${call}, more than the limit of ${countText(limit)}`;
  }
  if (blockedUntilMs !== undefined) {
    const wait = durationText(retryAfterMs);
    return `blocked for ${durationText(Math.max(blockedUntilMs - atMs, 0))}; retry in ${wait}`;
  }
  return `${usedText(denial)}; ${call}; retry in ${durationText(retryAfterMs)}`;
}

function usedText({ algorithm, windowMs, limit, remaining }: Denial): string {
  const ofLimit = `of ${countText(limit)}`;
  if (algorithm !== undefined && algorithmInfo[algorithm].shape === 'level') {
    return `${countText(remaining)} ${ofLimit} tokens available`;
  }
  const used = `${countText(limit - remaining)} ${ofLimit} used`;
  if (algorithm !== undefined && isConcurrency({ algorithm })) {
    return `${countText(limit - remaining)} ${ofLimit} held`;
  }
  return windowMs === undefined ? used : `${used} in a window of ${windowText(windowMs)}`;
}
