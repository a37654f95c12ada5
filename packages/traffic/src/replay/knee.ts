/** Where a curve bends, and a number above it that people would choose. */

/** How many clients have a peak above each limit: the limits rise, and so the counts fall. */
export interface CurvePoint {
  readonly limit: number;
  /** Clients that ask for more than that in some window, so that it touches them. */
  readonly clients: number;
}

/** What each client asks for at the most, the smallest first. */
export type Peaks = Uint32Array | Float64Array;

const MAX_POINTS = 240;

/** The curve of peaks that are sorted, the smallest first: a point where it falls. */
export function curveOf(sorted: Peaks): readonly CurvePoint[] {
  const points: CurvePoint[] = [];
  for (let at = 0; at < sorted.length; at++) {
    if (sorted[at] === sorted[at + 1]) continue;
    points.push({ limit: sorted[at], clients: sorted.length - 1 - at });
  }
  return thinned(points);
}

/** As many points as can be drawn, evenly apart on a scale on which limits double. */
function thinned(points: readonly CurvePoint[]): readonly CurvePoint[] {
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
 * The limit at which the curve lies farthest below the straight line from where all `clients` are
 * touched to where none is, with limits on a scale on which they double: up to there each step
 * spares many clients, after it few.
 */
export function kneeOf(points: readonly CurvePoint[], clients: number): number {
  const firstLog = Math.log(points[0].limit);
  const last = points[points.length - 1];
  const width = Math.log(last.limit) - firstLog;
  let knee = last.limit;
  let farthest = 0;
  for (const { limit, clients: touched } of points) {
    const along = width === 0 ? 1 : (Math.log(limit) - firstLog) / width;
    const distance = clients * (1 - along) - touched;
    if (distance > farthest) [knee, farthest] = [limit, distance];
  }
  return knee;
}

/** How many clients a limit touches. */
export function touchedBy(sorted: Peaks, limit: number): number {
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

/** The next number that people would choose, not below this one: 12, 15, 20, 25, 30 and so on. */
export function roundedUp(limit: number): number {
  const power = 10 ** Math.floor(Math.log10(limit));
  const whole = ROUND.map((each) => Math.round(each * power * 10) / 10).filter(Number.isInteger);
  return whole.find((each) => each >= limit) ?? Math.ceil(limit);
}
