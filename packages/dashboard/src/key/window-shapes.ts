/** Dimensions, scales and paths of the window drawing. */
import type { Span, TickScene } from './scene.ts';

export const TOP = 26;
export const PLOT = 132;
export const BASE = TOP + PLOT;
export const HEIGHT = BASE + 26;
export const MIN_TICK = 5;
const TICK_WIDTH = 2;

/** Converts times to pixels. */
export interface Scale {
  readonly perMs: number;
  x(timeMs: number): number;
}

export function scaleOf({ fromMs, toMs }: Span, width: number): Scale {
  const perMs = width / (toMs - fromMs);
  return { perMs, x: (timeMs) => (timeMs - fromMs) * perMs };
}

/** Rounds to 1/100 pixel. */
export const short = (value: number): string => String(Math.round(value * 100) / 100);

/** Height of a value in pixels, at least `least` for positive values. */
export const heightOf = (value: number, top: number, least = 0): number =>
  value <= 0 ? 0 : Math.max(least, Math.min(1, value / top) * PLOT);

/** Path of all ticks relative to the newest, so that it stays the same while they move. */
export function ticksPath({ entries, bucketMs, top }: TickScene, perMs: number): string {
  const baseMs = entries[entries.length - 1]?.atMs ?? 0;
  return entries
    .map(({ atMs, cost }) => {
      const height = short(heightOf(cost, top, MIN_TICK));
      const right = (atMs + 1 - baseMs) * perMs;
      if (bucketMs === 0) return `M${short((atMs - baseMs) * perMs)} ${BASE}v-${height}`;
      // One pixel between adjacent buckets.
      const width = Math.max(TICK_WIDTH, bucketMs * perMs - 1);
      return `M${short(right - width)} ${BASE}v-${height}h${short(width)}v${height}z`;
    })
    .join('');
}
