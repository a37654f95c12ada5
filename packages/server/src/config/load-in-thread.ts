/**
 * Reads configuration files in a thread of its own: parsing and validating 10,000 rules takes
 * seconds, in which this thread goes on serving. The result comes in slices, one per turn of the
 * event loop. The thread is kept for a while, because the next load in it takes less than half of
 * the processor time (1.25 s and 0.5 s for 5,000 rules).
 */
import { Worker } from 'node:worker_threads';
import { scheduleInBackground } from '../clock.ts';
import { withFingerprint } from './load.ts';
import { type Config, ConfigError, type ConfigProblem } from './model.ts';
import { ConfigParts, type ConfigSlice } from './slices.ts';

/** Built code: a thread cannot be started from TypeScript. */
const PROGRAM = new URL('./load-thread.js', import.meta.url);
/** How long a thread without work is kept. */
const IDLE_MS = 10_000;

/** The first has the fingerprint, and the problems if there are any; the others a slice each. */
interface Message {
  readonly fingerprint?: string;
  readonly problems?: readonly ConfigProblem[];
  readonly slice?: ConfigSlice;
}

interface Idle {
  readonly thread: Worker;
  /** Keeps it from being ended. */
  cancel(): void;
}

let idle: Idle | undefined;

/** Resolves to the configuration, or rejects with a `ConfigError`, as `loadConfig` does. */
export async function loadConfigInThread(paths: readonly string[]): Promise<Config> {
  const thread = idle?.thread ?? newThread();
  idle?.cancel();
  idle = undefined;
  thread.ref();
  try {
    const config = await load(thread, paths);
    keep(thread);
    return config;
  } catch (error) {
    if (error instanceof ConfigError) keep(thread);
    else void thread.terminate();
    throw error;
  }
}

function newThread(): Worker {
  const thread = new Worker(PROGRAM);
  // One that fails without work is not used again.
  const forget = (): void => {
    if (idle?.thread !== thread) return;
    idle.cancel();
    idle = undefined;
  };
  return thread.on('error', forget).on('exit', forget);
}

function keep(thread: Worker): void {
  if (idle !== undefined) {
    void thread.terminate();
    return;
  }
  thread.unref();
  const cancel = scheduleInBackground(IDLE_MS, () => {
    idle = undefined;
    void thread.terminate();
  });
  idle = { thread, cancel };
}

async function load(thread: Worker, paths: readonly string[]): Promise<Config> {
  const parts = new ConfigParts();
  let fingerprint: string | undefined;
  let onMessage = (_message: Message): void => {};
  let onEnd = (_error: unknown): void => {};
  const loaded = new Promise<Config>((resolve, reject) => {
    onMessage = (message) => {
      const { problems, slice } = message;
      if (fingerprint === undefined) fingerprint = message.fingerprint ?? '';
      else if (slice === undefined) return resolve(withFingerprint(parts.config, fingerprint));
      if (problems !== undefined) {
        return reject(withFingerprint(new ConfigError(problems), fingerprint));
      }
      if (slice !== undefined) parts.add(slice);
      setImmediate(() => thread.postMessage(undefined));
    };
    onEnd = (error) =>
      reject(error instanceof Error ? error : new Error('The thread that reads the files ended'));
  });
  thread.on('message', onMessage).on('error', onEnd).on('exit', onEnd);
  thread.postMessage([...paths]);
  try {
    return await loaded;
  } finally {
    thread.off('message', onMessage).off('error', onEnd).off('exit', onEnd);
  }
}
