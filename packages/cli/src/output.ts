/** Standard output, standard error, colours and exit codes. */
import type { Writable } from 'node:stream';

export { visible } from 'sluice-traffic/format';

export const EXIT_OK = 0;
/** Denied, or invalid input. */
export const EXIT_DENIED = 1;
/** Usage error, or service unreachable. */
export const EXIT_ERROR = 2;
export type ExitCode = typeof EXIT_OK | typeof EXIT_DENIED | typeof EXIT_ERROR;

/** An expected error: its message is printed, and the command exits with its code. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: ExitCode = EXIT_ERROR,
  ) {
    super(message);
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;
type Stream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** Size of terminals that do not report it. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };

const COLOURS = { green: '32', red: '31', yellow: '33', bold: '1', dim: '2' } as const;
export type Colour = keyof typeof COLOURS;
export type Paint = (colour: Colour, text: string) => string;

/** A non-empty `NO_COLOR` disables colours. `FORCE_COLOR` enables them unless 0 or false. */
function hasColours(stream: Stream, { NO_COLOR, FORCE_COLOR }: Environment): boolean {
  if (NO_COLOR) return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return stream.isTTY === true;
}

export class Output {
  readonly #stdout: Stream;
  readonly #stderr: Stream;
  readonly isTerminal: boolean;
  readonly paint: Paint;
  readonly paintError: Paint;
  /** True once the reader of standard output has closed it. */
  isClosed = false;

  constructor(stdout: Stream, stderr: Stream, environment: Environment) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isTerminal = stdout.isTTY === true;
    this.paint = painter(hasColours(stdout, environment));
    this.paintError = painter(hasColours(stderr, environment));
    stdout.on('error', (error: NodeJS.ErrnoException) => {
      this.isClosed = true;
      // The reader, such as `head`, has read enough.
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return;
      // Exit with an error: the result that the exit code stands for was not printed.
      this.printError(`error: Expected a writable standard output, got ${error.code}`);
      process.exit(EXIT_ERROR);
    });
  }

  get isErrorTerminal(): boolean {
    return this.#stderr.isTTY === true;
  }

  get size(): { readonly columns: number; readonly rows: number } {
    const { columns, rows } = this.#stdout;
    return { columns: columns || DEFAULT_SIZE.columns, rows: rows || DEFAULT_SIZE.rows };
  }

  /** Calls `resized` when the terminal size changes. Returns a function that stops the calls. */
  onResize(resized: () => void): () => void {
    this.#stdout.on('resize', resized);
    return () => this.#stdout.off('resize', resized);
  }

  /** Writes the text without a newline. */
  write(text: string): void {
    this.#stdout.write(text);
  }

  /** Writes chunks with backpressure, until standard output is closed. */
  async writeChunks(pieces: Iterable<string>): Promise<void> {
    const stream = this.#stdout;
    for (const piece of pieces) {
      const hasRoom = stream.write(piece);
      // A write to a closed pipe reports its error in a later turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      if (!hasRoom && stream.writableNeedDrain && !this.isClosed) {
        await drained(stream);
      }
      if (this.isClosed) return;
    }
  }

  print(text: string): void {
    this.#stdout.write(`${text}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value, undefined, 2));
  }

  /** Writes the text to standard error without a newline. */
  writeError(text: string): void {
    this.#stderr.write(text);
  }

  printError(text: string): void {
    this.#stderr.write(`${text}\n`);
  }
}

/** Resolves when a stream has drained or is closed. */
const drained = (stream: Stream): Promise<void> =>
  new Promise((resolve) => {
    const settle = (): void => {
      for (const name of ['drain', 'close']) stream.off(name, settle);
      resolve();
    };
    for (const name of ['drain', 'close']) stream.on(name, settle);
  });

const painter =
  (isOn: boolean): Paint =>
  (colour, text) =>
    isOn ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text;

/** Pads the cells of each column to the widest one, except in the last column. */
export function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  return rows.map((row) =>
    row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at]))).join('  '),
  );
}
