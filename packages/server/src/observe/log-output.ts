/**
 * Standard output as the destination of the log: asynchronous, bounded and dropping. A reader that
 * stops reading, a full disk or a stopped terminal costs lines of the log, never a decision.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import { systemClock } from 'sluice';

/** Maximum bytes of queued lines. Further lines are dropped and counted. */
export const MAX_WAITING_BYTES = 1 << 20;
/**
 * A pipe takes up to this many bytes whole or not at all (POSIX `PIPE_BUF`), so lines of several
 * workers on one pipe do not mix.
 */
const BATCH_BYTES = 4096;

type Done = (error?: Error | null) => void;

/** Writes text and calls back when all of it is written, or with an error. */
export type Sink = (text: string, done: Done) => void;

export class LogOutput {
  readonly #sink: Sink;
  /** Called with the number of dropped lines, as soon as lines are written again. */
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
      if (error) this.#failed(error, lines);
      else this.#wrote();
      this.#writeNext();
    });
  }

  /** Removes and returns whole lines, up to the size that a pipe takes at once. */
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

  #wrote(): void {
    this.#isFailing = false;
    const lost = this.#unreported;
    // Wait until half of the queue is free, so that the report is not dropped itself.
    if (lost === 0 || this.#waitingBytes > MAX_WAITING_BYTES / 2) return;
    this.#unreported = 0;
    this.onDropped(lost);
  }

  /** A full disk is reported once on standard error, and the next line is tried again. */
  #failed({ code }: NodeJS.ErrnoException, lines: number): void {
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

/** Node writes pipes and sockets without blocking; `write` would block one of its four threads. */
function pipeSink(): Sink {
  const { stdout } = process;
  // Each write reports its own error.
  stdout.on('error', () => {});
  return (text, done) => void stdout.write(text, done);
}

/** For files and terminals, which `process.stdout` would write synchronously. */
const fileSink: Sink = (text, done) => {
  const bytes = Buffer.from(text);
  const writeFrom = (at: number): void =>
    write(STDOUT, bytes, at, bytes.length - at, null, (error, written) => {
      // A terminal that another program has set to non-blocking.
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
    // Standard output is closed: each write fails and is counted.
    return false;
  }
}

let shared: LogOutput | undefined;

/** Returns the standard output of this process. */
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
      // A full disk, which has been reported.
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
