/**
 * If a process sends no heartbeats, the supervisor uses this module to find out whether the process
 * hangs or only waits for CPU time. On an overloaded machine a process may not run for seconds, and
 * replacing it would add to the load.
 */
import { readFileSync } from 'node:fs';
import { monotonicMs } from '../clock.ts';

/** Unit of the CPU times in /proc/PID/stat: 1/100 s on all usual architectures. */
const TICK_MS = 10;
/** A runnable process that gets at most this share of a CPU is starved. */
const STARVED_SHARE = 0.5;

interface Sample {
  readonly atMs: number;
  /** `R` runnable, `T` stopped, `t` stopped by a debugger, `S` sleeping. */
  readonly state: string;
  /** CPU time that the process has used since its start. */
  readonly cpuMs: number;
}

/** Returns undefined if the system has no /proc or the process has exited. */
function readSample(pid: number): Sample | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The process name, in parentheses, may itself contain parentheses and spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const cpuMs = (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    return { atMs: monotonicMs(), state: fields[0], cpuMs };
  } catch {
    return undefined;
  }
}

/**
 * Reads the state of one process. The supervisor creates a `ProcessState` when a heartbeat is
 * overdue. On systems without /proc, all methods return false.
 */
export class ProcessState {
  readonly #pid: number;
  #first: Sample | undefined = undefined;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** Whether SIGSTOP or a debugger has stopped the process. */
  isStopped(): boolean {
    return /^[Tt]$/.test(readSample(this.#pid)?.state ?? '');
  }

  /**
   * Whether the process is runnable and has used at most half of a CPU since the first call of
   * `isStarved`. The first call has no earlier sample, so it returns whether the process is
   * runnable.
   */
  isStarved(): boolean {
    const now = readSample(this.#pid);
    this.#first ??= now;
    if (now === undefined || this.#first === undefined || now.state !== 'R') return false;
    const { atMs, cpuMs } = this.#first;
    return now.cpuMs - cpuMs <= STARVED_SHARE * (now.atMs - atMs);
  }
}
