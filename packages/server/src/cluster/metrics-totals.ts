/**
 * Runs in the supervisor: reads the metrics of all workers when a client requests `/metrics`, and
 * also every 5 s. If a worker does not reply in time, its last metrics are used. When a worker
 * exits, the last values of its counters are added to totals. Otherwise the sum over all workers
 * would decrease, which Prometheus takes for a restart.
 */
import { systemClock } from 'sluice';
import type { MetricsData } from '../observe/metrics.ts';

/**
 * Interval at which the metrics are read. If a worker exits, its counts since the last read are
 * lost.
 */
const READ_MS = 5000;
/** Maximum number of label combinations in the totals of exited workers, per metric. */
const MAX_SERIES = 20_000;

type Metric = MetricsData[number] & { readonly aggregator?: string };
type MetricValue = Metric['values'][number] & { readonly metricName?: string };

export class MetricsTotals<W extends object> {
  readonly #read: (worker: W) => Promise<unknown>;
  readonly #last = new Map<W, MetricsData>();
  readonly #exited = new Map<string, ExitedMetric>();
  #cancel: () => void = () => {};

  /** `read` requests the metrics of one worker. */
  constructor(read: (worker: W) => Promise<unknown>) {
    this.#read = read;
  }

  /** Reads the metrics every 5 s. `workers` returns the running workers. */
  start(workers: () => readonly W[]): void {
    this.#cancel = systemClock.schedule(READ_MS, () => {
      void this.gather(workers());
      this.start(workers);
    });
  }

  stop(): void {
    this.#cancel();
  }

  /** Resolves to the metrics of each worker, followed by the totals of all exited workers. */
  async gather(workers: readonly W[]): Promise<readonly MetricsData[]> {
    await Promise.all(
      workers.map(async (worker) => {
        const data = await this.#read(worker).catch(() => undefined);
        if (data !== undefined) this.#last.set(worker, data as MetricsData);
      }),
    );
    return [...this.#last.values(), [...this.#exited.values()].map((each) => each.data)];
  }

  /** Adds the counters of an exited worker to the totals. */
  keepExited(worker: W): void {
    const metrics = (this.#last.get(worker) ?? []) as readonly Metric[];
    this.#last.delete(worker);
    for (const metric of metrics) {
      if (!isCounter(metric)) continue;
      const known = this.#exited.get(metric.name) ?? new ExitedMetric(metric);
      this.#exited.set(metric.name, known);
      known.add(metric.values);
    }
  }
}

/**
 * Whether the values of a metric are kept when a worker exits. Gauges are not: they describe a
 * running process.
 */
const isCounter = ({ type }: Metric): boolean =>
  ['counter', 'histogram'].includes(String(type).toLowerCase());

/** Sums of one metric over all exited workers. */
class ExitedMetric {
  readonly #metric: Metric;
  readonly #values = new Map<string, MetricValue>();

  constructor(metric: Metric) {
    this.#metric = metric;
  }

  get data(): Metric {
    return { ...this.#metric, values: [...this.#values.values()] } as Metric;
  }

  add(values: readonly MetricValue[]): void {
    // Counters that have the same value in all workers, such as reloads, use the aggregator `max`.
    const isMax = this.#metric.aggregator === 'max';
    for (const value of values) {
      const id = JSON.stringify([value.metricName, Object.entries(value.labels).sort()]);
      const known = this.#values.get(id)?.value ?? 0;
      if (!this.#values.has(id) && this.#values.size >= MAX_SERIES) continue;
      const total = isMax ? Math.max(known, value.value) : known + value.value;
      this.#values.set(id, { ...value, value: total });
    }
  }
}
