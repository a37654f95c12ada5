/**
 * Writes the log to standard output, asynchronously and with a bounded queue. If the reader stops
 * reading, the disk is full or the terminal is stopped, log lines are dropped. Decisions never wait
 * for the log.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import { systemClock } from 'sluice';

/** Maximum bytes of queued lines. Further lines are dropped and counted. */
export const MAX_WAITING_BYTES = 1 << 20;
/**
 * Maximum bytes of a write. Up to this size, a write to a pipe is atomic (POSIX `PIPE_BUF`), so
 * lines of several workers on one pipe do not mix.
 */
const BATCH_BYTES = 4096;

type Done = (error?: Error | null) => void;

/** Writes text. Calls `done` when the whole text is written, or with an error. */
export type Sink = (text: string, done: Done) => void;

export class LogOutput {
  readonly #sink: Sink;
  /** Called with the number of dropped lines, when lines are written again. */
  onDropped: (lines: number) => void = () => {};
  /** Changes each line before it is written, for example for a terminal. */
  format: (line: string) => string = (line) => line;
  #waiting: string[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  #dropped = 0;
  #unreported = 0;
  #isFailing = false;
  #flushed: (() => void)[] = [];

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  /** Number of dropped lines since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  write(given: string): void {
    const line = this.format(given);
    const bytes = Buffer.byteLength(line);
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#drop(1);
      return;
    }
    this.#waiting.push(line);
    this.#waitingBytes += bytes;
    if (!this.#isWriting) this.#writeNext();
  }

  /** Resolves to whether all lines are written within `timeoutMs`. */
  flush(timeoutMs: number): Promise<boolean> {
    if (!this.#isWriting) return Promise.resolve(true);
    return new Promise((resolve) => {
      const cancel = systemClock.schedule(timeoutMs, () => resolve(false));
      this.#flushed.push(() => {
        cancel();
        resolve(true);
      });
    });
  }

  /** Removes and returns the queued lines, for a synchronous write at exit. */
  takeWaiting(): string {
    const text = this.#waiting.join('');
    this.#waiting = [];
    this.#waitingBytes = 0;
    return text;
  }

  #drop(lines: number): void {
    this.#dropped += lines;
    this.#unreported += lines;
  }

  #writeNext(): void {
    if (this.#waiting.length === 0) {
      this.#isWriting = false;
      for (const flushed of this.#flushed.splice(0)) flushed();
      return;
    }
    this.#isWriting = true;
    const [text, bytes, lines] = this.#nextBatch();
    this.#sink(text, (error) => {
      this.#waitingBytes = Math.max(0, this.#waitingBytes - bytes);
      if (error) this.#onError(error, lines);
      else this.#onWritten();
      this.#writeNext();
    });
  }

  /** Removes and returns whole lines of at most `BATCH_BYTES`, but at least one line. */
  #nextBatch(): readonly [text: string, bytes: number, lines: number] {
    let bytes = 0;
    let lines = 0;
    for (const line of this.#waiting) {
      const size = Buffer.byteLength(line);
      if (lines > 0 && bytes + size > BATCH_BYTES) break;
      bytes += size;
      lines++;
    }
    return [this.#waiting.splice(0, lines).join(''), bytes, lines];
  }

  #onWritten(): void {
    this.#isFailing = false;
    const lost = this.#unreported;
    // Wait until half of the queue is free, so that the report itself is not dropped.
    if (lost === 0 || this.#waitingBytes > MAX_WAITING_BYTES / 2) return;
    this.#unreported = 0;
    this.onDropped(lost);
  }

  /** Counts the lines as dropped. Reports the first of consecutive errors on standard error. */
  #onError({ code }: NodeJS.ErrnoException, lines: number): void {
    this.#drop(lines);
    const isReported = this.#isFailing;
    this.#isFailing = true;
    // A reader that exits, such as `head`, is not an error.
    if (isReported || code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED') return;
    process.stderr.write(`Log not written (${code}); the service continues.\n`, () => {});
  }
}

const STDOUT = 1;
const AGAIN_MS = 50;

/**
 * Returns a sink for pipes and sockets. `process.stdout` writes to them without blocking, while
 * `fs.write` would block one of the four threads that Node has for files.
 */
function pipeSink(): Sink {
  const { stdout } = process;
  // The callback of each write receives its error, so the event is ignored.
  stdout.on('error', () => {});
  return (text, done) => void stdout.write(text, done);
}

/** A sink for files and terminals, to which `process.stdout` would write synchronously. */
const fileSink: Sink = (text, done) => {
  const bytes = Buffer.from(text);
  const writeFrom = (at: number): void =>
    write(STDOUT, bytes, at, bytes.length - at, null, (error, written) => {
      // EAGAIN: another program has set the terminal to non-blocking.
      if (error?.code === 'EAGAIN') systemClock.schedule(AGAIN_MS, () => writeFrom(at));
      else if (error || at + written >= bytes.length) done(error);
      else writeFrom(at + written);
    });
  writeFrom(0);
};

function isPipe(): boolean {
  try {
    const found = fstatSync(STDOUT);
    return found.isFIFO() || found.isSocket();
  } catch {
    // Standard output is closed: each write fails, and its lines count as dropped.
    return false;
  }
}

let shared: LogOutput | undefined;

/** Returns the log output of this process, which all logs share. */
export function standardOutput(): LogOutput {
  if (shared !== undefined) return shared;
  process.stderr.on('error', () => {});
  if (isPipe()) {
    shared = new LogOutput(pipeSink());
    return shared;
  }
  const output = new LogOutput(fileSink);
  shared = output;
  process.on('exit', () => {
    const rest = output.takeWaiting();
    if (rest === '' || process.stdout.isTTY) return;
    try {
      writeSync(STDOUT, rest);
    } catch {
      // The disk is full. An earlier write has reported it.
    }
  });
  return output;
}

/** Returns the number of log lines that this process dropped. */
export const droppedLogLines = (): number => shared?.dropped ?? 0;

const FLUSH_MS = 1000;

/** Resolves to whether all log lines are written within `timeoutMs`. */
export const flushLog = (timeoutMs = FLUSH_MS): Promise<boolean> =>
  shared?.flush(timeoutMs) ?? Promise.resolve(true);
