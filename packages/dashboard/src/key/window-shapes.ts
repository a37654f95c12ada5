/** The measures of the picture, and shapes in it that can be made without it. */
import type { Span, TickScene } from './scene.ts';

export const TOP = 26;
export const PLOT = 132;
export const BASE = TOP + PLOT;
export const HEIGHT = BASE + 26;
export const MIN_TICK = 5;
const TICK_WIDTH = 2;

/** From times to pixels. */
export interface Scale {
  readonly perMs: number;
  x(timeMs: number): number;
}

export function scaleOf({ fromMs, toMs }: Span, width: number): Scale {
  const perMs = width / (toMs - fromMs);
  return { perMs, x: (timeMs) => (timeMs - fromMs) * perMs };
}

/** No more digits than can be seen. */
export const short = (value: number): string => String(Math.round(value * 100) / 100);

/** How high a value is drawn; the smallest can still be seen. */
export const heightOf = (value: number, top: number, least = 0): number =>
  value <= 0 ? 0 : Math.max(least, Math.min(1, value / top) * PLOT);

/** The shape of all ticks, with the newest at 0, so that it is the same while they move. */
export function ticksPath({ entries, bucketMs, top }: TickScene, perMs: number): string {
  const baseMs = entries[entries.length - 1]?.atMs ?? 0;
  return entries
    .map(({ atMs, cost }) => {
      const height = short(heightOf(cost, top, MIN_TICK));
      const right = (atMs + 1 - baseMs) * perMs;
      if (bucketMs === 0) return `M${short((atMs - baseMs) * perMs)} ${BASE}v-${height}`;
      // A hair of space between one bucket and the next.
      const width = Math.max(TICK_WIDTH, bucketMs * perMs - 1);
      return `M${short(right - width)} ${BASE}v-${height}h${short(width)}v${height}z`;
    })
    .join('');
}
