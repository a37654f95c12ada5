/**
 * Computes the shapes of a lane. A lane is the drawing of one algorithm: the cost admitted in the
 * last window as a plot over time, and the calls below the plot. Positions and lengths are in
 * pixels.
 */
import type { LabResult, Lane } from './run.ts';
import type { Call } from './traffic.ts';

export const PLOT_HEIGHT = 58;
export const PLOT_TOP = 8;
export const PLOT_BOTTOM = PLOT_TOP + PLOT_HEIGHT;
const MAX_ADMITTED_HEIGHT = 20;
const MAX_DENIED_HEIGHT = 14;
/**
 * y coordinate of the line between admitted calls, drawn above it, and denied calls, drawn below.
 */
export const CALLS_BASELINE = PLOT_BOTTOM + 8 + MAX_ADMITTED_HEIGHT;
export const LANE_HEIGHT = CALLS_BASELINE + MAX_DENIED_HEIGHT + 4;
const COLUMN_WIDTH = 3;
const MIN_COLUMN_HEIGHT = 5;

/** Converts times to pixels. */
export interface TimeScale {
  readonly width: number;
  readonly startMs: number;
  readonly perMs: number;
  x(timeMs: number): number;
}

export function timeScale({ startMs, endMs }: LabResult['traffic'], width: number): TimeScale {
  const perMs = width / (endMs - startMs);
  return { width, startMs, perMs, x: (timeMs) => (timeMs - startMs) * perMs };
}

/** From `atMs` until the next step, the admitted cost in the last window is `cost`. */
export interface Step {
  readonly atMs: number;
  readonly cost: number;
}

/** Returns the admitted cost of a key in the last window, as a step function of time. */
export function admittedSteps(
  calls: readonly Call[],
  { decisions }: Pick<Lane, 'decisions'>,
  key: string,
  windowMs: number,
): readonly Step[] {
  const admitted = calls.filter((call, at) => call.key === key && decisions[at].allowed);
  const steps: Step[] = [];
  let sum = 0;
  let expired = 0;
  const addStep = (atMs: number): void => {
    if (steps[steps.length - 1]?.atMs === atMs) steps.pop();
    steps.push({ atMs, cost: sum });
  };
  const expireUntil = (timeMs: number): void => {
    for (; expired < admitted.length; expired++) {
      const expiresMs = admitted[expired].atMs + windowMs;
      if (expiresMs > timeMs) return;
      sum -= admitted[expired].cost;
      addStep(expiresMs);
    }
  };
  for (const { atMs, cost } of admitted) {
    expireUntil(atMs);
    sum += cost;
    addStep(atMs);
  }
  expireUntil(Number.POSITIVE_INFINITY);
  return steps;
}

/** Returns the admitted cost in the window that ends at a time. */
export function costAt(steps: readonly Step[], timeMs: number): number {
  const next = steps.findIndex(({ atMs }) => atMs > timeMs);
  return steps[(next < 0 ? steps.length : next) - 1]?.cost ?? 0;
}

/** Formats a coordinate, rounded to 1/10 pixel. */
const pixels = (value: number): string => String(Math.round(value * 10) / 10);

/** Returns the y coordinate of a cost. `top` is the cost at the top of the plot. */
export const plotY = (cost: number, top: number): number =>
  PLOT_BOTTOM - Math.min(1, Math.max(0, cost / top)) * PLOT_HEIGHT;

/** Returns the SVG path of the area below the steps. */
export function areaPath(steps: readonly Step[], top: number, { x, width }: TimeScale): string {
  if (steps.length === 0) return '';
  const places = steps.map(
    ({ atMs, cost }) => `H${pixels(Math.min(width, x(atMs)))}V${pixels(plotY(cost, top))}`,
  );
  return `M0 ${PLOT_BOTTOM}${places.join('')}H${width}V${PLOT_BOTTOM}Z`;
}

/** Returns the SVG path of the usage as the algorithm counts it. */
export function usedPath(used: Lane['used'], top: number, { x }: TimeScale): string {
  const points = used.map(({ atMs, cost }) => `${pixels(x(atMs))} ${pixels(plotY(cost, top))}`);
  // Omit repeated points, which simultaneous calls produce.
  return `M${points.filter((point, at) => point !== points[at - 1]).join('L')}`;
}

export interface Columns {
  readonly admitted: string;
  readonly denied: string;
}

/**
 * Returns the SVG paths of the admitted and denied calls, in columns of 3 pixels. The height of a
 * column shows the cost of its calls. `most` is the cost of a column with the maximum height.
 */
export function callColumns(
  calls: readonly Call[],
  decisions: Lane['decisions'],
  most: number,
  { x, width }: TimeScale,
): Columns {
  const count = Math.ceil(width / COLUMN_WIDTH) + 1;
  const sums = {
    admitted: new Array<number>(count).fill(0),
    denied: new Array<number>(count).fill(0),
  };
  for (const [at, { atMs, cost }] of calls.entries()) {
    const column = Math.min(count - 1, Math.max(0, Math.floor(x(atMs) / COLUMN_WIDTH)));
    sums[decisions[at].allowed ? 'admitted' : 'denied'][column] += cost;
  }
  const path = (costs: readonly number[], height: number, sign: '-' | ''): string =>
    costs
      .map((cost, at) => {
        if (cost === 0) return '';
        const long = pixels(Math.max(MIN_COLUMN_HEIGHT, Math.min(1, cost / most) * height));
        return `M${at * COLUMN_WIDTH + 1} ${CALLS_BASELINE}v${sign}${long}`;
      })
      .join('');
  return {
    admitted: path(sums.admitted, MAX_ADMITTED_HEIGHT, '-'),
    denied: path(sums.denied, MAX_DENIED_HEIGHT, ''),
  };
}

/**
 * Returns the highest cost of all calls in one column. The columns of all lanes have this scale.
 */
export function highestColumn(calls: readonly Call[], { x }: TimeScale): number {
  const sums = new Map<number, number>();
  for (const { atMs, cost } of calls) {
    const column = Math.floor(x(atMs) / COLUMN_WIDTH);
    sums.set(column, (sums.get(column) ?? 0) + cost);
  }
  return Math.max(1, ...sums.values());
}

/** Returns the index of the call nearest to a horizontal position; undefined without calls. */
export function nearestCall(
  calls: readonly Call[],
  place: number,
  { x }: TimeScale,
): number | undefined {
  let nearest: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const [at, { atMs }] of calls.entries()) {
    const away = Math.abs(x(atMs) - place);
    if (away < least) [nearest, least] = [at, away];
  }
  return nearest;
}

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const AXIS_STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE_MS),
  ...[1, 2, 3, 6, 12, 24, 48, 120, 240, 720].map((each) => each * HOUR_MS),
];

/** Returns round times since the start for the axis, at least `leastPixels` apart. */
export function axisSteps({ perMs, width }: TimeScale, leastPixels: number): readonly number[] {
  const leastMs = leastPixels / perMs;
  const stepMs = AXIS_STEPS.find((each) => each >= leastMs) ?? leastMs;
  const count = Math.floor(Math.round(width / perMs) / stepMs);
  return Array.from({ length: count + 1 }, (_, at) => at * stepMs);
}
