/** Runs the calls through the limiter once per algorithm and compares the decisions. */
import { AlgorithmRun, type RunDecision, type WorstWindow } from 'sluice-traffic/lab';
import type { WindowAlgorithmName } from '../api/types.ts';
import { definePolicy } from './engine.ts';
import { type LabSettings, policyOptions } from './settings.ts';
import { type Call, SINGLE_CLIENT, type Traffic } from './traffic.ts';

/** The result of one algorithm, drawn as one row. */
export interface Lane {
  readonly algorithm: WindowAlgorithmName;
  readonly capacity: number;
  /** One decision per call. */
  readonly decisions: readonly RunDecision[];
  readonly admitted: number;
  readonly denied: number;
  /** The window with the highest admitted cost, over windows that start at any time. */
  readonly fullest: WorstWindow | undefined;
  /** Index of the first denied call. */
  readonly firstDenial: number | undefined;
  /** Number of calls admitted here and denied by the exact sliding log, and the reverse. */
  readonly falseAdmits: number;
  readonly falseDenials: number;
  /** Usage over time, as the algorithm reports it. */
  readonly used: readonly Used[];
}

/** Usage at one time. An admitted call has two: before and after the call. */
export interface Used {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabResult {
  readonly traffic: Traffic;
  /** The key whose windows are drawn: the key with the most calls. */
  readonly followed: string;
  readonly lanes: readonly Lane[];
}

const EXACT: WindowAlgorithmName = 'sliding-log';
const SAMPLES = 300;

export function runLab(settings: LabSettings, traffic: Traffic): LabResult {
  const followed = busiest(traffic.calls);
  const times = sampleTimes(traffic, settings.windowMs);
  const run = (algorithm: WindowAlgorithmName): LaneRun =>
    new LaneRun(settings, algorithm, followed).all(traffic.calls, times);
  const exact = run(EXACT);
  const lanes = settings.algorithms.map((algorithm) =>
    (algorithm === EXACT ? exact : run(algorithm)).lane(traffic.calls, exact),
  );
  return { traffic, followed, lanes };
}

/** Returns evenly spaced times, and two at each window boundary, where usage may drop. */
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

function busiest(calls: readonly Call[]): string {
  const counts = new Map<string, number>();
  for (const { key } of calls) counts.set(key, (counts.get(key) ?? 0) + 1);
  let most = SINGLE_CLIENT;
  for (const [key, count] of counts) if (count > (counts.get(most) ?? 0)) most = key;
  return most;
}

/** Runs all calls through one algorithm and samples its usage over time. */
class LaneRun {
  readonly #algorithm: WindowAlgorithmName;
  readonly #followed: string;
  readonly #capacity: number;
  readonly #run: AlgorithmRun;
  readonly #rows = new Map<string, number>();
  readonly #decisions: RunDecision[] = [];
  readonly #used: Used[] = [];

  constructor(settings: LabSettings, algorithm: WindowAlgorithmName, followed: string) {
    const policy = definePolicy('lab', policyOptions(settings, algorithm));
    this.#algorithm = algorithm;
    this.#followed = followed;
    this.#capacity = policy.params!.capacity;
    this.#run = new AlgorithmRun(policy);
  }

  /** Decides all calls, and samples the usage in between. */
  all(calls: readonly Call[], sampleTimes: readonly number[]): this {
    let next = 0;
    for (const timeMs of sampleTimes) {
      for (; next < calls.length && calls[next].atMs <= timeMs; next++) this.#call(calls[next]);
      this.#sample(timeMs);
    }
    for (; next < calls.length; next++) this.#call(calls[next]);
    return this;
  }

  #sample(atMs: number): void {
    const remaining = this.#run.remaining(this.#followed, atMs);
    this.#used.push({ atMs, cost: this.#capacity - remaining });
  }

  #call({ atMs, cost, key }: Call): void {
    const row = this.#rows.get(key) ?? this.#rows.size;
    this.#rows.set(key, row);
    const isFollowed = key === this.#followed;
    if (isFollowed) this.#sample(atMs);
    const { allowed, remaining, retryAfterMs } = this.#run.decide(row, key, cost, atMs);
    this.#decisions.push({ allowed, remaining, retryAfterMs });
    if (allowed && isFollowed) this.#sample(atMs);
  }

  lane(calls: readonly Call[], exact: LaneRun): Lane {
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
