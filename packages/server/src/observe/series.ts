/**
 * `GET /v1/series`: decisions per second of the last minutes, over all processes. Reports at most
 * 100 policies: a first request to the other processes finds the busiest, a second one gets only
 * their counts.
 */
import { badRequest } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';
import {
  type Counts,
  emptyCounts,
  HISTORY_SECONDS,
  type History,
  type PolicyCounts,
  type Span,
  STEP_MS,
} from './history.ts';
import { checkLabel, type LabelParts } from './policy-labels.ts';

/** Further policies are only counted. */
export const MAX_REPORTED_POLICIES = 100;

const DEFAULT_SECONDS = 300;

/** The first reply of a process: the total, and the number of decisions of each policy. */
export interface Outline {
  readonly total: Counts;
  readonly activity: readonly (readonly [name: string, count: number])[];
}

export function outlineOf(history: History, span: Span): Outline {
  history.record();
  return { total: history.total(span), activity: history.activity(span) };
}

/** Adds the counts of another process. */
function addTo(sum: Counts, counts: Counts): void {
  for (const name of ['allowed', 'denied', 'shadowAllowed', 'shadowDenied', 'degraded'] as const) {
    for (const [at, count] of counts[name].entries()) sum[name][at] += count;
  }
  for (const [at, full] of counts.fullest.entries()) {
    if (full !== null) sum.fullest[at] = Math.max(sum.fullest[at] ?? 0, full);
  }
}

export function summed(seconds: number, parts: readonly Counts[]): Counts {
  const sum = emptyCounts(seconds);
  for (const part of parts) addTo(sum, part);
  return sum;
}

/** Sums the counts of several processes by policy. */
export function summedByPolicy(
  seconds: number,
  parts: readonly (readonly PolicyCounts[])[],
): ReadonlyMap<string, Counts> {
  const sums = new Map<string, Counts>();
  for (const { name, ...counts } of parts.flat()) {
    const sum = sums.get(name) ?? emptyCounts(seconds);
    addTo(sum, counts);
    sums.set(name, sum);
  }
  return sums;
}

/** Returns the names with the most decisions, and the number of other names. */
export function busiest(activity: Iterable<readonly [name: string, count: number]>): {
  readonly names: readonly string[];
  readonly omitted: number;
} {
  const counts = new Map<string, number>();
  for (const [name, count] of activity) counts.set(name, (counts.get(name) ?? 0) + count);
  const sorted = [...counts].sort(([a, most], [b, count]) => count - most || (a < b ? -1 : 1));
  const names = sorted.slice(0, MAX_REPORTED_POLICIES).map(([name]) => name);
  return { names, omitted: sorted.length - names.length };
}

/** Requests to all processes. */
export interface SeriesSource {
  outlines(span: Span): Promise<readonly Outline[]>;
  policies(span: Span, names: readonly string[]): Promise<readonly (readonly PolicyCounts[])[]>;
}

export interface SeriesReport {
  readonly stepMs: number;
  readonly startMs: number;
  readonly total: Counts;
  readonly policies: readonly PolicyCounts[];
  readonly omitted: number;
}

/** Resolves to the report of the busiest policies, or of `policy` even without traffic. */
export async function seriesReport(
  source: SeriesSource,
  span: Span,
  policy: string | undefined,
): Promise<SeriesReport> {
  const { startMs, seconds } = span;
  const outlines = await source.outlines(span);
  const total = summed(
    seconds,
    outlines.map((each) => each.total),
  );
  const { names, omitted } =
    policy === undefined
      ? busiest(outlines.flatMap(({ activity }) => activity))
      : { names: [policy], omitted: 0 };
  const sums = summedByPolicy(seconds, await source.policies(span, names));
  const policies = names.map((name) => ({ name, ...(sums.get(name) ?? emptyCounts(seconds)) }));
  return { stepMs: STEP_MS, startMs, total, policies, omitted };
}

function secondsOf(text: string | null): number {
  if (text === null) return DEFAULT_SECONDS;
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (seconds >= 1 && seconds <= HISTORY_SECONDS) return seconds;
  const what = `Expected \`seconds\` to be an integer from 1 to ${HISTORY_SECONDS}`;
  throw badRequest('ERR_INVALID_OPTION', `${what}, got \`${text.slice(0, 60)}\``);
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
    context.checkQuery('seconds', 'policy');
    const { query } = context;
    const seconds = secondsOf(query.get('seconds'));
    const policy = query.get('policy') ?? undefined;
    if (policy !== undefined) checkLabel(parts, policy);
    const span = { startMs: history.lastMs - (seconds - 1) * STEP_MS, seconds };
    const report = await seriesReport(series, span, policy);
    context.send(200, report, { 'cache-control': 'no-store' });
  });
}
