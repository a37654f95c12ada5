/** Results as a page: one file that needs nothing else, and runs nothing. */
import type { CompareResult } from '../replay/compare.ts';
import type { PlanResult } from '../replay/plan.ts';
import type { SuggestResult } from '../replay/suggest.ts';
import { comparePage } from './compare-page.ts';
import type { ReportExtras } from './page.ts';
import { planPage } from './plan-page.ts';
import { suggestPage } from './suggest-page.ts';

export type { ReportExtras };
export type ReportedResult = PlanResult | CompareResult | SuggestResult;

export function htmlReport(result: ReportedResult & ReportExtras): string {
  switch (result.kind) {
    case 'plan':
      return planPage(result, result);
    case 'compare':
      return comparePage(result, result);
    case 'suggest':
      return suggestPage(result, result);
  }
}
