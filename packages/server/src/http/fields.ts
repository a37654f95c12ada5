/** Rate-limit headers of a decision, for all protocols. */
import type { CheckResult, Limit } from 'sluice';
import { headerReport } from 'sluice/engine';
import { type HeaderForm, type HeaderReport, headerForms, retryAfter } from 'sluice/http';
import type { ServiceDecision } from '../decision-service.ts';

export type Field = readonly [name: string, value: string];

/**
 * Returns the values for rate-limit headers. Includes only enforced limits: clients do not see
 * shadow limits.
 */
export function decisionReport(result: CheckResult, limits: readonly Limit[]): HeaderReport {
  const windowOf = (name: string): number =>
    limits.find(({ policy }) => policy.name === name)?.policy.windowMs ?? 0;
  // An infinite wait is reported as one window, so that clients do not retry at once.
  const finite = result.limits.map((each) =>
    Number.isFinite(each.retryAfterMs) ? each : { ...each, retryAfterMs: windowOf(each.policy) },
  );
  return headerReport(result, finite, windowOf);
}

/**
 * Returns the headers of a decision. If the store failed and the action `deny` applied, returns
 * only `Retry-After`.
 */
export function fieldsOf(
  { result }: ServiceDecision,
  limits: readonly Limit[],
  form: HeaderForm = 'draft',
): readonly Field[] {
  if (result === undefined) return [];
  const report = decisionReport(result, limits);
  const isFallbackDenial = result.degraded?.action === 'deny';
  const fields = isFallbackDenial ? [] : headerForms[form](report);
  const wait = Number.isFinite(result.retryAfterMs) ? retryAfter(report, form) : undefined;
  return wait === undefined ? fields : [...fields, wait];
}

/** Returns 200 if allowed, 429 if denied, 503 if denied because the store is unavailable. */
export function statusOf({ allowed, result }: ServiceDecision): 200 | 429 | 503 {
  if (allowed) return 200;
  return result?.degraded?.action === 'deny' ? 503 : 429;
}
