/**
 * The curve of the number of clients that each limit denies. Finds the knee of the curve: above the
 * knee, a higher limit spares few more clients. Also rounds limits.
 */

/** A limit and the number of clients whose peak exceeds it. */
export interface CurvePoint {
  readonly limit: number;
  readonly clients: number;
}

/** The peaks of all clients, ascending. A peak is the highest cost of a client in any window. */
export type Peaks = Uint32Array | Float64Array;

const MAX_POINTS = 240;

/** Returns all points at which the curve falls. */
export function curveOf(sorted: Peaks): readonly CurvePoint[] {
  const points: CurvePoint[] = [];
  for (let at = 0; at < sorted.length; at++) {
    if (sorted[at] === sorted[at + 1]) continue;
    points.push({ limit: sorted[at], clients: sorted.length - 1 - at });
  }
  return points;
}

/** Returns at most 240 of the points for a chart, evenly spaced on a logarithmic scale. */
export function sampleCurve(points: readonly CurvePoint[]): readonly CurvePoint[] {
  if (points.length <= MAX_POINTS) return points;
  const last = points[points.length - 1];
  const step = (Math.log(last.limit) - Math.log(points[0].limit)) / (MAX_POINTS - 2);
  const kept: CurvePoint[] = [];
  let next = Number.NEGATIVE_INFINITY;
  for (const point of points) {
    if (Math.log(point.limit) < next && point !== last) continue;
    kept.push(point);
    next = Math.log(point.limit) + step;
  }
  return kept;
}

/**
 * Returns the limit at which the curve is farthest below the straight line from (lowest peak, all
 * `clients`) to (highest peak, 0), on a logarithmic scale of limits. Of equal distances, returns
 * the lowest limit. `points` must have all points of the curve.
 */
export function kneeOf(points: readonly CurvePoint[], clients: number): number {
  const firstLog = Math.log(points[0].limit);
  const last = points[points.length - 1];
  const width = Math.log(last.limit) - firstLog;
  let knee = last.limit;
  let farthest = 0;
  for (const { limit, clients: denied } of points) {
    const along = width === 0 ? 1 : (Math.log(limit) - firstLog) / width;
    const distance = clients * (1 - along) - denied;
    if (distance > farthest) [knee, farthest] = [limit, distance];
  }
  return knee;
}

/** Returns the number of clients whose peak exceeds the limit. */
export function clientsDeniedBy(sorted: Peaks, limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return sorted.length - low;
}

const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** Rounds up to a round number: 12, 15, 20, 25, 30 and so on. */
export function roundUp(limit: number): number {
  const power = 10 ** Math.floor(Math.log10(limit));
  const whole = ROUND.map((each) => Math.round(each * power * 10) / 10).filter(Number.isInteger);
  return whole.find((each) => each >= limit) ?? Math.ceil(limit);
}
