/**
 * Reads configuration files in a thread of its own: parsing and validating 10,000 rules takes
 * seconds, in which this thread goes on serving. The result comes in slices, one per turn of the
 * event loop.
 */
import { Worker } from 'node:worker_threads';
import { withFingerprint } from './load.ts';
import { type Config, ConfigError, type ConfigProblem } from './model.ts';
import { ConfigParts, type ConfigSlice } from './slices.ts';

/** Built code: a thread cannot be started from TypeScript. */
const PROGRAM = new URL('./load-thread.js', import.meta.url);

/** The first has the fingerprint, and the problems if there are any; the others a slice each. */
interface Message {
  readonly fingerprint?: string;
  readonly problems?: readonly ConfigProblem[];
  readonly slice?: ConfigSlice;
}

/** Resolves to the configuration, or rejects with a `ConfigError`, as `loadConfig` does. */
export function loadConfigInThread(paths: readonly string[]): Promise<Config> {
  const thread = new Worker(PROGRAM, { workerData: [...paths] });
  const parts = new ConfigParts();
  let fingerprint: string | undefined;
  return new Promise((resolve, reject) => {
    thread.on('message', (message: Message) => {
      const { problems, slice } = message;
      if (fingerprint === undefined) fingerprint = message.fingerprint ?? '';
      else if (slice === undefined) return resolve(withFingerprint(parts.config, fingerprint));
      if (problems !== undefined) {
        return reject(withFingerprint(new ConfigError(problems), fingerprint));
      }
      if (slice !== undefined) parts.add(slice);
      setImmediate(() => thread.postMessage('next'));
    });
    thread.once('error', reject);
    thread.once('exit', () => reject(new Error('The thread that reads the files ended early')));
  });
}
