/** The rate-limit fields of a verdict, for whichever protocol carries them. */
import type { CheckResult, Limit } from 'sluice';
import { headerReport } from 'sluice/engine';
import { type HeaderForm, type HeaderReport, headerForms, retryAfter } from 'sluice/http';
import type { ServiceDecision } from '../decision-service.ts';

export type Field = readonly [name: string, value: string];

/** What the enforced limits say, with their windows; those in shadow are nobody's business. */
export function decisionReport(result: CheckResult, limits: readonly Limit[]): HeaderReport {
  const windowOf = (name: string): number =>
    limits.find(({ policy }) => policy.name === name)?.policy.windowMs ?? 0;
  // A wait that never ends is told as a window, so that clients that go by it do not hurry.
  const finite = result.limits.map((each) =>
    Number.isFinite(each.retryAfterMs) ? each : { ...each, retryAfterMs: windowOf(each.policy) },
  );
  return headerReport(result, finite, windowOf);
}

/** A store that is away has measured nothing, so then only the wait is told. */
export function fieldsOf(
  { result }: ServiceDecision,
  limits: readonly Limit[],
  form: HeaderForm = 'draft',
): readonly Field[] {
  if (result === undefined) return [];
  const report = decisionReport(result, limits);
  const isAway = result.degraded?.action === 'deny';
  const fields = isAway ? [] : headerForms[form](report);
  const wait = Number.isFinite(result.retryAfterMs) ? retryAfter(report, form) : undefined;
  return wait === undefined ? fields : [...fields, wait];
}

/** 200, 429 for a caller who asked too often, 503 if nobody could tell. */
export function statusOf({ allowed, result }: ServiceDecision): 200 | 429 | 503 {
  if (allowed) return 200;
  return result?.degraded?.action === 'deny' ? 503 : 429;
}
