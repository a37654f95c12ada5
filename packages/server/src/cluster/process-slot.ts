/**
 * Runs in the supervisor. A slot is the place of one child process, such as worker 3. If the
 * process exits or is killed because it hangs, the slot logs the exit and starts a new process. If
 * the last process ran for at least 5 s, the slot starts the new one at once. Otherwise the slot
 * first waits. The wait doubles with each early exit.
 */
import { systemClock } from 'sluice';
import type { Logger } from '../observe/log.ts';
import type { Child, ExitStatus } from './child.ts';

/** A process that ran for this long is replaced without a pause. */
const STEADY_MS = 5000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;

export interface ProcessSlotOptions<P extends Child> {
  /** Name of the process in log messages. */
  readonly name: string;
  /** Fields that are added to each log line. */
  readonly fields: object;
  readonly log: Logger;
  /** Starts the process. */
  create(): P;
  /** Makes the new process start serving. Resolves when it serves. */
  start(child: P): Promise<void>;
  onExit(child: P): void;
}

export class ProcessSlot<P extends Child> {
  readonly #options: ProcessSlotOptions<P>;
  #child: P | undefined = undefined;
  /** Number of consecutive processes that exited within `STEADY_MS`. */
  #earlyExits = 0;
  #startError: unknown = undefined;
  #isClosed = false;
  #cancel: () => void = () => {};

  constructor(options: ProcessSlotOptions<P>) {
    this.#options = options;
  }

  /** The running process; undefined between an exit and the replacement. */
  get child(): P | undefined {
    return this.#child;
  }

  /** Starts a process. Resolves when it serves; kills it and rejects if it cannot start. */
  async fill(): Promise<void> {
    const { create, start } = this.#options;
    const child = create();
    this.#child = child;
    this.#startError = undefined;
    void child.exited.then((exit) => this.#onExit(child, exit));
    try {
      await start(child);
    } catch (error) {
      this.#startError = error;
      child.kill();
      throw error;
    }
  }

  /** Starts a process after a pause, unless the slot is closed meanwhile. */
  fillAfter(pauseMs: number): void {
    this.#schedule(pauseMs, () => {
      // `#onExit` logs a process that cannot start, and schedules the next attempt.
      this.fill().catch(() => {});
    });
  }

  /** Removes and returns the process if it serves. The slot then stays empty until it is filled. */
  take(): P | undefined {
    const child = this.#child;
    if (!child?.isServing) return undefined;
    this.#child = undefined;
    return child;
  }

  /** From now on, the slot starts no processes. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  #onExit(child: P, exit: ExitStatus): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#options.onExit(child);
    if (this.#isClosed) return;
    this.#earlyExits = child.ageMs >= STEADY_MS ? 0 : this.#earlyExits + 1;
    const exits = this.#earlyExits;
    const pauseMs = exits === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (exits - 1), MAX_PAUSE_MS);
    this.#logExit(child, exit, pauseMs);
    this.#schedule(pauseMs, () => void this.#replace());
  }

  /**
   * Schedules a start. Cancels an earlier scheduled start, so that the slot never runs two
   * processes.
   */
  #schedule(pauseMs: number, start: () => void): void {
    if (this.#isClosed) return;
    this.#cancel();
    this.#cancel = systemClock.schedule(pauseMs, start);
  }

  #logExit({ pid, isServing }: P, exit: ExitStatus, pauseMs: number): void {
    const { name, fields, log } = this.#options;
    const { code, signal, silentMs } = exit;
    const all = { ...fields, pid, pauseMs };
    if (silentMs !== undefined) log.error({ ...all, silentMs }, `${name} not responding, killed`);
    else if (isServing || this.#startError === undefined) {
      log.error({ ...all, code, signal }, `${name} exited`);
    } else log.error({ ...all, err: this.#startError }, `${name} cannot start`);
  }

  async #replace(): Promise<void> {
    const { name, fields, log } = this.#options;
    try {
      await this.fill();
      log.info({ ...fields, pid: this.#child?.pid }, `${name} replaced`);
    } catch {
      // `#onExit` logs the failed start, and schedules the next attempt.
    }
  }
}
