/**
 * Metrics of all workers. A counter never decreases, because Prometheus would take that for a
 * restart: counters of exited workers are kept, and for a worker that does not reply in time the
 * last reading is used.
 */
import { systemClock } from 'sluice';
import type { MetricsData } from '../observe/metrics.ts';

/** Interval of background readings, which bounds what is lost if a worker exits. */
const READ_MS = 5000;
/** Maximum number of series kept of exited workers, per metric. */
const MAX_SERIES = 20_000;

type Metric = MetricsData[number] & { readonly aggregator?: string };
type MetricValue = Metric['values'][number] & { readonly metricName?: string };

export class MetricsTotals<W extends object> {
  readonly #read: (worker: W) => Promise<unknown>;
  readonly #last = new Map<W, MetricsData>();
  readonly #exited = new Map<string, ExitedMetric>();
  #cancel: () => void = () => {};

  /** `read` resolves to the metrics of a worker. */
  constructor(read: (worker: W) => Promise<unknown>) {
    this.#read = read;
  }

  start(workers: () => readonly W[]): void {
    this.#cancel = systemClock.schedule(READ_MS, () => {
      void this.gather(workers());
      this.start(workers);
    });
  }

  stop(): void {
    this.#cancel();
  }

  /** Resolves to the metrics of each worker, and those of exited workers. */
  async gather(workers: readonly W[]): Promise<readonly MetricsData[]> {
    await Promise.all(
      workers.map(async (worker) => {
        const data = await this.#read(worker).catch(() => undefined);
        if (data !== undefined) this.#last.set(worker, data as MetricsData);
      }),
    );
    return [...this.#last.values(), [...this.#exited.values()].map((each) => each.data)];
  }

  /** Keeps the counters of a worker that exited. */
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

/** Gauges of exited workers are dropped. */
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
    // All workers report the same value for these.
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
