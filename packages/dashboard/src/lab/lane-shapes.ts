/**
 * Shapes of a lane, the drawing of one algorithm: the admitted cost per window over time, and the
 * calls below it. Positions and lengths are in pixels.
 */
import type { LabResult, Lane } from './run.ts';
import type { Call } from './traffic.ts';

export const PLOT = 58;
export const TOP = 8;
export const BASE = TOP + PLOT;
const UP = 20;
const DOWN = 14;
/** Baseline of the calls: admitted calls are drawn above it, denied calls below. */
export const GROUND = BASE + 8 + UP;
export const LANE_HEIGHT = GROUND + DOWN + 4;
const COLUMN = 3;
const LEAST = 5;

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

/** From `atMs` on, the window contains the admitted cost `cost`. */
export interface Step {
  readonly atMs: number;
  readonly cost: number;
}

/** Returns the admitted cost within the last window, as a step function of time. */
export function admittedSteps(
  calls: readonly Call[],
  { decisions }: Pick<Lane, 'decisions'>,
  followed: string,
  windowMs: number,
): readonly Step[] {
  const admitted = calls.filter(({ key }, at) => key === followed && decisions[at].allowed);
  const steps: Step[] = [];
  let sum = 0;
  let left = 0;
  const note = (atMs: number): void => {
    if (steps[steps.length - 1]?.atMs === atMs) steps.pop();
    steps.push({ atMs, cost: sum });
  };
  const leaveUntil = (timeMs: number): void => {
    for (; left < admitted.length && admitted[left].atMs + windowMs <= timeMs; left++) {
      sum -= admitted[left].cost;
      note(admitted[left].atMs + windowMs);
    }
  };
  for (const { atMs, cost } of admitted) {
    leaveUntil(atMs);
    sum += cost;
    note(atMs);
  }
  leaveUntil(Number.POSITIVE_INFINITY);
  return steps;
}

/** Returns the admitted cost in the window that ends at a time. */
export function costAt(steps: readonly Step[], timeMs: number): number {
  const next = steps.findIndex(({ atMs }) => atMs > timeMs);
  return steps[(next < 0 ? steps.length : next) - 1]?.cost ?? 0;
}

const short = (value: number): string => String(Math.round(value * 10) / 10);

/** Returns the vertical position of a cost. `top` is the cost at the top of the plot. */
export const plotY = (cost: number, top: number): number =>
  BASE - Math.min(1, Math.max(0, cost / top)) * PLOT;

/** Returns the SVG path of the area below the steps. */
export function areaPath(steps: readonly Step[], top: number, { x, width }: TimeScale): string {
  if (steps.length === 0) return '';
  const places = steps.map(
    ({ atMs, cost }) => `H${short(Math.min(width, x(atMs)))}V${short(plotY(cost, top))}`,
  );
  return `M0 ${BASE}${places.join('')}H${width}V${BASE}Z`;
}

/** Returns the SVG path of the usage that the algorithm reports. */
export function usedPath(used: Lane['used'], top: number, { x }: TimeScale): string {
  const points = used.map(({ atMs, cost }) => `${short(x(atMs))} ${short(plotY(cost, top))}`);
  // Simultaneous calls produce equal points.
  return `M${points.filter((point, at) => point !== points[at - 1]).join('L')}`;
}

export interface Columns {
  readonly passed: string;
  readonly denied: string;
}

/** Returns SVG paths of the calls in columns of 3 pixels. The height is the sum of the costs. */
export function callColumns(
  calls: readonly Call[],
  decisions: Lane['decisions'],
  most: number,
  { x, width }: TimeScale,
): Columns {
  const count = Math.ceil(width / COLUMN) + 1;
  const sums = {
    passed: new Array<number>(count).fill(0),
    denied: new Array<number>(count).fill(0),
  };
  for (const [at, { atMs, cost }] of calls.entries()) {
    const column = Math.min(count - 1, Math.max(0, Math.floor(x(atMs) / COLUMN)));
    sums[decisions[at].allowed ? 'passed' : 'denied'][column] += cost;
  }
  const path = (costs: readonly number[], height: number, sign: '-' | ''): string =>
    costs
      .map((cost, at) => {
        if (cost === 0) return '';
        const long = short(Math.max(LEAST, Math.min(1, cost / most) * height));
        return `M${at * COLUMN + 1} ${GROUND}v${sign}${long}`;
      })
      .join('');
  return { passed: path(sums.passed, UP, '-'), denied: path(sums.denied, DOWN, '') };
}

/** Returns the highest cost of a column over all calls: the common scale of all lanes. */
export function highestColumn(calls: readonly Call[], { x }: TimeScale): number {
  const sums = new Map<number, number>();
  for (const { atMs, cost } of calls) {
    const column = Math.floor(x(atMs) / COLUMN);
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
