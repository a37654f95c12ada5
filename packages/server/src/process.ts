/** Runs a service until a signal, then shuts it down gracefully. */
import { scheduleInBackground } from './clock.ts';
import type { Logger } from './observe/log.ts';
import { flushLog } from './observe/log-output.ts';

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGTERM: 15 };

/** How long an immediate exit waits for the last log line. */
const END_FLUSH_MS = 100;

/** How long a process without work may take to exit. */
const EXIT_MS = 5000;

/**
 * Resolves after SIGINT or SIGTERM, when all requests in flight are complete. A second signal exits
 * immediately with code 128 + the signal number. If a read from a hung mount keeps the process from
 * exiting, it raises the signal again with its default action: `process.exit` would wait for the
 * read.
 */
export function runUntilSignal(
  service: { close(): Promise<void> },
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let isStopping = false;
    const onSignal = (signal: string): void => {
      if (isStopping) {
        log.warn({ signal }, 'exiting immediately');
        void flushLog(END_FLUSH_MS).then(() => process.exit(128 + SIGNALS[signal]));
        return;
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      service.close().then(async () => {
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
  });
}
