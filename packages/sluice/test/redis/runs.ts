/** Starts processes that call `run`, kills some of them, and checks what all of them recorded. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dice } from './traces.ts';

/** The kinds of events, in the order of their numbers in the file. */
const KINDS = ['admitted', 'return', 'throw', 'abort', 'cut', 'lost'] as const;
const NUMBERS = 5;
const BYTES = NUMBERS * 8;

export interface RunEvent {
  readonly kind: (typeof KINDS)[number];
  readonly key: number;
  readonly fence: number;
  readonly atMs: number;
  /** Of an admission: the remaining capacity after it. */
  readonly remaining: number;
}

export interface RunSettings {
  readonly url: string;
  readonly prefix: string;
  readonly policy: { readonly concurrency: number; readonly lease: number };
  readonly keys: number;
  /** The number of admissions of all processes together. */
  readonly runs: number;
  readonly processes: number;
  /** The number of calls of each process that wait or run. */
  readonly inFlight: number;
  /** The longest time of a run. */
  readonly workMs: number;
  readonly ways: readonly string[];
  readonly folder: string;
  /** How many processes are killed, and how often `cut` is called, at random moments. */
  readonly kills: number;
  readonly cuts?: number;
  readonly cut?: () => Promise<unknown>;
}

export function readEvents(file: string): RunEvent[] {
  const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
  const count = Math.floor(bytes.length / BYTES);
  // A copy, because the numbers must be aligned.
  const numbers = new Float64Array(new Uint8Array(bytes.subarray(0, count * BYTES)).buffer);
  return Array.from({ length: count }, (_, event) => {
    const [kind, key, fence, atMs, remaining] = numbers.subarray(event * NUMBERS);
    return { kind: KINDS[kind], key, fence, atMs, remaining };
  });
}

const sizeOf = (file: string): number => (existsSync(file) ? statSync(file).size : 0);

/** A process that is started again after it was killed, until it has made its runs. */
class Worker {
  readonly file: string;
  readonly finished: Promise<void>;
  #child: ChildProcess | undefined;
  #sizeAtStart = 0;
  #isStopped = false;

  constructor(settings: RunSettings, number: number) {
    this.file = join(settings.folder, `${settings.prefix}${number}`);
    this.finished = this.#run(settings, number);
  }

  /** Whether the process has recorded an event since it was started. */
  get isRunning(): boolean {
    return this.#child !== undefined && sizeOf(this.file) > this.#sizeAtStart;
  }

  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Ends the process, and starts no other one. */
  stop(): void {
    this.#isStopped = true;
    this.kill();
  }

  async #run(settings: RunSettings, number: number): Promise<void> {
    const worker = new URL('runs-worker.mjs', import.meta.url).pathname;
    const { folder: _, cut: __, processes, runs, ...rest } = settings;
    for (let started = 0; ; started++) {
      const admitted = readEvents(this.file).filter(({ kind }) => kind === 'admitted').length;
      const left = Math.ceil(runs / processes) - admitted;
      if (left <= 0 || this.#isStopped) return;
      this.#sizeAtStart = sizeOf(this.file);
      const seed = 1000 * number + started;
      const own = JSON.stringify({ ...rest, runs: left, seed, file: this.file });
      const child = spawn(process.execPath, [worker, own], { stdio: ['ignore', 2, 2] });
      this.#child = child;
      const [code, signal] = await once(child, 'exit');
      this.#child = undefined;
      if (code !== 0 && signal !== 'SIGKILL') throw new Error(`The worker ended with ${code}`);
    }
  }
}

/** Runs the processes. Returns their events, one list per process, and the number of kills. */
export async function runProcesses(
  settings: RunSettings,
): Promise<{ events: RunEvent[][]; kills: number }> {
  const { processes, runs, kills, cuts = 0, cut } = settings;
  const workers = Array.from({ length: processes }, (_, at) => new Worker(settings, at));
  let isOver = false;
  const finished = Promise.all(workers.map((worker) => worker.finished)).finally(() => {
    isOver = true;
  });
  finished.catch(() => {
    for (const worker of workers) worker.stop();
  });
  const dice = new Dice(kills + cuts);
  // At random shares of the work, so that they are spread over the time of the campaign.
  const disturbances = Array.from({ length: kills + cuts }, (_, at) => ({
    at: dice.roll(runs * 0.95),
    isKill: at < kills,
  })).sort((one, other) => one.at - other.at);
  const progress = (): number =>
    workers.reduce((sum, { file }) => sum + sizeOf(file), 0) / (2 * BYTES);
  let killed = 0;
  while (!isOver && disturbances.length > 0) {
    const [{ at, isKill }] = disturbances;
    const running = workers.filter(({ isRunning }) => isRunning);
    if (progress() < at || running.length === 0) {
      await sleep(5);
      continue;
    }
    disturbances.shift();
    if (isKill) dice.pick(running).kill();
    else await cut!();
    if (isKill) killed++;
  }
  await finished;
  return { events: workers.map(({ file }) => readEvents(file)), kills: killed };
}

/** What is certain about the holds of one key. */
export interface HoldFindings {
  holds: number;
  /** Admissions at which more than the limit was certainly held. */
  over: number;
  /** Admissions at which the store counted less than was certainly held. */
  uncounted: number;
  /** Admissions whose fence or time does not follow that of the one before it. */
  disordered: number;
  /** The most that was certainly held. */
  most: number;
}

/**
 * Checks the events of one key. Admissions are ordered by fence. At an admission, an earlier hold
 * is certainly held if its lease has not ended by the server's clock, and its release was sent in a
 * later millisecond. That clock is also the clock of the processes, which are on the same machine.
 */
export function checkHolds(
  events: readonly RunEvent[],
  { concurrency, lease }: RunSettings['policy'],
): HoldFindings {
  const findings = { holds: 0, over: 0, uncounted: 0, disordered: 0, most: 0 };
  const ends = new Map(
    events.filter(({ kind }) => kind !== 'admitted').map(({ fence, atMs }) => [fence, atMs]),
  );
  const admissions = events.filter(({ kind }) => kind === 'admitted');
  admissions.sort((one, other) => one.fence - other.fence);
  let held: number[] = [];
  let [lastFence, lastMs] = [0, 0];
  for (const { fence, atMs, remaining } of admissions) {
    if (fence <= lastFence || atMs < lastMs) findings.disordered++;
    [lastFence, lastMs] = [fence, atMs];
    held = held.filter((untilMs) => untilMs > atMs);
    // Renewals only make it longer.
    held.push(Math.min(atMs + lease, ends.get(fence) ?? Number.POSITIVE_INFINITY));
    findings.holds++;
    if (held.length > concurrency) findings.over++;
    if (held.length > concurrency - remaining) findings.uncounted++;
    findings.most = Math.max(findings.most, held.length);
  }
  return findings;
}
