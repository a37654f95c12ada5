/** Deletes temporary files when a signal ends the process. */
import { rmSync } from 'node:fs';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Deletes a file or folder when a signal ends the process. Returns a function that removes the
 * signal handlers.
 */
export function removeOnSignal(path: string): () => void {
  const release = (): void => {
    for (const signal of SIGNALS) process.off(signal, stopped);
  };
  const stopped = (signal: NodeJS.Signals): void => {
    release();
    rmSync(path, { recursive: true, force: true });
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.on(signal, stopped);
  return release;
}
