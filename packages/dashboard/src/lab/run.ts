/** Runs the calls through the limiter once per algorithm and compares the decisions. */
import { AlgorithmRun, type RunDecision, type WorstWindow } from 'sluice-traffic/lab';
import type { WindowAlgorithmName } from '../api/types.ts';
import { definePolicy } from './engine.ts';
import { type LabSettings, policyOptions } from './settings.ts';
import { type Call, SINGLE_CLIENT, type Traffic } from './traffic.ts';

/** The results of one algorithm, drawn as one lane. */
export interface Lane {
  readonly algorithm: WindowAlgorithmName;
  /** The largest cost admitted at once: the burst of a token bucket, otherwise the limit. */
  readonly capacity: number;
  /** One decision per call. */
  readonly decisions: readonly RunDecision[];
  readonly admitted: number;
  readonly denied: number;
  /** The window with the highest admitted cost. It can start at any time. */
  readonly fullest: WorstWindow | undefined;
  /** Index of the first denied call; undefined if no call was denied. */
  readonly firstDenial: number | undefined;
  /** Number of calls that this algorithm admitted but the exact sliding log denied. */
  readonly falseAdmits: number;
  /** Number of calls that this algorithm denied but the exact sliding log admitted. */
  readonly falseDenials: number;
  /** Usage over time, as the algorithm counts it. */
  readonly used: readonly Used[];
}

/** A sample of the usage. For an admitted call there are two: before and after the call. */
export interface Used {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabResult {
  readonly traffic: Traffic;
  /** The key with the most calls. The lanes show the windows of this key. */
  readonly busiestKey: string;
  readonly lanes: readonly Lane[];
}

const EXACT: WindowAlgorithmName = 'sliding-log';
/** Number of evenly spaced times at which the usage is sampled. */
const SAMPLES = 300;

export function runLab(settings: LabSettings, traffic: Traffic): LabResult {
  const busiestKey = busiestKeyOf(traffic.calls);
  const times = sampleTimes(traffic, settings.windowMs);
  const run = (algorithm: WindowAlgorithmName): LaneRun =>
    new LaneRun(settings, algorithm, busiestKey).decideAll(traffic.calls, times);
  const exact = run(EXACT);
  const lanes = settings.algorithms.map((algorithm) =>
    (algorithm === EXACT ? exact : run(algorithm)).toLane(traffic.calls, exact),
  );
  return { traffic, busiestKey, lanes };
}

/**
 * Returns the times at which the usage is sampled: evenly spaced times, and two at each boundary of
 * clock-aligned windows, where the usage may drop.
 */
function sampleTimes({ startMs, endMs }: Traffic, windowMs: number): readonly number[] {
  const lengthMs = endMs - startMs;
  const even = Array.from({ length: SAMPLES + 1 }, (_, at) =>
    Math.floor(startMs + (lengthMs * at) / SAMPLES),
  );
  const firstMs = Math.ceil(startMs / windowMs) * windowMs;
  const windows = Math.floor((endMs - firstMs) / windowMs) + 1;
  const edges = Array.from({ length: Math.min(windows, SAMPLES) }, (_, at) => {
    const edgeMs = firstMs + at * windowMs;
    return [edgeMs - 1, edgeMs];
  }).flat();
  const times = new Set([...even, ...edges].filter((timeMs) => timeMs >= startMs));
  return [...times].sort((a, b) => a - b);
}

function busiestKeyOf(calls: readonly Call[]): string {
  const counts = new Map<string, number>();
  for (const { key } of calls) counts.set(key, (counts.get(key) ?? 0) + 1);
  let most = SINGLE_CLIENT;
  for (const [key, count] of counts) if (count > (counts.get(most) ?? 0)) most = key;
  return most;
}

/** Runs all calls through one algorithm, and samples the usage of one key over time. */
class LaneRun {
  readonly #algorithm: WindowAlgorithmName;
  readonly #sampledKey: string;
  readonly #capacity: number;
  readonly #run: AlgorithmRun;
  readonly #rows = new Map<string, number>();
  readonly #decisions: RunDecision[] = [];
  readonly #used: Used[] = [];

  constructor(settings: LabSettings, algorithm: WindowAlgorithmName, sampledKey: string) {
    const policy = definePolicy('lab', policyOptions(settings, algorithm));
    this.#algorithm = algorithm;
    this.#sampledKey = sampledKey;
    this.#capacity = policy.params!.capacity;
    this.#run = new AlgorithmRun(policy);
  }

  /** Decides all calls, and samples the usage at the given times and at each call. */
  decideAll(calls: readonly Call[], sampleTimes: readonly number[]): this {
    let next = 0;
    for (const timeMs of sampleTimes) {
      for (; next < calls.length && calls[next].atMs <= timeMs; next++) this.#decide(calls[next]);
      this.#sample(timeMs);
    }
    for (; next < calls.length; next++) this.#decide(calls[next]);
    return this;
  }

  #sample(atMs: number): void {
    const remaining = this.#run.remaining(this.#sampledKey, atMs);
    this.#used.push({ atMs, cost: this.#capacity - remaining });
  }

  #decide({ atMs, cost, key }: Call): void {
    const row = this.#rows.get(key) ?? this.#rows.size;
    this.#rows.set(key, row);
    const isSampled = key === this.#sampledKey;
    if (isSampled) this.#sample(atMs);
    const { allowed, remaining, retryAfterMs } = this.#run.decide(row, key, cost, atMs);
    this.#decisions.push({ allowed, remaining, retryAfterMs });
    if (allowed && isSampled) this.#sample(atMs);
  }

  /** Returns the results, with the decisions compared to those of the exact sliding log. */
  toLane(calls: readonly Call[], exact: LaneRun): Lane {
    const decisions = this.#decisions;
    for (const [at, { allowed }] of decisions.entries()) {
      this.#run.compareTo(exact.#decisions[at].allowed, allowed, calls[at].cost);
    }
    const { admitted, denied, falseAdmits, falseDenials, worst } = this.#run;
    const first = decisions.findIndex(({ allowed }) => !allowed);
    return {
      ...{ algorithm: this.#algorithm, capacity: this.#capacity, decisions, admitted, denied },
      ...{ fullest: worst, firstDenial: first < 0 ? undefined : first },
      ...{ falseAdmits, falseDenials, used: this.#used },
    };
  }
}
