/**
 * Builds the response to Envoy from the decided claims. A claim is one limit with the cost of the
 * request, see `plan.ts`.
 */
import type { HeaderForm } from 'sluice/http';
import { fieldsOf } from '../http/fields.ts';
import { type DescriptorDecisions, isExceeded, isTooLarge } from './decide.ts';
import {
  CODE,
  type DescriptorStatus,
  durationOf,
  type HeaderValue,
  MAX_UINT32,
  type RateLimit,
  type RateLimitResponse,
  unitOfWindow,
} from './messages.ts';
import type { Blocked, Claim, Item, Plan } from './plan.ts';

export function responseOf(
  plan: Plan,
  outcome: DescriptorDecisions,
  form: HeaderForm,
): RateLimitResponse {
  const statuses = plan.items.map(statusOf);
  const metadata = metadataOf(plan, statuses);
  return {
    overallCode: outcome.isDenied ? CODE.OVER_LIMIT : CODE.OK,
    statuses,
    responseHeadersToAdd: headersOf(outcome, form),
    ...(metadata !== undefined && { dynamicMetadata: { domain: plan.domain, metadata } }),
  };
}

const FREE: DescriptorStatus = { code: CODE.OK };
const UNLIMITED: DescriptorStatus = { code: CODE.OK, limitRemaining: MAX_UINT32 };

function statusOf({ kind, blocked, claims }: Item): DescriptorStatus {
  if (kind === 'free') return FREE;
  if (kind === 'unlimited') return UNLIMITED;
  if (blocked !== undefined) return blockedStatus(blocked);
  const exceeded = claims.filter(isExceeded);
  const claim = exceeded.length > 0 ? longestWait(exceeded) : leastRemaining(claims);
  const code = exceeded.length > 0 ? CODE.OVER_LIMIT : CODE.OK;
  const { decision } = claim;
  if (decision === undefined) return { code };
  const { retryAfterMs, resetAfterMs, remaining } = decision;
  const waitMs = isTooLarge(claim) ? claim.limit.policy.windowMs : retryAfterMs || resetAfterMs;
  return {
    code,
    currentLimit: currentLimit(claim),
    limitRemaining: Math.min(remaining, MAX_UINT32),
    durationUntilReset: durationOf(waitMs),
  };
}

/**
 * Returns the status of a blocked descriptor. The wait is infinite, but reported as one window.
 * Without a wait, clients would retry at once.
 */
function blockedStatus({ limit, name, isShadow }: Blocked): DescriptorStatus {
  const { windowMs } = limit.policy;
  const unit = unitOfWindow(windowMs);
  return {
    code: isShadow ? CODE.OK : CODE.OVER_LIMIT,
    currentLimit: { requestsPerUnit: 0, unit, ...(name !== undefined && { name }) },
    limitRemaining: 0,
    durationUntilReset: durationOf(windowMs),
  };
}

function currentLimit({ limit, name }: Claim): RateLimit {
  const requestsPerUnit = Math.min(limit.params.limit, MAX_UINT32);
  const unit = unitOfWindow(limit.policy.windowMs);
  return name === undefined ? { requestsPerUnit, unit } : { requestsPerUnit, unit, name };
}

const longestWait = (claims: readonly Claim[]): Claim =>
  claims.reduce((most, each) => (waitOf(each) > waitOf(most) ? each : most));

const waitOf = (claim: Claim): number =>
  isTooLarge(claim) ? Number.POSITIVE_INFINITY : (claim.decision?.retryAfterMs ?? 0);

/** Returns the enforced claim with the least remaining. Without enforced claims, a shadow claim. */
function leastRemaining(claims: readonly Claim[]): Claim {
  const enforced = claims.filter(({ isShadow }) => !isShadow);
  const all = enforced.length > 0 ? enforced : claims;
  return all.reduce((least, each) => (remainingOf(each) < remainingOf(least) ? each : least));
}

const remainingOf = ({ decision }: Claim): number =>
  decision?.remaining ?? Number.POSITIVE_INFINITY;

function headersOf(outcome: DescriptorDecisions, form: HeaderForm): readonly HeaderValue[] {
  const { isDenied, result, limits } = outcome;
  const fields = fieldsOf({ allowed: !isDenied, result, shadow: [], peek: false }, limits, form);
  return fields.map(([key, value]) => ({ key, value }));
}

type Data = Readonly<Record<string, unknown>>;

/** Returns the merged metadata of all allowed descriptors. Earlier descriptors take precedence. */
function metadataOf({ items }: Plan, statuses: readonly DescriptorStatus[]): Data | undefined {
  let merged: Data | undefined;
  for (const [at, { metadata }] of items.entries()) {
    if (metadata === undefined || statuses[at].code !== CODE.OK) continue;
    merged = merged === undefined ? metadata : mergedData(merged, metadata);
  }
  return merged;
}

const isData = (value: unknown): value is Data =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function mergedData(first: Data, second: Data): Data {
  const merged = new Map(Object.entries(first));
  for (const [name, value] of Object.entries(second)) {
    const known = merged.get(name);
    if (known === undefined) merged.set(name, value);
    else if (isData(known) && isData(value)) merged.set(name, mergedData(known, value));
  }
  return Object.fromEntries(merged);
}
