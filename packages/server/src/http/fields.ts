/** The rate-limit fields of a verdict, for whichever protocol carries them. */
import type { Limit, Quote } from 'sluice';
import { reportOf } from 'sluice/engine';
import { type HeaderForm, headerForms, type Report, retryAfter } from 'sluice/http';
import type { Verdict } from '../desk.ts';

export type Field = readonly [name: string, value: string];

/** What the enforced limits say, with their windows; those in shadow are nobody's business. */
export function verdictReport(quote: Quote, limits: readonly Limit[]): Report {
  const windowOf = (name: string): number =>
    limits.find(({ policy }) => policy.name === name)?.policy.windowMs ?? 0;
  // A wait that never ends is told as a window, so that clients that go by it do not hurry.
  const finite = quote.limits.map((each) =>
    Number.isFinite(each.retryAfterMs) ? each : { ...each, retryAfterMs: windowOf(each.policy) },
  );
  return reportOf(quote, finite, windowOf);
}

/** A store that is away has measured nothing, so then only the wait is told. */
export function fieldsOf(
  { quote }: Verdict,
  limits: readonly Limit[],
  form: HeaderForm = 'draft',
): readonly Field[] {
  if (quote === undefined) return [];
  const report = verdictReport(quote, limits);
  const isAway = quote.degraded?.action === 'deny';
  const fields = isAway ? [] : headerForms[form](report);
  const wait = Number.isFinite(quote.retryAfterMs) ? retryAfter(report, form) : undefined;
  return wait === undefined ? fields : [...fields, wait];
}

/** 200, 429 for a caller who asked too often, 503 if nobody could tell. */
export function statusOf({ allowed, quote }: Verdict): 200 | 429 | 503 {
  if (allowed) return 200;
  return quote?.degraded?.action === 'deny' ? 503 : 429;
}
