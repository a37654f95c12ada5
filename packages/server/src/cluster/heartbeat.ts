/**
 * Heartbeats: workers and store processes send one to the supervisor every 100 ms
 * (`sendHeartbeats`). The `Watchdog` of the supervisor reports processes whose heartbeats are
 * overdue. The supervisor kills and replaces them, because a stopped or looping process never
 * exits by itself. If the supervisor exits, its child processes exit too.
 */
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { monotonicMs } from '../clock.ts';

/** Interval of the heartbeats. */
export const BEAT_MS = 100;
/**
 * A worker without a heartbeat for this long gets no new connections. A process that is stopped
 * (SIGSTOP, debugger) is killed after this time.
 */
export const SUSPECT_MS = 3 * BEAT_MS;
/** A process without a heartbeat for this long is killed, unless it only waits for CPU time. */
export const HUNG_MS = 2000;
/** Used instead of `HUNG_MS` for a process that waits for CPU time or still loads its modules. */
export const HUNG_STARVED_MS = 10_000;
/** If the watchdog runs this late, the supervisor may not have read all heartbeats yet. */
const LATE_MS = 250;

/**
 * Sends heartbeats until this process exits. Each heartbeat contains the fields that `stateOf`
 * returns.
 */
export function sendHeartbeats(stateOf: () => object = () => ({})): void {
  const beat = (): void => {
    systemClock.schedule(BEAT_MS, beat);
    // Without a supervisor, `exitWithSupervisor` ends the process.
    if (process.connected) process.send?.({ kind: 'alive', ...stateOf() }, () => {});
  };
  beat();
}

export const isHeartbeat = (message: unknown): message is Readonly<Record<string, unknown>> =>
  isRecord(message) && message.kind === 'alive';

export interface WatchedProcess {
  /** When the last heartbeat was received, as a monotonic time. */
  readonly lastBeatMs: number;
  /** Sets `lastBeatMs` to now. */
  markAlive(): void;
  /** Called every `BEAT_MS` while the last heartbeat is older than `SUSPECT_MS`. */
  onSilence(silentMs: number): void;
}

/** Checks the heartbeats of child processes every `BEAT_MS`. */
export class Watchdog {
  readonly #watched: () => readonly WatchedProcess[];
  #cancel: () => void = () => {};

  constructor(watched: () => readonly WatchedProcess[]) {
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
      // The supervisor itself was paused and may have unread heartbeats. Treat all processes as
      // alive, so that their silence is measured from now.
      if (lateMs > LATE_MS) each.markAlive();
      else if (silentMs > SUSPECT_MS) each.onSilence(silentMs);
    }
  }
}
