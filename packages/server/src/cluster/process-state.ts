/**
 * Distinguishes a silent process that hangs from one that waits for a processor. On an overloaded
 * machine a process may not run for seconds, and replacing it would add to the load.
 */
import { readFileSync } from 'node:fs';
import { monotonicMs } from '../clock.ts';

/** The unit of processor time in /proc, on every architecture. */
const TICK_MS = 10;
/** A runnable process that gets less than this share of a processor is starved. */
const STARVED_SHARE = 0.5;

interface Sample {
  readonly atMs: number;
  /** `R` runnable, `T` stopped, `t` stopped by a debugger, `S` sleeping. */
  readonly state: string;
  readonly usedMs: number;
}

/** Returns undefined where there is no /proc, or no such process. */
function sampleOf(pid: number): Sample | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The process name, in parentheses, may itself contain parentheses and spaces.
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

  /** Whether it is runnable and has been starved since the first call. */
  isStarved(): boolean {
    const now = sampleOf(this.#pid);
    this.#first ??= now;
    if (now === undefined || this.#first === undefined || now.state !== 'R') return false;
    const { atMs, usedMs } = this.#first;
    return now.usedMs - usedMs <= STARVED_SHARE * (now.atMs - atMs);
  }
}
