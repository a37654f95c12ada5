/** Makes calls at a constant rate and measures the wait of each. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Decision } from '../../src/index.ts';

const TICK_MS = 5;

/** Marks of a call. */
export const DEGRADED = 1;
export const ADMITTED = 2;
export const FAILED = 4;
/** The breaker was open, so the call was not sent to the store. */
export const NOT_SENT = 8;
/** The call has settled. */
export const DONE = 16;

export interface Admission {
  readonly key: string;
  readonly atMs: number;
}

export interface LoadOptions {
  readonly perSecond: number;
  /** The most calls. Their memory is allocated at the start. */
  readonly most: number;
  readonly check: (call: number) => Promise<Decision>;
  readonly isNotSent?: () => boolean;
}

export class Load {
  readonly #options: LoadOptions;
  /** When each call began, and how long it waited, in ms. */
  readonly begunMs: Float64Array;
  readonly waitsMs: Float64Array;
  readonly marks: Uint8Array;
  /** The admissions by the store, without fallbacks. */
  readonly admissions: Admission[] = [];
  readonly reasons = new Set<string>();
  readonly errors: unknown[] = [];
  count = 0;
  waiting = 0;
  #startMs = 0;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(options: LoadOptions) {
    this.#options = options;
    // Filled, so that the memory is in use before it is measured.
    this.begunMs = new Float64Array(options.most).fill(-1);
    this.waitsMs = new Float64Array(options.most).fill(-1);
    this.marks = new Uint8Array(options.most).fill(0);
  }

  start(): void {
    this.#startMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const { perSecond, most } = this.#options;
    const due = Math.floor(((performance.now() - this.#startMs) * perSecond) / 1000);
    // Each call in its own turn of the event loop, like requests of different sockets.
    while (this.count < Math.min(due, most)) {
      const call = this.count++;
      this.waiting++;
      setImmediate(() => this.#call(call));
    }
  }

  #call(call: number): void {
    const { check, isNotSent } = this.#options;
    const begunMs = performance.now();
    this.begunMs[call] = begunMs;
    if (isNotSent?.()) this.marks[call] |= NOT_SENT;
    check(call).then(
      (decision) => this.#ended(call, begunMs, decision),
      (error) => {
        if (this.errors.length < 10) this.errors.push(error);
        this.marks[call] |= FAILED;
        this.#ended(call, begunMs, undefined);
      },
    );
  }

  #ended(call: number, begunMs: number, decision: Decision | undefined): void {
    this.waitsMs[call] = performance.now() - begunMs;
    this.marks[call] |= DONE;
    this.waiting--;
    if (decision === undefined) return;
    if (decision.allowed) this.marks[call] |= ADMITTED;
    if (decision.degraded !== undefined) {
      this.marks[call] |= DEGRADED;
      this.reasons.add(decision.degraded.reason);
    } else if (decision.allowed) {
      for (const { key, atMs } of decision.limits) this.admissions.push({ key, atMs });
    }
  }

  has(call: number, mark: number): boolean {
    return (this.marks[call] & mark) !== 0;
  }

  /** Returns the calls that began in [fromMs, toMs) and for which `fits` returns true. */
  calls(fromMs: number, toMs: number, fits: (call: number) => boolean = () => true): number[] {
    const found: number[] = [];
    for (let call = 0; call < this.count; call++) {
      const begunMs = this.begunMs[call];
      if (begunMs >= fromMs && begunMs < toMs && fits(call)) found.push(call);
    }
    return found;
  }

  /** Returns a percentile of the waits: 0.99 is the wait that 99 % do not exceed. */
  waitMs(calls: readonly number[], part: number): number {
    const waits = calls.map((call) => this.waitsMs[call]).sort((a, b) => a - b);
    return waits[Math.min(Math.floor(waits.length * part), waits.length - 1)] ?? 0;
  }
}

/** Returns the most admissions of one key in any window, by the time of the decisions. */
export function mostInAnyWindow(admissions: readonly Admission[], windowMs: number): number {
  const byKey = new Map<string, number[]>();
  for (const { key, atMs } of admissions) {
    const times = byKey.get(key);
    if (times === undefined) byKey.set(key, [atMs]);
    else times.push(atMs);
  }
  let most = 0;
  for (const times of byKey.values()) {
    times.sort((a, b) => a - b);
    let oldest = 0;
    for (const [place, atMs] of times.entries()) {
      while (times[oldest] <= atMs - windowMs) oldest++;
      most = Math.max(most, place - oldest + 1);
    }
  }
  return most;
}

let collect: (() => void) | undefined;

/** Returns the memory of this process after a garbage collection, in MB. */
export function residentMb(): number {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  for (let time = 0; time < 3; time++) collect();
  return process.memoryUsage().rss / 2 ** 20;
}
