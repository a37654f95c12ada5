/** Times and decisions of the lab as text. */

import type { RunDecision, WorstWindow } from 'sluice-traffic/lab';
import { countText, durationText } from '../view/format.ts';

/** Returns the time since the start to the millisecond, such as `+9.912 s`. */
export function sinceText(sinceMs: number): string {
  const seconds = Math.floor(sinceMs / 1000);
  const rest = String(sinceMs - seconds * 1000).padStart(3, '0');
  if (seconds < 60) return `+${seconds}.${rest} s`;
  const two = (value: number): string => String(value).padStart(2, '0');
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `+${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(seconds % 60)}.${rest}`;
}

export function decisionText({ allowed, remaining, retryAfterMs }: RunDecision): string {
  if (allowed) return `allowed, ${countText(remaining)} remaining`;
  if (retryAfterMs === Number.POSITIVE_INFINITY) return 'denied: cost above the limit';
  return `denied, retry in ${durationText(retryAfterMs)}`;
}

/** Returns text such as `2.00 ×`. Rounds a multiple above 1 to at least `1.01 ×`, never to 1. */
export function multipleText(multiple: number): string {
  const text = multiple.toFixed(2);
  return `${multiple > 1 && text === '1.00' ? '1.01' : text} ×`;
}

/** Returns text such as `50 admitted, 2.00 × the limit`. */
export const fullestText = (fullest: WorstWindow | undefined): string =>
  fullest === undefined
    ? 'no admitted call'
    : `${countText(fullest.count)} admitted, ${multipleText(fullest.multiple)} the limit`;
