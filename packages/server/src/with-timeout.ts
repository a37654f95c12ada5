import { systemClock } from 'sluice';

/** Resolves to undefined if `pending` rejects or does not settle within `timeMs`. */
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
