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
      this.complain(`error: Expected an output that can be written, got ${error.code}`);
      process.exit(CANNOT);
    });
  }

  get errorsAreSeen(): boolean {
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

  /** On the other stream as it stands, for what is drawn over again. */
  sketch(text: string): void {
    this.#stderr.write(text);
  }

  /** On the other stream, so that what is piped on stays clean. */
  complain(text: string): void {
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

const WHOLE = new Intl.NumberFormat('en');

/** `1,234,567` */
export const numberText = (value: number): string => WHOLE.format(value);

/** `1,000 of 100,000 entries shown` */
export const shownText = (shown: number, all: number): string =>
  `${numberText(shown)} of ${numberText(all)} entries shown`;

/** `1 file`, `2 files`; `1 policy`, `2 policies`. */
export function counted(count: number, word: string): string {
  if (count === 1) return `1 ${word}`;
  return `${count} ${word.endsWith('y') ? `${word.slice(0, -1)}ies` : `${word}s`}`;
}

const SECOND_MS = 1000;
const UNITS: readonly [unit: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', SECOND_MS],
];

/** Rounded up, so that whoever waits as long as it says is never early: `12.3 s`, `2 h 5 min`. */
export function durationText(ms: number): string {
  if (ms < SECOND_MS) return `${ms} ms`;
  if (ms <= 100 * SECOND_MS) return `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`;
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs);
  const [[unit, unitMs], [lesser, lesserMs]] = UNITS.slice(at);
  const all = Math.ceil(ms / lesserMs);
  const perUnit = unitMs / lesserMs;
  const rest = all % perUnit;
  const whole = `${Math.floor(all / perUnit)} ${unit}`;
  return rest === 0 ? whole : `${whole} ${rest} ${lesser}`;
}

/** A window as it was chosen, where that is a whole number of a unit: `1 min`, `36 h`. */
export function windowText(ms: number): string {
  const whole = UNITS.find(([, unitMs]) => ms % unitMs === 0);
  return whole === undefined ? durationText(ms) : `${ms / whole[1]} ${whole[0]}`;
}
