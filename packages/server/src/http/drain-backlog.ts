/** Graceful shutdown of a listening socket. */
import { monotonicMs } from '../clock.ts';

const SHORT_TURN_MS = 0.5;

export interface DrainOptions {
  /** Returns the number of connections accepted so far. */
  accepted(): number;
  readonly timeoutMs: number;
  /**
   * If a turn of the event loop takes longer than this, it does not prove that the backlog is
   * empty: further clients may have connected meanwhile. Default 0.5.
   */
  readonly maxTurnMs?: number;
  /** Whether accepted connections still wait to be handed to a worker. Default: never. */
  isBusy?(): boolean;
}

/**
 * Resolves when the backlog of a listening socket is empty, or after `timeoutMs`. Closing the
 * socket earlier would reset the connections in its backlog, although their clients consider
 * themselves connected. Each turn of the event loop accepts some connections, so this function
 * waits for a short turn that accepts none.
 */
export async function drainBacklog(options: DrainOptions): Promise<void> {
  const { timeoutMs, maxTurnMs = SHORT_TURN_MS } = options;
  const untilMs = monotonicMs() + timeoutMs;
  // A signal handler runs in the middle of a turn. The rest of that turn accepts no connections.
  await new Promise(setImmediate);
  for (;;) {
    const startMs = monotonicMs();
    const before = options.accepted();
    await new Promise(setImmediate);
    const nowMs = monotonicMs();
    const isQuiet = options.accepted() === before && nowMs - startMs < maxTurnMs;
    if ((isQuiet && !options.isBusy?.()) || nowMs >= untilMs) return;
  }
}
