/** The program of the thread that reads configuration files; see `load-in-thread.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { fingerprintOf, loadConfig } from './load.ts';
import { ConfigError } from './model.ts';
import { slicesOf } from './slices.ts';

const port = parentPort!;

try {
  const config = await loadConfig(workerData as readonly string[]);
  const slices = slicesOf(config);
  port.on('message', () => {
    const { value: slice } = slices.next();
    port.postMessage({ slice });
    if (slice === undefined) port.close();
  });
  port.postMessage({ fingerprint: fingerprintOf(config) });
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  port.postMessage({ fingerprint: fingerprintOf(error), problems: error.problems });
}
