/** Runs a service until a signal, then shuts it down gracefully. */
import { scheduleInBackground } from './clock.ts';
import type { Logger } from './observe/log.ts';
import { flushLog } from './observe/log-output.ts';

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGTERM: 15 };

/** Maximum time that an immediate exit waits until the last log line is written. */
const END_FLUSH_MS = 100;

/** Maximum time between the end of the shutdown and the exit of the process. */
const EXIT_MS = 5000;

export interface Closable {
  close(): Promise<void>;
}

/**
 * Resolves after SIGINT or SIGTERM, when all requests in flight are complete.
 *
 * - `service` may be the promise of a service that is starting. A signal then closes the service as
 *   soon as it has started. If the start fails, the returned promise rejects with the error, and
 *   signals are no longer handled.
 * - A second signal exits immediately, with code 128 + the signal number.
 * - If the process does not exit by itself within 5 s after the shutdown, the signal is raised
 *   again with its default action. This happens if a read from a hung mount is pending, for which
 *   `process.exit` would wait.
 */
export function runUntilSignal(
  service: Closable | Promise<Closable>,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const starting = Promise.resolve(service);
    let isStopping = false;
    const onSignal = (signal: string): void => {
      if (isStopping) {
        log.warn({ signal }, 'exiting immediately');
        void flushLog(END_FLUSH_MS).then(() => process.exit(128 + SIGNALS[signal]));
        return;
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      const closed = starting.then((started) => started.close());
      closed.then(async () => {
        log.info('stopped');
        // If the reader of standard output stops reading, unwritten lines keep the process alive.
        if (!(await flushLog())) process.exit(0);
        scheduleInBackground(EXIT_MS, () => {
          process.removeAllListeners(signal);
          process.kill(process.pid, signal);
        });
        resolve();
      }, reject);
    };
    for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal);
    starting.catch((error) => {
      for (const signal of Object.keys(SIGNALS)) process.off(signal, onSignal);
      reject(error);
    });
  });
}
