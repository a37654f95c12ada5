/**
 * A histogram in plain numbers, for where it is filled at every request: prom-client's own makes a
 * text of the labels each time. It is read by the registry like any other metric.
 */
import type { Metric, MetricValue, Registry } from 'prom-client';

/** In seconds: from what memory takes to what nobody waits for. */
const BOUNDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
];

/** How many buckets there are, the last without an end. */
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
 * The value, in seconds, that a part of all observations is not above: 0.5 for the median. What is
 * known are buckets, so it is put where it would be if those in its bucket were spread evenly; in
 * the last, where that bucket begins. Undefined if nothing was observed.
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
  // Its types ask for a class of its own; its registry asks for no more than this.
  registry.registerMetric({ name, help, type: 'histogram', get } as unknown as Metric<string>);
}

/** Each bucket counts those below it too, as the format demands. */
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
