/** The program of the thread that reads configuration files; see `load-in-thread.ts`. */
import { parentPort } from 'node:worker_threads';
import { fingerprintOf, loadConfig } from './load.ts';
import { ConfigError } from './model.ts';
import { type ConfigSlice, slicesOf } from './slices.ts';

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

/** Paths to load, or nothing for the next slice of what was loaded. */
port.on('message', (paths: readonly string[] | undefined) => {
  if (paths !== undefined) void load(paths);
  else port.postMessage({ slice: slices.next().value });
});
