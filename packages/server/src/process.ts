/** Runs a service until a signal, then shuts it down gracefully. */
import { scheduleInBackground } from './clock.ts';
import type { Logger } from './observe/log.ts';
import { flushLog } from './observe/log-output.ts';

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGTERM: 15 };

/** How long an immediate exit waits for the last log line. */
const END_FLUSH_MS = 100;

/** How long a process without work may take to exit. */
const EXIT_MS = 5000;

export interface Closable {
  close(): Promise<void>;
}

/**
 * Resolves after SIGINT or SIGTERM, when all requests in flight are complete. `service` may be the
 * promise of a service that is starting: a signal then closes it as soon as it has started. If the
 * start fails, rejects with its error and no longer handles signals. A second signal exits
 * immediately with code 128 + the signal number. If the process does not exit by itself within 5 s,
 * for example because a read from a hung mount is pending, the signal is raised again with its
 * default action: `process.exit` would wait for the read.
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
        // An unread pipe at standard output would keep the process alive.
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
