/** The shapes of a lane: what lies in the true window over time, and the calls below. */
import type { LabResult, Lane } from './run.ts';
import type { Call } from './traffic.ts';

export const PLOT = 58;
/** Above the plot, so that the limit's name has a place. */
export const TOP = 8;
export const BASE = TOP + PLOT;
const UP = 20;
const DOWN = 14;
/** Where the calls stand: what passed stands on it, what did not hangs from it. */
export const GROUND = BASE + 8 + UP;
export const LANE_HEIGHT = GROUND + DOWN + 4;
const COLUMN = 3;
const LEAST = 5;

/** From times to pixels. */
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

/** From a time on there is so much in the window. */
export interface Step {
  readonly atMs: number;
  readonly cost: number;
}

/** What was let through counts from its time on, for as long as the window. */
export function trueSteps(
  calls: readonly Call[],
  { told }: Pick<Lane, 'told'>,
  followed: string,
  windowMs: number,
): readonly Step[] {
  const passed = calls.filter(({ key }, at) => key === followed && told[at].allowed);
  const steps: Step[] = [];
  let sum = 0;
  let left = 0;
  const note = (atMs: number): void => {
    if (steps[steps.length - 1]?.atMs === atMs) steps.pop();
    steps.push({ atMs, cost: sum });
  };
  const leaveUntil = (timeMs: number): void => {
    for (; left < passed.length && passed[left].atMs + windowMs <= timeMs; left++) {
      sum -= passed[left].cost;
      note(passed[left].atMs + windowMs);
    }
  };
  for (const { atMs, cost } of passed) {
    leaveUntil(atMs);
    sum += cost;
    note(atMs);
  }
  leaveUntil(Number.POSITIVE_INFINITY);
  return steps;
}

/** What is in the window that ends at a time. */
export function costAt(steps: readonly Step[], timeMs: number): number {
  const next = steps.findIndex(({ atMs }) => atMs > timeMs);
  return steps[(next < 0 ? steps.length : next) - 1]?.cost ?? 0;
}

const short = (value: number): string => String(Math.round(value * 10) / 10);

/** How high a cost is in the plot, where `top` is as high as that. */
export const plotY = (cost: number, top: number): number =>
  BASE - Math.min(1, Math.max(0, cost / top)) * PLOT;

/** The area below the steps. */
export function areaPath(steps: readonly Step[], top: number, { x, width }: TimeScale): string {
  if (steps.length === 0) return '';
  const places = steps.map(
    ({ atMs, cost }) => `H${short(Math.min(width, x(atMs)))}V${short(plotY(cost, top))}`,
  );
  return `M0 ${BASE}${places.join('')}H${width}V${BASE}Z`;
}

/** What counts for the algorithm, as a line. */
export function usedPath(used: Lane['used'], top: number, { x }: TimeScale): string {
  const points = used.map(({ atMs, cost }) => `${short(x(atMs))} ${short(plotY(cost, top))}`);
  // Many calls at once are many equal points.
  return `M${points.filter((point, at) => point !== points[at - 1]).join('L')}`;
}

export interface Columns {
  readonly passed: string;
  readonly denied: string;
}

/** Calls that lie closer together than can be seen are one column, as high as their costs. */
export function callColumns(
  calls: readonly Call[],
  told: Lane['told'],
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
    sums[told[at].allowed ? 'passed' : 'denied'][column] += cost;
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

/** The fullest column of all calls, so that those of all lanes can be compared. */
export function mostInColumn(calls: readonly Call[], { x }: TimeScale): number {
  const sums = new Map<number, number>();
  for (const { atMs, cost } of calls) {
    const column = Math.floor(x(atMs) / COLUMN);
    sums.set(column, (sums.get(column) ?? 0) + cost);
  }
  return Math.max(1, ...sums.values());
}

/** The call nearest to a place; undefined if there are none. */
export function nearestCall(calls: readonly Call[], place: number, { x }: TimeScale): number {
  let nearest = -1;
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

/** Round times for the axis, since the start, with at least so many pixels between. */
export function axisSteps({ perMs, width }: TimeScale, leastPixels: number): readonly number[] {
  const leastMs = leastPixels / perMs;
  const stepMs = AXIS_STEPS.find((each) => each >= leastMs) ?? leastMs;
  const count = Math.floor(Math.round(width / perMs) / stepMs);
  return Array.from({ length: count + 1 }, (_, at) => at * stepMs);
}
