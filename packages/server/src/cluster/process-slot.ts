/**
 * The place of one process after the other: each that exits is replaced, after a pause that doubles
 * if it happens again soon. Each exit is logged once.
 */
import { systemClock } from 'sluice';
import type { Logger } from '../observe/log.ts';
import type { Child, Departure } from './child.ts';

/** A process that ran for this long is replaced at once. */
const STEADY_MS = 10_000;
/** The others after a pause, which doubles each time. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;

export interface ProcessSlotOptions<P extends Child> {
  /** What the log calls the process. */
  readonly what: string;
  /** Fields of each line of the log. */
  readonly fields: object;
  readonly log: Logger;
  make(): P;
  /** Resolves when the process serves. */
  begin(child: P): Promise<void>;
  /** Called when the process has exited. */
  gone(child: P): void;
}

export class ProcessSlot<P extends Child> {
  readonly #options: ProcessSlotOptions<P>;
  #child: P | undefined = undefined;
  /** How many exited soon after their start, one after the other. */
  #failures = 0;
  #startError: unknown = undefined;
  #isClosed = false;
  #cancel: () => void = () => {};

  constructor(options: ProcessSlotOptions<P>) {
    this.#options = options;
  }

  /** The process that is there now. */
  get child(): P | undefined {
    return this.#child;
  }

  /** Starts a process. Resolves when it serves. */
  async fill(): Promise<void> {
    const { make, begin } = this.#options;
    const child = make();
    this.#child = child;
    this.#startError = undefined;
    void child.gone.then((departure) => this.#departed(child, departure));
    try {
      await begin(child);
    } catch (error) {
      this.#startError = error;
      child.kill();
      throw error;
    }
  }

  /** Replaces no process any more. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  #departed(child: P, departure: Departure): void {
    this.#child = undefined;
    this.#options.gone(child);
    if (this.#isClosed) return;
    this.#failures = child.ageMs >= STEADY_MS ? 0 : this.#failures + 1;
    const pauseMs =
      this.#failures === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), MAX_PAUSE_MS);
    this.#logDeparture(child, departure, pauseMs);
    this.#cancel = systemClock.schedule(pauseMs, () => void this.#replace());
  }

  #logDeparture({ pid, isServing }: P, departure: Departure, pauseMs: number): void {
    const { what, fields, log } = this.#options;
    const { code, signal, silentMs } = departure;
    const all = { ...fields, pid, pauseMs };
    if (silentMs !== undefined) log.error({ ...all, silentMs }, `${what} not responding, killed`);
    else if (isServing || this.#startError === undefined) {
      log.error({ ...all, code, signal }, `${what} exited`);
    } else log.error({ ...all, err: this.#startError }, `${what} cannot start`);
  }

  async #replace(): Promise<void> {
    const { what, fields, log } = this.#options;
    try {
      await this.fill();
      log.info({ ...fields, pid: this.#child?.pid }, `${what} replaced`);
    } catch {
      // Logged when it has exited, and tried again.
    }
  }
}
