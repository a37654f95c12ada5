/** Renders a result as one self-contained HTML file without scripts or external resources. */
import type { CompareResult } from '../replay/compare.ts';
import type { Explanation } from '../replay/explain.ts';
import type { PlanResult } from '../replay/plan.ts';
import type { SuggestResult } from '../replay/suggest.ts';
import { comparePage } from './compare-page.ts';
import { explainPage } from './explain-page.ts';
import type { ReportExtras } from './page.ts';
import { planPage } from './plan-page.ts';
import { suggestPage } from './suggest-page.ts';

export type { ReportExtras };

export type ReportedResult =
  | (PlanResult & ReportExtras)
  | (CompareResult & ReportExtras)
  | (SuggestResult & ReportExtras)
  | (Explanation & ReportExtras);

export function htmlReport(result: ReportedResult): string {
  switch (result.kind) {
    case 'plan':
      return planPage(result, result);
    case 'compare':
      return comparePage(result, result);
    case 'suggest':
      return suggestPage(result, result);
    case 'explain':
      return explainPage(result, result);
  }
}
