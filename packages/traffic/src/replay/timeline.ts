/**
 * Counts requests in buckets of time, for charts. The duration of a log is known only at its end,
 * so a timeline starts with short buckets and merges them when there are more than 240. A log of
 * some minutes or more rarely has fewer than 50 buckets.
 */
export const MAX_BUCKETS = 240;

/** Bucket lengths. Each is a multiple of the previous length, so that buckets can be merged. */
const WIDTHS_S = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

export interface TimelineData<Series extends string> {
  /** Start of the first bucket. */
  readonly startMs: number;
  readonly bucketMs: number;
  /** Counts per bucket; all series have the same length. */
  readonly series: Readonly<Record<Series, readonly number[]>>;
}

export class Timeline<Series extends string> {
  readonly #names: readonly Series[];
  #counts: Record<Series, Float64Array>;
  #width = 0;
  #bucketMs = WIDTHS_S[0] * 1000;
  #startMs = Number.NaN;
  #used = 0;

  constructor(series: readonly Series[]) {
    this.#names = series;
    this.#counts = this.#empty();
  }

  #empty(): Record<Series, Float64Array> {
    const all = this.#names.map((name) => [name, new Float64Array(MAX_BUCKETS)]);
    return Object.fromEntries(all);
  }

  /** Adds one request to a series. `timeMs` must not be before the first time added. */
  add(timeMs: number, name: Series): void {
    // Find the bucket before reading `#counts`, because `#bucketOf` may replace `#counts`.
    const bucket = this.#bucketOf(timeMs);
    this.#counts[name][bucket]++;
  }

  #bucketOf(timeMs: number): number {
    if (Number.isNaN(this.#startMs)) this.#startMs = this.#floor(timeMs);
    let bucket = Math.floor((timeMs - this.#startMs) / this.#bucketMs);
    while (bucket >= MAX_BUCKETS) {
      this.#coarsen();
      bucket = Math.floor((timeMs - this.#startMs) / this.#bucketMs);
    }
    if (bucket >= this.#used) this.#used = bucket + 1;
    return bucket;
  }

  #floor(timeMs: number): number {
    return Math.floor(timeMs / this.#bucketMs) * this.#bucketMs;
  }

  #coarsen(): void {
    const [oldStartMs, oldMs, old] = [this.#startMs, this.#bucketMs, this.#counts];
    this.#width++;
    const next = WIDTHS_S[this.#width];
    this.#bucketMs = next === undefined ? 2 * oldMs : next * 1000;
    this.#startMs = this.#floor(oldStartMs);
    this.#counts = this.#empty();
    for (let bucket = 0; bucket < this.#used; bucket++) {
      const startMs = oldStartMs + bucket * oldMs;
      const to = Math.floor((startMs - this.#startMs) / this.#bucketMs);
      for (const name of this.#names) this.#counts[name][to] += old[name][bucket];
    }
    const lastMs = oldStartMs + (this.#used - 1) * oldMs;
    this.#used = Math.floor((lastMs - this.#startMs) / this.#bucketMs) + 1;
  }

  data(): TimelineData<Series> {
    const all = this.#names.map((name) => [name, [...this.#counts[name].subarray(0, this.#used)]]);
    const startMs = Number.isNaN(this.#startMs) ? 0 : this.#startMs;
    return { startMs, bucketMs: this.#bucketMs, series: Object.fromEntries(all) };
  }
}
