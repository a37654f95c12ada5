/**
 * Ticks of the live feed. A tick has the counts of one second. Each process replies with its own
 * part of a tick, and the parts are merged.
 */
import type { OpenStore } from '../stores/index.ts';
import { withTimeout } from '../with-timeout.ts';
import {
  type Denial,
  type DenialBatch,
  type DenialFilter,
  groupText,
  MAX_DENIALS,
} from './denials.ts';
import type { BreakerState, Health } from './health.ts';
import { quantileOf } from './histogram.ts';
import { type Counts, type History, type PolicyCounts, type Span, STEP_MS } from './history.ts';
import { mostActive, sumOf, sumsByPolicy } from './series.ts';

/** Timeout of a probe. A store that takes longer to decide is reported as down. */
const PROBE_MS = 500;
/** Maximum age of a cached probe. Below 1 s, so that each tick has its own probe. */
const PROBE_MAX_AGE_MS = 900;

export interface StoreReport {
  readonly kind: string;
  readonly up: boolean;
  readonly breaker?: BreakerState;
  /** Duration of the last probe. */
  readonly latencyMs?: number;
  readonly keys?: number;
}

/** Plain data, serializable as JSON. */
export interface TickRequest extends Span {
  /** Identifies the process that sends the request. */
  readonly subscriber: string;
  readonly filters: readonly DenialFilter[];
}

/** The reply of one process. */
export interface TickPart {
  readonly policies: readonly PolicyCounts[];
  readonly durations: readonly (readonly number[])[];
  readonly store: StoreReport;
  /** One batch per filter of the request. */
  readonly denials: readonly DenialBatch[];
}

export interface TickParts {
  readonly history: History;
  readonly health: Health;
  readonly store: OpenStore;
  readonly denials: {
    take(subscriber: string, filters: readonly DenialFilter[]): readonly DenialBatch[];
  };
}

const roundMs = (value: number): number => Math.round(value * 1000) / 1000;

async function storeReport({ health, store }: TickParts): Promise<StoreReport> {
  const up = (await withTimeout(PROBE_MS, health.isStoreUp(PROBE_MAX_AGE_MS))) === true;
  const { breaker, latencyMs } = health;
  const { size } = store.store;
  return {
    ...{ kind: store.kind, up },
    ...(breaker !== undefined && { breaker }),
    ...(up && latencyMs !== undefined && { latencyMs: roundMs(latencyMs) }),
    ...(size !== undefined && { keys: size }),
  };
}

export async function tickPart(parts: TickParts, request: TickRequest): Promise<TickPart> {
  const { history } = parts;
  history.record();
  const names = history.activity(request).map(([name]) => name);
  const policies = history.policies(request, names);
  const durations = history.durations(request);
  const denials = parts.denials.take(request.subscriber, request.filters);
  return { policies, durations, denials, store: await storeReport(parts) };
}

/** The tick of one second, without denials, because they depend on the filter of each stream. */
export interface Tick {
  readonly atMs: number;
  readonly total: SecondCounts;
  readonly policies: readonly (SecondCounts & { readonly name: string })[];
  readonly omitted: number;
  readonly store: StoreReport;
  readonly decisions: { readonly p50Ms?: number; readonly p99Ms?: number };
  readonly processes: number;
}

export type SecondCounts = { readonly [Name in keyof Counts]: Counts[Name][number] };

const secondOf = (counts: Counts, at: number): SecondCounts => ({
  allowed: counts.allowed[at],
  denied: counts.denied[at],
  shadowAllowed: counts.shadowAllowed[at],
  shadowDenied: counts.shadowDenied[at],
  degraded: counts.degraded[at],
  fullest: counts.fullest[at],
});

const activityOf = (counts: SecondCounts): number =>
  counts.allowed + counts.denied + counts.shadowAllowed + counts.shadowDenied + counts.degraded;

/** Returns a tick for each second of a span. */
export function ticksOf({ startMs, seconds }: Span, parts: readonly TickPart[]): readonly Tick[] {
  const byPolicy = sumsByPolicy(
    seconds,
    parts.map(({ policies }) => policies),
  );
  const total = sumOf(seconds, [...byPolicy.values()]);
  const common = { store: worstOf(parts.map(({ store }) => store)), processes: parts.length };
  return Array.from({ length: seconds }, (_, at) => {
    const counts = [...byPolicy].map(([name, each]) => ({ name, ...secondOf(each, at) }));
    const active = counts.filter((each) => activityOf(each) > 0 || each.fullest !== null);
    const { names, omitted } = mostActive(active.map((each) => [each.name, activityOf(each)]));
    const byName = new Map(active.map((each) => [each.name, each]));
    return {
      atMs: startMs + at * STEP_MS,
      total: secondOf(total, at),
      policies: names.map((name) => byName.get(name)!),
      omitted,
      decisions: quantilesOf(parts.map(({ durations }) => durations[at])),
      ...common,
    };
  });
}

/**
 * Merges the reports of all processes. They can differ, because each process has its own connection
 * to the store. The worst values apply.
 */
function worstOf(reports: readonly StoreReport[]): StoreReport {
  const [{ kind }] = reports;
  const breakers = reports.map(({ breaker }) => breaker);
  const breaker = (['open', 'probing', 'closed'] as const).find((each) => breakers.includes(each));
  const most = (name: 'latencyMs' | 'keys'): number | undefined => {
    const known = reports.flatMap((each) => each[name] ?? []);
    return known.length === 0 ? undefined : Math.max(...known);
  };
  const latencyMs = most('latencyMs');
  const keys = most('keys');
  return {
    ...{ kind, up: reports.every(({ up }) => up) },
    ...(breaker !== undefined && { breaker }),
    ...(latencyMs !== undefined && { latencyMs }),
    ...(keys !== undefined && { keys }),
  };
}

function quantilesOf(all: readonly (readonly number[])[]): Tick['decisions'] {
  const [first, ...others] = all;
  const buckets = first.map((count, at) => others.reduce((sum, each) => sum + each[at], count));
  const [p50, p99] = [quantileOf(buckets, 0.5), quantileOf(buckets, 0.99)];
  if (p50 === undefined || p99 === undefined) return {};
  return { p50Ms: roundMs(p50 * 1000), p99Ms: roundMs(p99 * 1000) };
}

/** Merges the denials of all processes for one filter. Lists the first 50 keys, counts the rest. */
export function jointBatch(batches: readonly DenialBatch[]): DenialBatch {
  const all = batches.flatMap(({ denials }) => denials).sort((a, b) => a.atMs - b.atMs);
  const byKey = new Map<string, Denial>();
  for (const denial of all) {
    const group = groupText(denial.policy, denial.key, denial.shadow === true);
    const earlier = byKey.get(group);
    const repeats =
      (denial.repeats ?? 0) + (earlier === undefined ? 0 : 1 + (earlier.repeats ?? 0));
    if (earlier === undefined && byKey.size === MAX_DENIALS) continue;
    byKey.set(group, repeats === 0 ? denial : { ...denial, repeats });
  }
  const omitted = batches.reduce((sum, each) => sum + each.omitted, 0);
  return { denials: [...byKey.values()], omitted: omitted + all.length - byKey.size };
}
