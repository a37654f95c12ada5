/** The calls through the engine, once for each algorithm, and what there is to say of that. */
import { WindowCounts } from 'sluice-traffic/lab';
import type { AlgorithmName } from '../api/types.ts';
import { createLimiter, ManualClock, memoryStore } from './engine.ts';
import { capacityOf, type LabSettings, policyOptions } from './settings.ts';
import { CALLER, type Call, type Traffic } from './traffic.ts';

/** What a call was told. */
export interface LabDecision {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Infinity if it costs more than could ever pass. */
  readonly retryAfterMs: number;
}

/** The fullest window, wherever it begins: what was let through in the time up to a call. */
export interface Fullest {
  readonly cost: number;
  /** As a multiple of the limit. */
  readonly multiple: number;
  /** Of the last call in it. */
  readonly atMs: number;
}

export interface Lane {
  readonly algorithm: AlgorithmName;
  readonly capacity: number;
  /** One for each call. */
  readonly told: readonly LabDecision[];
  readonly admitted: number;
  readonly denied: number;
  readonly fullest: Fullest | undefined;
  /** The first call that was denied, by its number. */
  readonly firstDenial: number | undefined;
  /** What the exact log, on the same calls, decides otherwise. */
  readonly falseAdmits: number;
  readonly falseDenials: number;
  /** What counts for the algorithm over time. */
  readonly used: readonly Used[];
}

/** What counted at a time; where a call passed there are two, before it and after. */
export interface Used {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabResult {
  readonly traffic: Traffic;
  /** Whose window is drawn: the one that calls most. */
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

/** Evenly, and on both sides of each boundary, where a count may fall. */
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

/** One algorithm on all calls. */
class Run {
  readonly #settings: LabSettings;
  readonly #algorithm: AlgorithmName;
  readonly #followed: string;
  readonly #capacity: number;
  readonly #clock = new ManualClock();
  readonly #limiter;
  readonly #counts: WindowCounts;
  readonly #rows = new Map<string, number>();
  readonly #told: LabDecision[] = [];
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

  /** Between the calls it is looked at what counts, which changes nothing. */
  all(calls: readonly Call[], sampleTimes: readonly number[]): this {
    let next = 0;
    for (const timeMs of sampleTimes) {
      for (; next < calls.length && calls[next].atMs <= timeMs; next++) this.#call(calls[next]);
      this.#note(timeMs);
    }
    for (; next < calls.length; next++) this.#call(calls[next]);
    return this;
  }

  #note(timeMs: number): void {
    this.#clock.set(timeMs);
    const { remaining } = this.#limiter.peekSync(POLICY, this.#followed);
    this.#used.push({ atMs: timeMs, cost: this.#capacity - remaining });
  }

  #call({ atMs, cost, key }: Call): void {
    const isFollowed = key === this.#followed;
    if (isFollowed) this.#note(atMs);
    this.#clock.set(atMs);
    if (cost > this.#capacity) {
      // The limiter refuses to be asked that.
      const { remaining } = this.#limiter.peekSync(POLICY, key);
      this.#told.push({ allowed: false, remaining, retryAfterMs: Number.POSITIVE_INFINITY });
      return;
    }
    const { allowed, remaining, retryAfterMs } = this.#limiter.checkSync(POLICY, key, { cost });
    this.#told.push({ allowed, remaining, retryAfterMs });
    if (!allowed) return;
    this.#count(key, atMs, cost);
    if (isFollowed) this.#note(atMs);
  }

  /** How full the true window is that ends with a call which was let through. */
  #count(key: string, atMs: number, cost: number): void {
    const row = this.#rows.get(key) ?? this.#rows.size;
    this.#rows.set(key, row);
    this.#counts.add(row, atMs, cost);
    const sum = this.#counts.sum(row, 0);
    if (sum <= (this.#fullest?.cost ?? 0)) return;
    this.#fullest = { cost: sum, multiple: sum / this.#settings.limit, atMs };
  }

  lane(exact: Run): Lane {
    const told = this.#told;
    const differs = (allowed: boolean): number =>
      told.filter((each, at) => each.allowed === allowed && exact.#told[at].allowed !== allowed)
        .length;
    const admitted = told.filter(({ allowed }) => allowed).length;
    const first = told.findIndex(({ allowed }) => !allowed);
    return {
      ...{ algorithm: this.#algorithm, capacity: this.#capacity, told, admitted },
      denied: told.length - admitted,
      fullest: this.#fullest,
      firstDenial: first < 0 ? undefined : first,
      falseAdmits: differs(true),
      falseDenials: differs(false),
      used: this.#used,
    };
  }
}
