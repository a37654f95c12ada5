/** Formats numbers and durations, and times in the browser's time zone. */
import { localTime } from '../clock.ts';

export {
  counted as countWithNoun,
  countText,
  durationText,
  percentText,
  rateText,
  shortCount,
  visible,
  windowText,
} from 'sluice-traffic/format';

/** Returns the text with a capital first letter. */
export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the local time: `13:05:59`. */
export const clockText = (timeMs: number): string => localTime(timeMs).slice(11);

/** Returns the local time without seconds: `13:05`. */
export const minuteText = (timeMs: number): string => clockText(timeMs).slice(0, 5);

/** Returns the local time with milliseconds: `13:05:59.123`. */
export const exactText = (timeMs: number): string =>
  `${clockText(timeMs)}.${String(Math.floor(timeMs) % 1000).padStart(3, '0')}`;

/** Returns the local date and time: `2026-10-10 13:05`. */
export const dateText = (timeMs: number): string => localTime(timeMs).slice(0, 16);
