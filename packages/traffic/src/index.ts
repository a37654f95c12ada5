/** `sluice-traffic`: reads access logs, replays them through policies and reports the result. */
export { clockText, dateText, isoText } from './calendar.ts';
export type { CostSource, Entry, Format } from './entry.ts';
export { FORMAT_NAMES, type FormatName } from './formats/detect.ts';
export { readTime } from './formats/instant.ts';
export { PARTS, type Part } from './formats/named.ts';
export { owned } from './formats/text.ts';
export { LINE_FORMATS, type LineFormat, lineWriter } from './generate/lines.ts';
export { SHAPE_NAMES, SHAPES, type ShapeName } from './generate/shapes.ts';
export {
  DEFAULT_REQUESTS,
  GeneratedRequest,
  GenerateError,
  generateTraffic,
  type TrafficOptions,
  type TrafficSettings,
  trafficSettings,
} from './generate/traffic.ts';
export { LATENESS_BOUND, SORT_BOUND } from './order.ts';
export { LogReader, type LogReport, type ReadOptions, type UnreadableLine } from './read-log.ts';
export type { AdversaryReport, Burst } from './replay/adversary.ts';
export type { WorstWindow } from './replay/algorithm-run.ts';
export type { NamedCount } from './replay/bounded-counts.ts';
export { clientNames } from './replay/client-name.ts';
export {
  type AlgorithmReport,
  COMPARED,
  type CompareOptions,
  type CompareResult,
  Comparison,
  type MemoryReport,
} from './replay/compare.ts';
export {
  type Choice,
  choiceText,
  describeExplanation,
  type ExplainedRequest,
  Explainer,
  type ExplainOptions,
  type Explanation,
} from './replay/explain.ts';
export { KEY_WORDS, keyOfEntry } from './replay/key-of.ts';
export type { CurvePoint } from './replay/knee.ts';
export {
  type ClientReport,
  type Impact,
  type PlanChange,
  Planner,
  type PlanOptions,
  type PlanResult,
  type PolicyReport,
} from './replay/plan.ts';
export {
  factsOf,
  type NeverFits,
  type PolicyFacts,
  type Rules,
  rulesByClient,
} from './replay/replay.ts';
export {
  DENIED_SHARE,
  HEAD_ROOM,
  type LimitReport,
  SUGGESTED_WINDOWS_MS,
  Suggester,
  type SuggestOptions,
  type SuggestResult,
  type WindowReport,
} from './replay/suggest.ts';
export { Survey, type SurveyResult } from './replay/survey.ts';
export { Timeline, type TimelineData } from './replay/timeline.ts';
export { algorithmPicture } from './report/algorithm-picture.ts';
export { htmlReport, type ReportExtras, type ReportedResult } from './report/index.ts';
export type { Judgement } from './report/page.ts';
export { LogError, STANDARD_INPUT } from './source.ts';
