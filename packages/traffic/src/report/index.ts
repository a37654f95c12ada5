/** Results as a page: one file that needs nothing else, and runs nothing. */
import type { CompareResult } from '../replay/compare.ts';
import type { Explanation } from '../replay/explain.ts';
import type { PlanResult } from '../replay/plan.ts';
import type { SuggestResult } from '../replay/suggest.ts';
import { comparePage } from './compare-page.ts';
import { type DemoResult, demoPage } from './demo-page.ts';
import { type ExplainExtras, explainPage } from './explain-page.ts';
import { type FieldsResult, fieldsPage } from './fields-page.ts';
import { type GenerateResult, generatePage } from './generate-page.ts';
import type { ReportExtras } from './page.ts';
import { planPage } from './plan-page.ts';
import { suggestPage } from './suggest-page.ts';
import { type TopResult, topPage } from './top-page.ts';

export type { ReportExtras };

export type ReportedResult =
  | (PlanResult & ReportExtras)
  | (CompareResult & ReportExtras)
  | (SuggestResult & ReportExtras)
  | (Explanation & ExplainExtras)
  | FieldsResult
  | GenerateResult
  | DemoResult
  | TopResult;

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
    case 'fields':
      return fieldsPage(result);
    case 'generate':
      return generatePage(result);
    case 'demo':
      return demoPage(result);
    case 'top':
      return topPage(result);
  }
}
