/**
 * A histogram in plain numbers, cheap enough to update with every request. It avoids the string of
 * labels that prom-client builds for each observation. The registry of prom-client reads this
 * histogram like any other metric.
 */
import type { Metric, MetricValue, Registry } from 'prom-client';

/** Upper bounds of the buckets, in seconds. */
const BOUNDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
];

/** Number of buckets, including the last bucket, which has no upper bound. */
export const BUCKETS = BOUNDS.length + 1;

export class Observations {
  readonly buckets = new Float64Array(BUCKETS);
  sum = 0;

  add(seconds: number): void {
    let at = 0;
    while (at < BOUNDS.length && seconds > BOUNDS[at]) at++;
    this.buckets[at]++;
    this.sum += seconds;
  }
}

/**
 * Returns the quantile `part` (0.5 for the median) in seconds; undefined if there are no
 * observations. Interpolates linearly within a bucket. For the last bucket, returns its lower
 * bound.
 */
export function quantileOf(buckets: readonly number[], part: number): number | undefined {
  const count = buckets.reduce((sum, each) => sum + each, 0);
  if (count === 0) return undefined;
  let below = 0;
  for (const [at, each] of buckets.entries()) {
    const wanted = part * count - below;
    if (each > 0 && wanted <= each && at < BOUNDS.length) {
      const from = at === 0 ? 0 : BOUNDS[at - 1];
      return from + (BOUNDS[at] - from) * (wanted / each);
    }
    below += each;
  }
  return BOUNDS[BOUNDS.length - 1];
}

type LabelledValue = MetricValue<string> & { metricName: string };

export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  readonly series: ReadonlyMap<string, Observations>;
}

export function registerHistogram(registry: Registry, options: HistogramOptions): void {
  const { name, help, label, series } = options;
  const get = async () => ({
    name,
    help,
    type: 'histogram',
    aggregator: 'sum',
    values: [...series].flatMap(([value, observations]) =>
      valuesOf(name, { [label]: value }, observations),
    ),
  });
  // The types of prom-client require its own class; its registry needs only these members.
  registry.registerMetric({ name, help, type: 'histogram', get } as unknown as Metric<string>);
}

/** Returns the values with cumulative buckets, as the Prometheus format requires. */
function valuesOf(
  name: string,
  labels: Record<string, string>,
  { buckets, sum }: Observations,
): LabelledValue[] {
  let count = 0;
  const counts = [...BOUNDS, '+Inf'].map((le, at) => {
    count += buckets[at];
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count };
  });
  return [
    ...counts,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
