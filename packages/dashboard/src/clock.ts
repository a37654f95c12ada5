/** Clock and timers. No other module reads the clock or sets timers. */

export const nowMs = (): number => Date.now();

/** Returns a time in the browser's time zone: `2026-10-10 13:05:59`. */
export function localTime(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (part: number): string => String(part).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}`;
}

/**
 * Parses a local time such as `2026-10-10 13:05:59`, also with `T` instead of the space. Returns
 * NaN if the text is invalid.
 */
export const parseLocalTime = (text: string): number => new Date(text.replace(' ', 'T')).getTime();

/** Calls `work` once after `waitMs`. Returns a function that cancels the call. */
export function after(waitMs: number, work: () => void): () => void {
  const timer = setTimeout(work, waitMs);
  return () => clearTimeout(timer);
}

/** Calls `work` every `waitMs`. Returns a function that stops the calls. */
export function every(waitMs: number, work: () => void): () => void {
  const timer = setInterval(work, waitMs);
  return () => clearInterval(timer);
}

/** Calls `work` on each animation frame. Returns a function that stops the calls. */
export function eachFrame(work: () => void): () => void {
  let isStopped = false;
  let id = requestAnimationFrame(function frame() {
    work();
    if (!isStopped) id = requestAnimationFrame(frame);
  });
  return () => {
    isStopped = true;
    cancelAnimationFrame(id);
  };
}
