/** The only file that reads time or waits for it. */

export const nowMs = (): number => Date.now();

/** `2026-10-10 13:05:59`, where this browser is. */
export function localTime(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (part: number): string => String(part).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}`;
}

/** The other way round, and with a `T` in the middle, as fields for times have it. */
export const readLocalTime = (text: string): number => new Date(text.replace(' ', 'T')).getTime();

/** Calls `work` after a while; the answer calls it off. */
export function after(waitMs: number, work: () => void): () => void {
  const timer = setTimeout(work, waitMs);
  return () => clearTimeout(timer);
}

/** Calls `work` again and again until it is called off. */
export function every(waitMs: number, work: () => void): () => void {
  const timer = setInterval(work, waitMs);
  return () => clearInterval(timer);
}

/** Calls `work` with each frame that is shown, until it is called off, be it by `work` itself. */
export function eachFrame(work: () => void): () => void {
  let isOver = false;
  let id = requestAnimationFrame(function frame() {
    work();
    if (!isOver) id = requestAnimationFrame(frame);
  });
  return () => {
    isOver = true;
    cancelAnimationFrame(id);
  };
}
