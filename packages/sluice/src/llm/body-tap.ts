/**
 * Passes the body of a response to the caller while a call record measures it. A chunk is read when
 * the caller reads, and passed on unchanged, so the stream is neither buffered nor delayed.
 *
 * The call is settled when the body ends, fails or is cancelled. If the caller does not read the
 * body to the end, the call is settled when the returned stream is garbage collected, or when no
 * chunk was read for `idleTimeoutMs`. The record and the timer must not refer to the returned
 * stream, because it would then never be garbage collected.
 */
import type { Clock } from '../clock.ts';
import type { CallRecord } from './call-record.ts';

interface MeasuredBody {
  readonly record: CallRecord;
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
}

/** Settles a call whose response is no longer read, and closes the connection. */
function abandon({ record, reader }: MeasuredBody): void {
  if (record.end('abandoned')) reader.cancel().catch(() => {});
}

/** Undefined on runtimes without `FinalizationRegistry`. There, only the idle timeout applies. */
const unreadStreams =
  typeof FinalizationRegistry === 'function' ? new FinalizationRegistry(abandon) : undefined;

/** Calls `expire` when `touch` was not called for `timeoutMs`. `touch` starts no new timer. */
class IdleTimer {
  isExpired = false;
  #stop: () => void = () => {};
  #touchedMs: number;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #expire: () => void;

  constructor(clock: Clock, timeoutMs: number, expire: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#expire = expire;
    this.#touchedMs = clock.now();
    this.#schedule(timeoutMs);
  }

  touch(): void {
    this.#touchedMs = this.#clock.now();
  }

  stop(): void {
    this.#stop();
  }

  #schedule(delayMs: number): void {
    this.#stop = this.#clock.schedule(delayMs, () => {
      const leftMs = this.#touchedMs + this.#timeoutMs - this.#clock.now();
      if (leftMs > 0) return this.#schedule(leftMs);
      this.isExpired = true;
      this.#expire();
    });
  }
}

export interface TapContext {
  readonly clock: Clock;
  readonly idleTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** Returns a stream with the chunks of `body`, which `record` measures. */
export function tapBody(
  body: ReadableStream<Uint8Array>,
  record: CallRecord,
  { clock, idleTimeoutMs, signal }: TapContext,
): ReadableStream<Uint8Array> {
  const measured = { record, reader: body.getReader() };
  const { reader } = measured;
  const idle = new IdleTimer(clock, idleTimeoutMs, () => abandon(measured));
  record.onEnd(() => {
    idle.stop();
    unreadStreams?.unregister(measured);
  });
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (idle.isExpired) throw new DOMException('The response was idle', 'TimeoutError');
          idle.touch();
          if (done) {
            record.end('completed');
            controller.close();
          } else {
            record.chunk(value);
            controller.enqueue(value);
          }
        } catch (error) {
          record.end(signal?.aborted ? 'cancelled' : 'cut');
          throw error;
        }
      },
      cancel(reason) {
        record.end('cancelled');
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  unreadStreams?.register(stream, measured, measured);
  return stream;
}
