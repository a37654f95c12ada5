/** The process around a service: it runs until it is told to stop, and then stops without haste. */
import type { Logger } from './observe/log.ts';

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 2, SIGTERM: 15 };

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
        process.exit(128 + SIGNALS[signal]);
      }
      isStopping = true;
      log.info({ signal }, 'stopping');
      service.close().then(() => {
        log.info('stopped');
        resolve();
      }, reject);
    };
    for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal);
  });
}
