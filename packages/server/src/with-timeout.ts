/** For what is waited for, but not for long. */
import { systemClock } from 'sluice';

/** What comes in time; undefined if nothing does. */
export function withTimeout<T>(
  timeMs: number,
  pending: Promise<T> | undefined,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    const cancel = systemClock.schedule(timeMs, () => resolve(undefined));
    const end = (value: T | undefined): void => {
      cancel();
      resolve(value);
    };
    Promise.resolve(pending).then(end, () => end(undefined));
  });
}
