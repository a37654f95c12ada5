/**
 * Whether a process that is silent hangs, or only waits for a processor. On a machine with more
 * work than processors a process may get none for seconds, and to kill it would add to the work.
 */
import { readFileSync } from 'node:fs';
import { monotonicMs } from '../clock.ts';

/** The unit of processor time in /proc, on every architecture. */
const TICK_MS = 10;
/** A process that runs has at least this part of the time, or it is starved. */
const RUNNING_PART = 0.5;

interface Sample {
  readonly atMs: number;
  /** `R` if it runs or could run, `T` if it is stopped, `S` if it waits for something. */
  readonly state: string;
  readonly usedMs: number;
}

/** Undefined where the system does not say. */
function sampleOf(pid: number): Sample | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the last bracket may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const usedMs = (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    return { atMs: monotonicMs(), state: fields[0], usedMs };
  } catch {
    return undefined;
  }
}

export class ProcessState {
  readonly #pid: number;
  #first: Sample | undefined = undefined;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** Whether it was stopped, by SIGSTOP or a debugger. */
  isStopped(): boolean {
    return /^[Tt]$/.test(sampleOf(this.#pid)?.state ?? '');
  }

  /** Whether it could run and got little of a processor since the first call. */
  isStarved(): boolean {
    const now = sampleOf(this.#pid);
    this.#first ??= now;
    if (now === undefined || this.#first === undefined || now.state !== 'R') return false;
    const { atMs, usedMs } = this.#first;
    return now.usedMs - usedMs <= RUNNING_PART * (now.atMs - atMs);
  }
}
