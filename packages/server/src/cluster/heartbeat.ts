/**
 * Heartbeats: each process of a service sends one to the supervisor ten times per second. The
 * supervisor kills and replaces a process that stays silent, because a stopped or looping process
 * never exits by itself.
 */
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { monotonicMs } from '../clock.ts';

export const BEAT_MS = 100;
/** A worker that is silent for this long gets no new connections. If it is stopped it is killed. */
export const SUSPECT_MS = 3 * BEAT_MS;
/** A process that is silent for this long is killed, unless it only waits for a processor. */
export const HUNG_MS = 2000;
/** Limit for a process that waits for a processor, or is starting: it loads its modules first. */
export const HUNG_STARVED_MS = 10_000;
/** If the watchdog runs this late, unread heartbeats may lie in the sockets of its process. */
const LATE_MS = 250;

/** Sends heartbeats for as long as the process runs, with the fields that `stateOf` returns. */
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
  /** Monotonic time of the last heartbeat. */
  readonly lastBeatMs: number;
  /** Restarts the silence from now. */
  markAlive(): void;
  /** Called every `BEAT_MS` during a silence longer than `SUSPECT_MS`. */
  onSilence(silentMs: number): void;
}

export class Watchdog {
  readonly #watched: () => readonly Watched[];
  #cancel: () => void = () => {};

  constructor(watched: () => readonly Watched[]) {
    this.#watched = watched;
  }

  start(): void {
    const dueMs = monotonicMs() + BEAT_MS;
    this.#cancel = systemClock.schedule(BEAT_MS, () => {
      this.#check(monotonicMs() - dueMs);
      this.start();
    });
  }

  stop(): void {
    this.#cancel();
  }

  #check(lateMs: number): void {
    for (const each of this.#watched()) {
      const silentMs = monotonicMs() - each.lastBeatMs;
      if (lateMs > LATE_MS) each.markAlive();
      else if (silentMs > SUSPECT_MS) each.onSilence(silentMs);
    }
  }
}
