/** What is printed, and how: colours for people on a terminal, plain text or JSON for the rest. */
import type { Writable } from 'node:stream';

/** What a command ends with. */
export const FINE = 0;
/** Denied, or something that was to be valid is not. */
export const NO = 1;
/** Used wrongly, or nobody could be asked. */
export const CANNOT = 2;
export type ExitCode = typeof FINE | typeof NO | typeof CANNOT;

/** What a person is told before the command ends with a code. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: ExitCode = CANNOT,
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

/** Of terminals that do not say how large they are. */
const USUAL = { columns: 80, rows: 24 };

const COLOURS = { green: '32', red: '31', yellow: '33', bold: '1', dim: '2' } as const;
export type Colour = keyof typeof COLOURS;
export type Paint = (colour: Colour, text: string) => string;

/** `NO_COLOR` with anything in it means none, `FORCE_COLOR` means some, but for 0 and false. */
function hasColours(stream: Stream, { NO_COLOR, FORCE_COLOR }: Environment): boolean {
  if (NO_COLOR) return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return stream.isTTY === true;
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text from elsewhere, such as a key, with nothing in it that a terminal would obey. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (each) => `\\u{${each.codePointAt(0)!.toString(16)}}`);

export class Output {
  readonly #stdout: Stream;
  readonly #stderr: Stream;
  /** Whether a person is looking at what is printed. */
  readonly isTerminal: boolean;
  readonly paint: Paint;
  readonly paintError: Paint;
  /** Whether nobody reads any more what is printed. */
  isGone = false;

  constructor(stdout: Stream, stderr: Stream, environment: Environment) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isTerminal = stdout.isTTY === true;
    this.paint = painter(hasColours(stdout, environment));
    this.paintError = painter(hasColours(stderr, environment));
    // Whoever reads the first lines only, as `head` does, has read enough.
    stdout.on('error', (error: NodeJS.ErrnoException) => {
      this.isGone = true;
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return;
      // What was decided has not been told, so no code may say it.
      this.printError(`error: Expected an output that can be written, got ${error.code}`);
      process.exit(CANNOT);
    });
  }

  get isErrorTerminal(): boolean {
    return this.#stderr.isTTY === true;
  }

  get size(): { readonly columns: number; readonly rows: number } {
    const { columns, rows } = this.#stdout;
    return { columns: columns || USUAL.columns, rows: rows || USUAL.rows };
  }

  /** Calls back whenever the terminal has another size; the answer ends that. */
  onResize(resized: () => void): () => void {
    this.#stdout.on('resize', resized);
    return () => this.#stdout.off('resize', resized);
  }

  /** As it stands, for what is drawn rather than printed. */
  write(text: string): void {
    this.#stdout.write(text);
  }

  /** Much text, no faster than it is read, and no longer than somebody reads it. */
  async pour(pieces: Iterable<string>): Promise<void> {
    const stream = this.#stdout;
    for (const piece of pieces) {
      const hasRoom = stream.write(piece);
      // Pipes are written at once, and only then it shows that nobody reads.
      await new Promise((resolve) => setImmediate(resolve));
      if (!hasRoom && stream.writableNeedDrain && !this.isGone) {
        await room(stream);
      }
      if (this.isGone) return;
    }
  }

  print(text: string): void {
    this.#stdout.write(`${text}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value, undefined, 2));
  }

  /** Writes to standard error as is, for progress that is redrawn. */
  writeError(text: string): void {
    this.#stderr.write(text);
  }

  printError(text: string): void {
    this.#stderr.write(`${text}\n`);
  }
}

/** Waits until a stream takes more, or is closed and never will. */
const room = (stream: Stream): Promise<void> =>
  new Promise((resolve) => {
    const heard = (): void => {
      for (const name of ['drain', 'close']) stream.off(name, heard);
      resolve();
    };
    for (const name of ['drain', 'close']) stream.on(name, heard);
  });

const painter =
  (isOn: boolean): Paint =>
  (colour, text) =>
    isOn ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text;

/** Columns as wide as their widest cell; the last one is as long as it likes. */
export function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  return rows.map((row) =>
    row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at]))).join('  '),
  );
}
