/**
 * Loads configuration files in a worker thread. Parsing and validating 10,000 rules takes seconds,
 * during which the main thread continues to serve. The result arrives in slices, one per turn of
 * the event loop. An idle thread is kept for 10 s: its compiled code makes a second load faster
 * (0.5 s of CPU time instead of 1.25 s for 5,000 rules).
 */
import { Worker } from 'node:worker_threads';
import { scheduleInBackground } from '../clock.ts';
import { withFingerprint } from './load.ts';
import { type Config, ConfigError, type ConfigProblem } from './model.ts';
import { ConfigParts, type ConfigSlice } from './slices.ts';

/** The path of compiled code, because a thread cannot run TypeScript. */
const PROGRAM = new URL('./load-thread.js', import.meta.url);
const IDLE_MS = 10_000;

/**
 * A message from the thread. The first message has the fingerprint, and the problems if there are
 * any. Each later message has a slice, except the last one.
 */
interface Message {
  readonly fingerprint?: string;
  readonly problems?: readonly ConfigProblem[];
  readonly slice?: ConfigSlice;
}

interface Idle {
  readonly thread: Worker;
  /** Cancels the scheduled termination of the thread. */
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
    keepIdle(thread);
    return config;
  } catch (error) {
    if (error instanceof ConfigError) keepIdle(thread);
    else void thread.terminate();
    throw error;
  }
}

function newThread(): Worker {
  const thread = new Worker(PROGRAM);
  // A thread that fails while idle is not reused.
  const discard = (): void => {
    if (idle?.thread !== thread) return;
    idle.cancel();
    idle = undefined;
  };
  return thread.on('error', discard).on('exit', discard);
}

function keepIdle(thread: Worker): void {
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
      reject(
        error instanceof Error
          ? error
          : new Error('The thread that loads the configuration exited'),
      );
  });
  thread.on('message', onMessage).on('error', onEnd).on('exit', onEnd);
  thread.postMessage([...paths]);
  try {
    return await loaded;
  } finally {
    thread.off('message', onMessage).off('error', onEnd).off('exit', onEnd);
  }
}
