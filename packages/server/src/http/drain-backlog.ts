/** Graceful shutdown of a listening socket. */
import { monotonicMs } from '../clock.ts';

const QUIET_TURN_MS = 0.5;

/**
 * Resolves when the backlog of a listening socket is empty, or after `timeoutMs`. Closing a socket
 * resets the connections in its backlog, whose clients consider themselves connected. Each turn of
 * the event loop accepts some, so this waits for a short turn in which `accepted` did not change.
 * A long turn proves nothing: clients may have connected during it.
 */
export async function drainBacklog(
  accepted: () => number,
  timeoutMs: number,
  isBusy: () => boolean = () => false,
): Promise<void> {
  const untilMs = monotonicMs() + timeoutMs;
  for (;;) {
    const startMs = monotonicMs();
    const before = accepted();
    await new Promise(setImmediate);
    const nowMs = monotonicMs();
    const isQuiet = accepted() === before && nowMs - startMs < QUIET_TURN_MS;
    if ((isQuiet && !isBusy()) || nowMs >= untilMs) return;
  }
}
