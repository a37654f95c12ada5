/**
 * Keeps one process running: a process that exits is replaced, after a pause that doubles if the
 * next one also exits early. Each exit is logged once.
 */
import { systemClock } from 'sluice';
import type { Logger } from '../observe/log.ts';
import type { Child, Exit } from './child.ts';

/** A process that ran for this long is replaced without a pause. */
const STEADY_MS = 5000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;

export interface ProcessSlotOptions<P extends Child> {
  /** Name of the process in log messages. */
  readonly name: string;
  /** Fields of each log line. */
  readonly fields: object;
  readonly log: Logger;
  create(): P;
  /** Resolves when the process serves. */
  start(child: P): Promise<void>;
  onExit(child: P): void;
}

export class ProcessSlot<P extends Child> {
  readonly #options: ProcessSlotOptions<P>;
  #child: P | undefined = undefined;
  /** Consecutive exits soon after the start. */
  #failures = 0;
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

  /** Starts a process. Resolves when it serves. */
  async fill(): Promise<void> {
    const { create, start } = this.#options;
    const child = create();
    this.#child = child;
    this.#startError = undefined;
    void child.exited.then((exit) => this.#exited(child, exit));
    try {
      await start(child);
    } catch (error) {
      this.#startError = error;
      child.kill();
      throw error;
    }
  }

  /** Starts a process after a pause, unless the slot is closed before. */
  fillAfter(pauseMs: number): void {
    this.#schedule(pauseMs, () => {
      // A process that cannot start exits; the exit is logged and starts the next attempt.
      this.fill().catch(() => {});
    });
  }

  /** Removes and returns the process, if it serves. The slot is empty until `fill`. */
  take(): P | undefined {
    const child = this.#child;
    if (!child?.isServing) return undefined;
    this.#child = undefined;
    return child;
  }

  /** Stops replacing. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  #exited(child: P, exit: Exit): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#options.onExit(child);
    if (this.#isClosed) return;
    this.#failures = child.ageMs >= STEADY_MS ? 0 : this.#failures + 1;
    const pauseMs =
      this.#failures === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), MAX_PAUSE_MS);
    this.#logExit(child, exit, pauseMs);
    this.#schedule(pauseMs, () => void this.#replace());
  }

  /** Replaces a start that is scheduled, so that the slot never starts two processes. */
  #schedule(pauseMs: number, start: () => void): void {
    if (this.#isClosed) return;
    this.#cancel();
    this.#cancel = systemClock.schedule(pauseMs, start);
  }

  #logExit({ pid, isServing }: P, exit: Exit, pauseMs: number): void {
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
      // The exit that follows is logged, and starts the next attempt.
    }
  }
}
