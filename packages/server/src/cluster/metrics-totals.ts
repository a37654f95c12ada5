/**
 * The metrics of all workers. A counter never falls, because Prometheus takes a lower number for a
 * restart: what a worker counted until it exited is kept, and a worker that does not reply in time
 * counts as it did last.
 */
import { systemClock } from 'sluice';
import type { MetricsData } from '../observe/metrics.ts';

/** How often workers are read even if no client asks, so that little is lost with one. */
const READ_MS = 5000;
/** How many series of exited workers are kept of one metric. */
const MAX_SERIES = 20_000;

type Metric = MetricsData[number] & { readonly aggregator?: string };
type MetricValue = Metric['values'][number] & { readonly metricName?: string };

export class MetricsTotals<W extends object> {
  readonly #read: (worker: W) => Promise<unknown>;
  readonly #last = new Map<W, MetricsData>();
  readonly #departed = new Map<string, DepartedMetric>();
  #cancel: () => void = () => {};

  /** `read` asks a worker for its metrics. */
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

  /** What each worker counts, and what those that exited have counted. */
  async gather(workers: readonly W[]): Promise<readonly MetricsData[]> {
    await Promise.all(
      workers.map(async (worker) => {
        const data = await this.#read(worker).catch(() => undefined);
        if (data !== undefined) this.#last.set(worker, data as MetricsData);
      }),
    );
    return [...this.#last.values(), [...this.#departed.values()].map((each) => each.data)];
  }

  departed(worker: W): void {
    const metrics = (this.#last.get(worker) ?? []) as readonly Metric[];
    this.#last.delete(worker);
    for (const metric of metrics) {
      if (!isCounter(metric)) continue;
      const known = this.#departed.get(metric.name) ?? new DepartedMetric(metric);
      this.#departed.set(metric.name, known);
      known.add(metric.values);
    }
  }
}

/** A gauge of a worker that exited says nothing any more. */
const isCounter = ({ type }: Metric): boolean =>
  ['counter', 'histogram'].includes(String(type).toLowerCase());

/** One metric of all workers that exited. */
class DepartedMetric {
  readonly #metric: Metric;
  readonly #values = new Map<string, MetricValue>();

  constructor(metric: Metric) {
    this.#metric = metric;
  }

  get data(): Metric {
    return { ...this.#metric, values: [...this.#values.values()] } as Metric;
  }

  add(values: readonly MetricValue[]): void {
    // Numbers that all workers have in common are not added up.
    const isMost = this.#metric.aggregator === 'max';
    for (const value of values) {
      const id = JSON.stringify([value.metricName, Object.entries(value.labels).sort()]);
      const known = this.#values.get(id)?.value ?? 0;
      if (!this.#values.has(id) && this.#values.size >= MAX_SERIES) continue;
      const total = isMost ? Math.max(known, value.value) : known + value.value;
      this.#values.set(id, { ...value, value: total });
    }
  }
}
