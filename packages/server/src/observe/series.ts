/**
 * `GET /v1/series`: decisions of the last minutes by second, or of the last day by minute, over all
 * processes. Reports the 100 policies with the most decisions. A first query to all processes finds
 * these policies, and a second query gets only their counts.
 */
import { badRequest, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';
import {
  type Counts,
  emptyCounts,
  HISTORY_MINUTES,
  HISTORY_SECONDS,
  type History,
  MINUTE_MS,
  type PolicyCounts,
  type Span,
  STEP_MS,
  stepsOf,
} from './history.ts';
import { checkLabel, type LabelParts } from './policy-labels.ts';

/** Maximum number of policies in a report. Further policies are only counted. */
export const MAX_REPORTED_POLICIES = 100;

const DEFAULT_SECONDS = 300;

/** The first reply of a process: the total, and the number of decisions of each policy. */
export interface Outline {
  readonly sinceMs: number;
  readonly total: Counts;
  readonly activity: readonly (readonly [name: string, count: number])[];
}

export function outlineOf(history: History, span: Span): Outline {
  history.record();
  const { sinceMs } = history;
  return { sinceMs, total: history.total(span), activity: history.activity(span) };
}

/** Adds `counts` to `sum`, step by step. */
function addTo(sum: Counts, counts: Counts): void {
  for (const name of ['allowed', 'denied', 'shadowAllowed', 'shadowDenied', 'degraded'] as const) {
    for (const [at, count] of counts[name].entries()) sum[name][at] += count;
  }
  for (const [at, full] of counts.fullest.entries()) {
    if (full !== null) sum.fullest[at] = Math.max(sum.fullest[at] ?? 0, full);
  }
}

export function sumOf(steps: number, parts: readonly Counts[]): Counts {
  const sum = emptyCounts(steps);
  for (const part of parts) addTo(sum, part);
  return sum;
}

/** Sums the counts of several processes by policy. */
export function sumsByPolicy(
  steps: number,
  parts: readonly (readonly PolicyCounts[])[],
): ReadonlyMap<string, Counts> {
  const sums = new Map<string, Counts>();
  for (const { name, ...counts } of parts.flat()) {
    const sum = sums.get(name) ?? emptyCounts(steps);
    addTo(sum, counts);
    sums.set(name, sum);
  }
  return sums;
}

/** Returns the names with the most decisions, at most `max`, and the number of other names. */
export function mostActive(
  activity: Iterable<readonly [name: string, count: number]>,
  max = MAX_REPORTED_POLICIES,
): { readonly names: readonly string[]; readonly omitted: number } {
  const counts = new Map<string, number>();
  for (const [name, count] of activity) counts.set(name, (counts.get(name) ?? 0) + count);
  const sorted = [...counts].sort(
    ([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1),
  );
  const names = sorted.slice(0, max).map(([name]) => name);
  return { names, omitted: sorted.length - names.length };
}

/** Queries to all processes. */
export interface SeriesSource {
  outlines(span: Span): Promise<readonly Outline[]>;
  policies(span: Span, names: readonly string[]): Promise<readonly (readonly PolicyCounts[])[]>;
}

export interface SeriesReport {
  readonly stepMs: number;
  readonly startMs: number;
  readonly sinceMs: number;
  readonly total: Counts;
  readonly policies: readonly PolicyCounts[];
  readonly omitted: number;
}

/**
 * Resolves to a report of the policies with the most decisions, at most `max`. If `policy` is set,
 * reports only this policy, even if it has no traffic.
 */
export async function seriesReport(
  source: SeriesSource,
  span: Span,
  policy: string | undefined,
  max = MAX_REPORTED_POLICIES,
): Promise<SeriesReport> {
  const { startMs, stepMs = STEP_MS } = span;
  const steps = stepsOf(span);
  const outlines = await source.outlines(span);
  const total = sumOf(
    steps,
    outlines.map((each) => each.total),
  );
  const { names, omitted } =
    policy === undefined
      ? mostActive(
          outlines.flatMap(({ activity }) => activity),
          max,
        )
      : { names: [policy], omitted: 0 };
  const parts = names.length === 0 ? [] : await source.policies(span, names);
  const sums = sumsByPolicy(steps, parts);
  const policies = names.map((name) => ({ name, ...(sums.get(name) ?? emptyCounts(steps)) }));
  // A worker that was replaced has a shorter history, so the earliest start of all is reported.
  const sinceMs = Math.min(...outlines.map((each) => each.sinceMs));
  return { stepMs, startMs, sinceMs, total, policies, omitted };
}

function integerOf({ query }: RequestContext, name: string, min: number, max: number) {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const what = `Expected \`${name}\` to be an integer from ${min} to ${max}`;
  throw badRequest('ERR_INVALID_OPTION', `${what}, got \`${text.slice(0, 60)}\``);
}

function spanOf(context: RequestContext, history: History): Span {
  const seconds = integerOf(context, 'seconds', 1, HISTORY_SECONDS);
  const minutes = integerOf(context, 'minutes', 1, HISTORY_MINUTES);
  const step = integerOf(context, 'step', 1, HISTORY_MINUTES) ?? 1;
  if (minutes === undefined) {
    if (step > 1) throw badRequest('ERR_INVALID_OPTION', 'Expected `step` together with `minutes`');
    const length = seconds ?? DEFAULT_SECONDS;
    return { startMs: history.lastMs - (length - 1) * STEP_MS, seconds: length };
  }
  if (seconds !== undefined) {
    throw badRequest('ERR_INVALID_OPTION', 'Expected `seconds` or `minutes`, got both');
  }
  if (minutes % step !== 0) {
    const what = `Expected \`minutes\` to be a multiple of \`step\``;
    throw badRequest('ERR_INVALID_OPTION', `${what}, got ${minutes} and ${step}`);
  }
  // Steps start at multiples of their length, so that a minute stays in the same step over time.
  const stepMs = step * MINUTE_MS;
  const endMs = Math.floor(history.lastMinuteMs / stepMs + 1) * stepMs;
  return { startMs: endMs - minutes * MINUTE_MS, seconds: minutes * 60, stepMs };
}

export interface SeriesParts {
  readonly history: History;
  readonly series: SeriesSource;
}

export function seriesRoutes(
  router: Router,
  parts: LabelParts,
  { history, series }: SeriesParts,
): void {
  router.add('GET', '/v1/series', 'admin', async (context) => {
    context.checkQuery('seconds', 'minutes', 'step', 'policy', 'count');
    const policy = context.query.get('policy') ?? undefined;
    if (policy !== undefined) checkLabel(parts, policy);
    const span = spanOf(context, history);
    const max = integerOf(context, 'count', 0, MAX_REPORTED_POLICIES);
    const report = await seriesReport(series, span, policy, max);
    context.send(200, report, { 'cache-control': 'no-store' });
  });
}
