/** The program of the thread that loads configuration files; see `load-in-thread.ts`. */
import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { fingerprintOf, loadConfig } from './load.ts';
import { ConfigError } from './model.ts';
import { type ConfigSlice, slicesOf } from './slices.ts';

// On Linux, a priority applies to one thread. With a low priority, parsing does not delay requests.
const LOW_PRIORITY = 10;
if (process.platform === 'linux') setPriority(LOW_PRIORITY);

const port = parentPort!;
let slices: Iterator<ConfigSlice, void> = [][Symbol.iterator]();

async function load(paths: readonly string[]): Promise<void> {
  try {
    const config = await loadConfig(paths);
    slices = slicesOf(config);
    port.postMessage({ fingerprint: fingerprintOf(config) });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    port.postMessage({ fingerprint: fingerprintOf(error), problems: error.problems });
  }
}

/** A message is a list of paths to load, or undefined to request the next slice. */
port.on('message', (paths: readonly string[] | undefined) => {
  if (paths !== undefined) void load(paths);
  else port.postMessage({ slice: slices.next().value });
});
