/**
 * Per-second counts of the last ten minutes. Starts from a response of `/v1/series` and is extended
 * by every `tick` event of the stream.
 */
import {
  COUNT_FIELDS,
  type CountSeries,
  type Counts,
  type SeriesReport,
  type Tick,
} from './types.ts';

export const HISTORY_SECONDS = 600;
const STEP_MS = 1000;

/** One list per field, all of the same length, oldest second first. */
type Columns = { [Field in keyof Counts]: Counts[Field][] };

const ZERO_COUNTS: Counts = {
  ...{ allowed: 0, denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 },
  fullest: null,
};
const FIELDS = [...COUNT_FIELDS, 'shadowAllowed', 'fullest'] as const;

const emptyColumns = (): Columns => ({
  allowed: new Array(HISTORY_SECONDS).fill(0),
  denied: new Array(HISTORY_SECONDS).fill(0),
  shadowAllowed: new Array(HISTORY_SECONDS).fill(0),
  shadowDenied: new Array(HISTORY_SECONDS).fill(0),
  degraded: new Array(HISTORY_SECONDS).fill(0),
  fullest: new Array(HISTORY_SECONDS).fill(null),
});

const EMPTY: CountSeries = emptyColumns();

export class History {
  #lastMs = 0;
  #total = emptyColumns();
  #policies = new Map<string, Columns>();

  /** Start of the newest second, in ms since the epoch; 0 until data has been received. */
  get lastMs(): number {
    return this.#lastMs;
  }

  /** Start of each second, in seconds since the epoch, oldest first. */
  times(): readonly number[] {
    const first = this.#lastMs / STEP_MS - HISTORY_SECONDS + 1;
    return Array.from({ length: HISTORY_SECONDS }, (_, at) => first + at);
  }

  get total(): CountSeries {
    return this.#total;
  }

  /** Returns the counts of a policy; all zero if it has made no decision. */
  seriesOf(policy: string): CountSeries {
    return this.#policies.get(policy) ?? EMPTY;
  }

  /** Whether the policy has made a decision. */
  has(policy: string): boolean {
    return this.#policies.has(policy);
  }

  get policies(): readonly string[] {
    return [...this.#policies.keys()];
  }

  /** Replaces the history by a response of `/v1/series`. */
  fill({ startMs, total, policies }: SeriesReport): void {
    this.#lastMs = startMs + (total.allowed.length - 1) * STEP_MS;
    this.#total = columnsOf(total);
    this.#policies = new Map(policies.map((each) => [each.name, columnsOf(each)]));
  }

  /**
   * Appends one second. Seconds missed in between are zero until the next `fill`. Ignores a second
   * that is not newer than `lastMs`. Returns the number of missed seconds.
   */
  add({ atMs, total, policies }: Tick): number {
    if (atMs <= this.#lastMs) return 0;
    const missed = Math.min((atMs - this.#lastMs) / STEP_MS - 1, HISTORY_SECONDS);
    for (let second = 0; second < missed; second++) this.#append(ZERO_COUNTS, new Map());
    this.#append(total, new Map(policies.map((each) => [each.name, each])));
    this.#lastMs = atMs;
    return missed;
  }

  #append(total: Counts, policies: ReadonlyMap<string, Counts>): void {
    for (const name of policies.keys()) {
      if (!this.#policies.has(name)) this.#policies.set(name, emptyColumns());
    }
    appendSecond(this.#total, total);
    for (const [name, columns] of this.#policies) {
      appendSecond(columns, policies.get(name) ?? ZERO_COUNTS);
    }
  }
}

/** Returns the newest `HISTORY_SECONDS` of a series; a shorter series is padded at the front. */
function columnsOf(series: CountSeries): Columns {
  const columns = emptyColumns();
  for (const field of FIELDS) {
    const known = series[field].slice(-HISTORY_SECONDS);
    const target: (number | null)[] = columns[field];
    target.splice(HISTORY_SECONDS - known.length, known.length, ...known);
  }
  return columns;
}

/** Removes the oldest second and appends a new one. */
function appendSecond(columns: Columns, counts: Counts): void {
  for (const field of FIELDS) {
    const column: (number | null)[] = columns[field];
    column.shift();
    column.push(counts[field]);
  }
}
