/** Processes that spend leases of one key, and the windows that certainly are over the limit. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AdmissionLog, machineMs, windowsOver } from '../../../../tools/admissions.mjs';

const worker = new URL('leases-worker.mjs', import.meta.url).pathname;

export interface Counts {
  readonly decisions: number;
  readonly denied: number;
  readonly leased: number;
  readonly degraded: number;
  /** Decisions that took 1 ms or longer. */
  readonly slow: number;
}

export interface SpenderOptions {
  readonly url: string;
  readonly policy: { readonly limit: number; readonly window: number; readonly lease: boolean };
  readonly perSecond: number;
  /** Options of `redisStore`. */
  readonly store?: object;
}

const NONE: Counts = { decisions: 0, denied: 0, leased: 0, degraded: 0, slow: 0 };

function sumOf(all: readonly Counts[]): Counts {
  const sum: Record<keyof Counts, number> = { ...NONE };
  for (const counts of all) {
    for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name];
  }
  return sum;
}

/** A process that makes calls until it is killed. It can be started again. */
class Spender {
  readonly #settings: string;
  #child: ChildProcess | undefined;
  /** The last report of each process that has been started. */
  readonly #reports: Counts[] = [];

  constructor(settings: object) {
    this.#settings = JSON.stringify(settings);
  }

  start(): void {
    const stdio = ['ignore', 2, 2, 'ipc'] as const;
    const child = spawn(process.execPath, [worker, this.#settings], { stdio: [...stdio] });
    const place = this.#reports.push(NONE) - 1;
    child.on('message', (counts) => {
      this.#reports[place] = counts as Counts;
    });
    this.#child = child;
  }

  counts(): Counts {
    return sumOf(this.#reports);
  }

  /** Whether the current process has made decisions. Fails if it has ended by itself. */
  get isRunning(): boolean {
    const { exitCode } = this.#child!;
    if (exitCode !== null) throw new Error(`A process ended with code ${exitCode}`);
    return this.#reports.at(-1)!.decisions > 0;
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name);
  }

  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
}

/** Several processes that spend units of the same key. */
export class Spenders {
  readonly all: readonly Spender[];
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-leases-'));
  readonly #files: readonly string[];
  readonly #policy: SpenderOptions['policy'];

  /** Each process has its own options. */
  constructor(options: readonly SpenderOptions[]) {
    const baseMs = Math.floor(machineMs());
    this.#files = options.map((_, number) => join(this.#folder, String(number)));
    this.#policy = options[0].policy;
    this.all = options.map(
      (each, number) => new Spender({ ...each, baseMs, file: this.#files[number] }),
    );
    for (const spender of this.all) spender.start();
  }

  counts(): Counts {
    return sumOf(this.all.map((spender) => spender.counts()));
  }

  /** Kills all processes. Returns what they certainly admitted. */
  async stop(): Promise<{ admitted: number; most: number; over: number }> {
    await Promise.all(this.all.map((spender) => spender.kill()));
    const log = new AdmissionLog();
    let admitted = 0;
    for (const file of this.#files) {
      if (!existsSync(file)) continue;
      const bytes = readFileSync(file);
      const length = Math.floor(bytes.byteLength / 12) * 3;
      const numbers = new Uint32Array(bytes.buffer, bytes.byteOffset, length);
      for (let at = 0; at < length; at += 3) {
        const [fromMs, lengthMs, units] = numbers.subarray(at, at + 3);
        // The log adds 1 ms to the end of an interval.
        log.add(fromMs, fromMs + lengthMs - 1, units);
        admitted += units;
      }
    }
    rmSync(this.#folder, { recursive: true, force: true });
    const { limit, window } = this.#policy;
    return { admitted, ...windowsOver(log.numbers(), window - 1, limit) };
  }
}
