/**
 * Counts of consecutive time steps. `Timeline` holds the steps of a response of `/v1/series`.
 * `History` is a timeline of the last ten minutes by second: each `tick` event of the stream
 * appends one second.
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

/** One list per field, all of the same length, oldest step first. Unknown values are null. */
type Columns = { [Field in keyof Counts]: (number | null)[] };

const ZERO_COUNTS: Counts = {
  ...{ allowed: 0, denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 },
  fullest: null,
};
const FIELDS = [...COUNT_FIELDS, 'shadowAllowed', 'fullest'] as const;

const columnsOf = (column: (field: keyof Counts) => (number | null)[]): Columns =>
  Object.fromEntries(FIELDS.map((field) => [field, column(field)])) as Columns;

const unknownColumns = (steps: number): Columns => columnsOf(() => new Array(steps).fill(null));

export class Timeline {
  /** Start of the newest step, in ms since the epoch; 0 until data has been received. */
  lastMs = 0;
  /** When the service began to record counts; 0 until data has been received. */
  sinceMs = 0;
  stepMs = STEP_MS;
  /** Number of steps. */
  readonly length: number;
  protected columns: Columns;
  protected byPolicy = new Map<string, Columns>();

  constructor(length: number) {
    this.length = length;
    this.columns = unknownColumns(length);
  }

  /** Returns a timeline with the steps of a response of `/v1/series`. */
  static of(report: SeriesReport): Timeline {
    const timeline = new Timeline(report.total.allowed.length);
    timeline.fill(report);
    return timeline;
  }

  /** Start of each step, in seconds since the epoch, oldest first. */
  times(): readonly number[] {
    const step = this.stepMs / 1000;
    const first = this.lastMs / 1000 - (this.length - 1) * step;
    return Array.from({ length: this.length }, (_, at) => first + at * step);
  }

  get total(): CountSeries {
    return this.columns;
  }

  /**
   * Returns the counts of a policy. If the policy has made no decision, they are 0 in the steps
   * whose total is known.
   */
  seriesOf(policy: string): CountSeries {
    return this.byPolicy.get(policy) ?? this.idleColumns();
  }

  /** Whether the service has reported decisions of the policy. */
  has(policy: string): boolean {
    return this.byPolicy.has(policy);
  }

  get policies(): readonly string[] {
    return [...this.byPolicy.keys()];
  }

  /** Replaces all steps by a response of `/v1/series`. */
  fill({ startMs, sinceMs, stepMs, total, policies }: SeriesReport): void {
    const steps = total.allowed.length;
    this.stepMs = stepMs;
    this.lastMs = startMs + (steps - 1) * stepMs;
    this.sinceMs = sinceMs;
    const unknownSteps = Math.max(0, Math.floor((sinceMs - startMs) / stepMs));
    const columns = (series: CountSeries): Columns =>
      newestColumns(series, this.length, unknownSteps);
    this.columns = columns(total);
    this.byPolicy = new Map(policies.map((each) => [each.name, columns(each)]));
  }

  /** Returns the columns of a policy without decisions. */
  protected idleColumns(): Columns {
    const { allowed } = this.columns;
    return columnsOf((field) =>
      allowed.map((each) => (each === null || field === 'fullest' ? null : 0)),
    );
  }
}

/**
 * Returns the newest `length` steps of a series. The first `unknownSteps` of the series become
 * null, as do steps before the series.
 */
function newestColumns(series: CountSeries, length: number, unknownSteps: number): Columns {
  return columnsOf((field) => {
    const values = series[field].map((value, at) => (at < unknownSteps ? null : value));
    const padding = new Array<null>(Math.max(0, length - values.length)).fill(null);
    return [...padding, ...values.slice(-length)];
  });
}

/** The last ten minutes by second. */
export class History extends Timeline {
  constructor() {
    super(HISTORY_SECONDS);
  }

  /**
   * Appends the second of a tick. Seconds between `lastMs` and the tick were missed: their counts
   * are null until the next `fill`. Ignores a tick that is not newer than `lastMs`. Returns the
   * number of missed seconds.
   */
  add({ atMs, total, policies }: Tick): number {
    if (atMs <= this.lastMs) return 0;
    if (this.lastMs === 0) this.sinceMs = atMs;
    const missed = Math.min((atMs - this.lastMs) / STEP_MS - 1, HISTORY_SECONDS);
    for (let second = 0; second < missed; second++) this.#append(undefined, new Map());
    this.#append(total, new Map(policies.map((each) => [each.name, each])));
    this.lastMs = atMs;
    return missed;
  }

  /** Appends one second to all columns. `total` is undefined for a missed second. */
  #append(total: Counts | undefined, policies: ReadonlyMap<string, Counts>): void {
    for (const name of policies.keys()) {
      if (!this.byPolicy.has(name)) this.byPolicy.set(name, this.idleColumns());
    }
    appendSecond(this.columns, total);
    for (const [name, columns] of this.byPolicy) {
      appendSecond(columns, total && (policies.get(name) ?? ZERO_COUNTS));
    }
  }
}

/** Removes the oldest second and appends a new one. */
function appendSecond(columns: Columns, counts: Counts | undefined): void {
  for (const field of FIELDS) {
    columns[field].shift();
    columns[field].push(counts?.[field] ?? null);
  }
}
