/** Per-second counts of the last ten minutes: the service's series, extended by each tick. */
import { COUNTED, type CountSeries, type Counts, type SeriesReport, type Tick } from './types.ts';

export const HISTORY_SECONDS = 600;
const STEP_MS = 1000;

/** One list per field, all of the same length, oldest second first. */
type Columns = { [Field in keyof Counts]: Counts[Field][] };

const NOTHING: Counts = {
  ...{ allowed: 0, denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 },
  fullest: null,
};
const FIELDS = [...COUNTED, 'shadowAllowed', 'fullest'] as const;

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

  /** Start of the newest second; 0 before the first. */
  get lastMs(): number {
    return this.#lastMs;
  }

  /** Times of all seconds, in seconds since 1970, for charts. */
  times(): readonly number[] {
    const first = this.#lastMs / STEP_MS - HISTORY_SECONDS + 1;
    return Array.from({ length: HISTORY_SECONDS }, (_, at) => first + at);
  }

  get total(): CountSeries {
    return this.#total;
  }

  /** Returns zeros for a policy without decisions. */
  of(policy: string): CountSeries {
    return this.#policies.get(policy) ?? EMPTY;
  }

  /** Whether the policy has decided anything. */
  has(policy: string): boolean {
    return this.#policies.has(policy);
  }

  get policies(): readonly string[] {
    return [...this.#policies.keys()];
  }

  /** Replaces the whole history. */
  fill({ startMs, total, policies }: SeriesReport): void {
    this.#lastMs = startMs + (total.allowed.length - 1) * STEP_MS;
    this.#total = columnsOf(total);
    this.#policies = new Map(policies.map((each) => [each.name, columnsOf(each)]));
  }

  /** Adds a second. Missed seconds stay empty until `fill`; returns how many there were. */
  add({ atMs, total, policies }: Tick): number {
    if (atMs <= this.#lastMs) return 0;
    const missed = Math.min((atMs - this.#lastMs) / STEP_MS - 1, HISTORY_SECONDS);
    for (let second = 0; second < missed; second++) this.#push(NOTHING, new Map());
    this.#push(total, new Map(policies.map((each) => [each.name, each])));
    this.#lastMs = atMs;
    return missed;
  }

  #push(total: Counts, policies: ReadonlyMap<string, Counts>): void {
    for (const name of policies.keys()) {
      if (!this.#policies.has(name)) this.#policies.set(name, emptyColumns());
    }
    shift(this.#total, total);
    for (const [name, columns] of this.#policies) shift(columns, policies.get(name) ?? NOTHING);
  }
}

/** Returns the newest seconds of a report, padded with zeros at the front. */
function columnsOf(series: CountSeries): Columns {
  const columns = emptyColumns();
  for (const field of FIELDS) {
    const known = series[field].slice(-HISTORY_SECONDS);
    const target: (number | null)[] = columns[field];
    target.splice(HISTORY_SECONDS - known.length, known.length, ...known);
  }
  return columns;
}

function shift(columns: Columns, counts: Counts): void {
  for (const field of FIELDS) {
    const column: (number | null)[] = columns[field];
    column.shift();
    column.push(counts[field]);
  }
}
