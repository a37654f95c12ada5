/** Standard output, standard error, colours and exit codes. */
import type { Writable } from 'node:stream';

export { visible } from 'sluice-traffic/format';

export const EXIT_OK = 0;
/** A request was denied, or the input is invalid. */
export const EXIT_DENIED = 1;
/** The command was used incorrectly, or the service is unreachable. */
export const EXIT_ERROR = 2;
export type ExitCode = typeof EXIT_OK | typeof EXIT_DENIED | typeof EXIT_ERROR;

/** An expected error. The program prints its message without a stack, and exits with its code. */
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

/** Assumed size of a terminal that does not report its size. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };

const COLOURS = { green: '32', red: '31', yellow: '33', bold: '1', dim: '2' } as const;
export type Colour = keyof typeof COLOURS;
export type Paint = (colour: Colour, text: string) => string;

/**
 * Returns true if the stream gets colours. A non-empty `NO_COLOR` disables them. `FORCE_COLOR`
 * enables them, unless it is `0` or `false`.
 */
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
      // The reader, such as `head`, has closed the pipe because it needs no more text.
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return;
      // Exit with an error, because the result was not printed.
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

  /** Writes chunks with backpressure. Stops if standard output is closed. */
  async writeChunks(pieces: Iterable<string>): Promise<void> {
    const stream = this.#stdout;
    for (const piece of pieces) {
      const hasRoom = stream.write(piece);
      // If the pipe is closed, the error of the write is emitted in a later turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      if (!hasRoom && stream.writableNeedDrain && !this.isClosed) {
        await waitForDrain(stream);
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

/** Resolves when the stream has drained or is closed. */
const waitForDrain = (stream: Stream): Promise<void> =>
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

/** Joins the cells of each row. Pads the cells of each column except the last to equal width. */
export function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  return rows.map((row) =>
    row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at]))).join('  '),
  );
}
