/** Dimensions in pixels, scales and SVG paths of the drawing of a window. */
import type { Span, TickScene } from './scene.ts';

export const PLOT_TOP = 26;
export const PLOT_HEIGHT = 132;
export const PLOT_BOTTOM = PLOT_TOP + PLOT_HEIGHT;
export const HEIGHT = PLOT_BOTTOM + 26;
export const MIN_TICK_HEIGHT = 5;
const TICK_WIDTH = 2;

/** Converts times to pixels. */
export interface Scale {
  readonly perMs: number;
  x(timeMs: number): number;
}

export function createScale({ fromMs, toMs }: Span, width: number): Scale {
  const perMs = width / (toMs - fromMs);
  return { perMs, x: (timeMs) => (timeMs - fromMs) * perMs };
}

/** Formats a coordinate, rounded to 1/100 pixel. */
export const pixels = (value: number): string => String(Math.round(value * 100) / 100);

/** Returns the height of a value in pixels. A positive value has at least the height `least`. */
export const heightOf = (value: number, top: number, least = 0): number =>
  value <= 0 ? 0 : Math.max(least, Math.min(1, value / top) * PLOT_HEIGHT);

/**
 * Returns the SVG path of all entries. Its x coordinates are relative to the newest entry, so the
 * path does not change when the drawing moves with time.
 */
export function ticksPath({ entries, bucketMs, top }: TickScene, perMs: number): string {
  const baseMs = entries[entries.length - 1]?.atMs ?? 0;
  return entries
    .map(({ atMs, cost }) => {
      const height = pixels(heightOf(cost, top, MIN_TICK_HEIGHT));
      const right = (atMs + 1 - baseMs) * perMs;
      if (bucketMs === 0) return `M${pixels((atMs - baseMs) * perMs)} ${PLOT_BOTTOM}v-${height}`;
      // Leave one pixel between adjacent buckets.
      const width = Math.max(TICK_WIDTH, bucketMs * perMs - 1);
      return `M${pixels(right - width)} ${PLOT_BOTTOM}v-${height}h${pixels(width)}v${height}z`;
    })
    .join('');
}
