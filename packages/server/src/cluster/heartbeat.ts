/**
 * Heartbeats: each process of a service sends one to the supervisor four times per second. The
 * supervisor kills and replaces a process that stays silent, because a process that is stopped or
 * that loops never exits by itself.
 */
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { monotonicMs } from '../clock.ts';

export const BEAT_MS = 250;
/** A worker that is silent for this long gets no new connections. If it is stopped it is killed. */
export const SUSPECT_MS = 3 * BEAT_MS;
/** A process that is silent for this long is killed, unless it only waits for a processor. */
export const HUNG_MS = 2000;
/** Silent for this long it is killed in any case. One that is starting loads its modules first. */
export const HUNG_STARVED_MS = 10_000;

/** Sends heartbeats for as long as the process runs. `stateOf` is sent along. */
export function sendHeartbeats(stateOf: () => object = () => ({})): void {
  const beat = (): void => {
    systemClock.schedule(BEAT_MS, beat);
    // Without a supervisor the process exits.
    if (process.connected) process.send?.({ kind: 'alive', ...stateOf() }, () => {});
  };
  beat();
}

export const isHeartbeat = (message: unknown): message is Readonly<Record<string, unknown>> =>
  isRecord(message) && message.kind === 'alive';

export interface Watched {
  readonly heardMs: number;
  /** Counts as heard from now. */
  excuse(): void;
  /** Called again and again while no heartbeat comes. */
  silent(silentMs: number): void;
}

/** Finds the processes that are silent for too long. */
export class Watchdog {
  readonly #watched: () => readonly Watched[];
  #cancel: () => void = () => {};

  constructor(watched: () => readonly Watched[]) {
    this.#watched = watched;
  }

  start(): void {
    const dueMs = monotonicMs() + BEAT_MS;
    this.#cancel = systemClock.schedule(BEAT_MS, () => {
      this.#look(monotonicMs() - dueMs);
      this.start();
    });
  }

  stop(): void {
    this.#cancel();
  }

  #look(lateMs: number): void {
    for (const each of this.#watched()) {
      const silentMs = monotonicMs() - each.heardMs;
      // If this process was held up itself, their heartbeats lie unread in its sockets.
      if (lateMs > BEAT_MS) each.excuse();
      else if (silentMs > SUSPECT_MS) each.silent(silentMs);
    }
  }
}
