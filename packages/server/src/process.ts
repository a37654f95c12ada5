/** The process around a service: it runs until it is told to stop, and then stops without haste. */
import type { Logger } from './observe/log.ts';
import { flushLog } from './observe/log-output.ts';

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGTERM: 15 };

/** How long a process that is ended at once waits for its last line to be written. */
const END_FLUSH_MS = 100;

/**
 * Resolves when a signal came and everything in flight has been answered; a second signal ends the
 * process at once, with the code that such an end has.
 */
export function runUntilSignal(
  service: { close(): Promise<void> },
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let isStopping = false;
    const onSignal = (signal: string): void => {
      if (isStopping) {
        log.warn({ signal }, 'ended at once');
        void flushLog(END_FLUSH_MS).then(() => process.exit(128 + SIGNALS[signal]));
        return;
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      service.close().then(async () => {
        log.info('stopped');
        // An output that is not read would keep the process from ending.
        if (!(await flushLog())) process.exit(0);
        resolve();
      }, reject);
    };
    for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal);
  });
}
