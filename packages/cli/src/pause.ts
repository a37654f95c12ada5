/** A pause that an abort signal can end early, and an abort signal for SIGINT and SIGTERM. */
import { systemClock } from 'sluice';

/** Resolves after `timeMs`, or when the signal aborts. */
export function pause(timeMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = systemClock.schedule(Math.max(0, timeMs), end);
    signal.addEventListener('abort', end);
  });
}

/**
 * Returns an abort signal that aborts on the first SIGINT or SIGTERM; a second SIGINT or SIGTERM
 * ends the process. `stop` aborts the signal, and `release` removes the handlers.
 */
export function stopSignal(): { readonly signal: AbortSignal; stop(): void; release(): void } {
  const controller = new AbortController();
  const release = (): void => {
    for (const name of ['SIGINT', 'SIGTERM']) process.off(name, stop);
  };
  const stop = (): void => {
    release();
    controller.abort();
  };
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, stop);
  return { signal: controller.signal, stop, release };
}
