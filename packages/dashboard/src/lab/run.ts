/** Runs the calls through the engine once per algorithm and compares the decisions. */
import { WindowCounts } from 'sluice-traffic/lab';
import type { AlgorithmName } from '../api/types.ts';
import { createLimiter, ManualClock, memoryStore } from './engine.ts';
import { capacityOf, type LabSettings, policyOptions } from './settings.ts';
import { CALLER, type Call, type Traffic } from './traffic.ts';

export interface LabDecision {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Infinity if the cost is above the capacity. */
  readonly retryAfterMs: number;
}

/** The window of any alignment with the highest admitted cost. */
export interface Fullest {
  readonly cost: number;
  /** As a multiple of the limit. */
  readonly multiple: number;
  /** Time of its last call. */
  readonly atMs: number;
}

export interface Lane {
  readonly algorithm: AlgorithmName;
  readonly capacity: number;
  /** One per call. */
  readonly decisions: readonly LabDecision[];
  readonly admitted: number;
  readonly denied: number;
  readonly fullest: Fullest | undefined;
  /** Index of the first denied call. */
  readonly firstDenial: number | undefined;
  /** Calls that the exact sliding log decides differently. */
  readonly falseAdmits: number;
  readonly falseDenials: number;
  /** Usage over time, as the algorithm reports it. */
  readonly used: readonly Used[];
}

/** An admitted call has two, before and after it. */
export interface Used {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabResult {
  readonly traffic: Traffic;
  /** The key whose windows are drawn: the busiest one. */
  readonly followed: string;
  readonly lanes: readonly Lane[];
}

const EXACT: AlgorithmName = 'sliding-log';
const SAMPLES = 300;
const POLICY = 'lab';

export function runLab(settings: LabSettings, traffic: Traffic): LabResult {
  const followed = busiest(traffic.calls);
  const times = sampleTimes(traffic, settings.windowMs);
  const run = (algorithm: AlgorithmName): Run =>
    new Run(settings, algorithm, followed).all(traffic.calls, times);
  const exact = run(EXACT);
  const lanes = settings.algorithms.map((algorithm) =>
    (algorithm === EXACT ? exact : run(algorithm)).lane(exact),
  );
  return { traffic, followed, lanes };
}

/** Evenly spaced, and on both sides of each window boundary, where usage may drop. */
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
  let most = CALLER;
  for (const [key, count] of counts) if (count > (counts.get(most) ?? 0)) most = key;
  return most;
}

/** One algorithm. */
class Run {
  readonly #settings: LabSettings;
  readonly #algorithm: AlgorithmName;
  readonly #followed: string;
  readonly #capacity: number;
  readonly #clock = new ManualClock();
  readonly #limiter;
  readonly #counts: WindowCounts;
  readonly #rows = new Map<string, number>();
  readonly #decisions: LabDecision[] = [];
  readonly #used: Used[] = [];
  #fullest: Fullest | undefined = undefined;

  constructor(settings: LabSettings, algorithm: AlgorithmName, followed: string) {
    this.#settings = settings;
    this.#algorithm = algorithm;
    this.#followed = followed;
    this.#capacity = capacityOf(settings, algorithm);
    this.#counts = new WindowCounts([settings.windowMs]);
    this.#limiter = createLimiter({
      policies: { [POLICY]: policyOptions(settings, algorithm) },
      store: memoryStore(),
      clock: this.#clock,
    });
  }

  /** Decides all calls, and samples the usage in between with `peek`. */
  all(calls: readonly Call[], sampleTimes: readonly number[]): this {
    let next = 0;
    for (const timeMs of sampleTimes) {
      for (; next < calls.length && calls[next].atMs <= timeMs; next++) this.#call(calls[next]);
      this.#sample(timeMs);
    }
    for (; next < calls.length; next++) this.#call(calls[next]);
    return this;
  }

  #sample(timeMs: number): void {
    this.#clock.set(timeMs);
    const { remaining } = this.#limiter.peekSync(POLICY, this.#followed);
    this.#used.push({ atMs: timeMs, cost: this.#capacity - remaining });
  }

  #call({ atMs, cost, key }: Call): void {
    const isFollowed = key === this.#followed;
    if (isFollowed) this.#sample(atMs);
    this.#clock.set(atMs);
    if (cost > this.#capacity) {
      // The limiter throws on a cost above the capacity.
      const { remaining } = this.#limiter.peekSync(POLICY, key);
      this.#decisions.push({ allowed: false, remaining, retryAfterMs: Number.POSITIVE_INFINITY });
      return;
    }
    const { allowed, remaining, retryAfterMs } = this.#limiter.checkSync(POLICY, key, { cost });
    this.#decisions.push({ allowed, remaining, retryAfterMs });
    if (!allowed) return;
    this.#count(key, atMs, cost);
    if (isFollowed) this.#sample(atMs);
  }

  /** Adds an admitted call to the window that ends with it. */
  #count(key: string, atMs: number, cost: number): void {
    const row = this.#rows.get(key) ?? this.#rows.size;
    this.#rows.set(key, row);
    this.#counts.add(row, atMs, cost);
    const sum = this.#counts.sum(row, 0);
    if (sum <= (this.#fullest?.cost ?? 0)) return;
    this.#fullest = { cost: sum, multiple: sum / this.#settings.limit, atMs };
  }

  lane(exact: Run): Lane {
    const decisions = this.#decisions;
    const differs = (allowed: boolean): number =>
      decisions.filter(
        (each, at) => each.allowed === allowed && exact.#decisions[at].allowed !== allowed,
      ).length;
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    const first = decisions.findIndex(({ allowed }) => !allowed);
    return {
      ...{ algorithm: this.#algorithm, capacity: this.#capacity, decisions, admitted },
      denied: decisions.length - admitted,
      fullest: this.#fullest,
      firstDenial: first < 0 ? undefined : first,
      falseAdmits: differs(true),
      falseDenials: differs(false),
      used: this.#used,
    };
  }
}
