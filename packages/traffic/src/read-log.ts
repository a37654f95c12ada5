/** A log from its bytes to entries in order, with a count of everything that is not one. */
import type { Entry } from './entry.ts';
import { type Detected, detect, FORMAT_NAMES, type FormatName } from './formats/detect.ts';
import { type Members, USUAL } from './formats/json.ts';
import { Orderer } from './order.ts';
import { LogError, linesOf, type Progress, progressOf } from './source.ts';

export interface ReadOptions {
  /** Default: found out from the first lines. */
  readonly format?: FormatName;
  /** Which members or columns have what, for JSON lines and CSV: `{ time: 'when' }`. */
  readonly columns?: Readonly<Partial<Record<keyof Members, string>>>;
  /** How far a line may lie behind the newest one. Default 10,000. */
  readonly latenessMs?: number;
}

export interface UnreadableLine {
  readonly line: number;
  readonly text: string;
}

/** What has been read so far. Every line is in one of `entries`, `unreadable`, `blank`, `heading`. */
export interface LogReport {
  readonly progress: Progress;
  format: string;
  lines: number;
  entries: number;
  unreadable: number;
  blank: number;
  heading: number;
  /** The first few that could not be read. */
  readonly samples: UnreadableLine[];
  /** Put in order, and too late to be. */
  moved: number;
  late: number;
  firstMs: number | undefined;
  lastMs: number | undefined;
}

const MOST_SAMPLES = 10;
const LONGEST_SAMPLE = 200;

/** How many lines are looked at to find the format. */
const DETECTED_LINES = 200;

export class LogReader {
  readonly report: LogReport;
  readonly #paths: readonly string[];
  readonly #options: ReadOptions;
  readonly #members: Members;
  readonly #orderer: Orderer;
  #detected: Detected | undefined = undefined;

  private constructor(paths: readonly string[], options: ReadOptions, progress: Progress) {
    this.#paths = paths;
    this.#options = options;
    const { columns = {}, latenessMs } = options;
    const named = Object.entries(columns).map(([name, column]) => [name, [column]]);
    this.#members = { ...USUAL, ...Object.fromEntries(named) };
    this.#orderer = new Orderer(latenessMs);
    const counts = { lines: 0, entries: 0, unreadable: 0, blank: 0, heading: 0, moved: 0, late: 0 };
    const times = { firstMs: undefined, lastMs: undefined };
    this.report = { progress, format: '', ...counts, samples: [], ...times };
  }

  /** Throws a `LogError` if a path cannot be read. `-` is standard input. */
  static async open(paths: readonly string[], options: ReadOptions = {}): Promise<LogReader> {
    return new LogReader(paths, options, await progressOf(paths));
  }

  /** The entries in order, in batches. */
  async *entries(): AsyncGenerator<readonly Entry[]> {
    const { report } = this;
    for await (const lines of linesOf(this.#paths, report.progress)) {
      const ordered = this.#orderer.add(this.#read(lines));
      report.moved = this.#orderer.moved;
      report.late = this.#orderer.late;
      if (ordered.length > 0) yield this.#seen(ordered);
    }
    const rest = this.#orderer.end();
    if (rest.length > 0) yield this.#seen(rest);
    if (report.lines === 0) throw new LogError(`Expected ${this.#name} to have lines, got none`);
  }

  get #name(): string {
    return this.#paths.map((path) => (path === '-' ? 'standard input' : path)).join(', ');
  }

  #seen(entries: readonly Entry[]): readonly Entry[] {
    this.report.firstMs ??= entries[0].timeMs;
    this.report.lastMs = Math.max(this.report.lastMs ?? 0, entries[entries.length - 1].timeMs);
    return entries;
  }

  #read(lines: readonly string[]): Entry[] {
    const { report } = this;
    this.#detected ??= this.#detect(lines.slice(0, DETECTED_LINES));
    const { format, heading } = this.#detected;
    const entries: Entry[] = [];
    for (const line of lines) {
      report.lines++;
      if (line === '') report.blank++;
      else if (report.lines <= heading) report.heading++;
      else {
        const entry = format.read(line);
        if (entry === undefined) this.#unreadable(line);
        else entries.push(entry);
      }
    }
    report.entries += entries.length;
    return entries;
  }

  #detect(first: readonly string[]): Detected {
    const { format } = this.#options;
    const detected = detect(first, format, this.#members);
    if (detected === undefined) {
      const what =
        format === 'csv'
          ? 'to begin with a line that names its columns, a time and a client among them'
          : `to be in one of the formats ${FORMAT_NAMES.join(', ')}`;
      const came = (first.find((line) => line !== '') ?? '').slice(0, LONGEST_SAMPLE);
      throw new LogError(`Expected ${this.#name} ${what}, got \`${came}\``);
    }
    this.report.format = detected.format.name;
    return detected;
  }

  #unreadable(line: string): void {
    const { report } = this;
    report.unreadable++;
    if (report.samples.length >= MOST_SAMPLES) return;
    report.samples.push({ line: report.lines, text: line.slice(0, LONGEST_SAMPLE) });
  }
}
