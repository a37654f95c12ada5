/** Reads logs: detects the format, parses lines, sorts and merges the entries. */
import type { CostSource, Entry } from './entry.ts';
import { namesColumns } from './formats/csv.ts';
import { type Detected, detect, FORMAT_NAMES, type FormatName } from './formats/detect.ts';
import { parseObject } from './formats/json.ts';
import { type Names, named, type Part, USUAL } from './formats/named.ts';
import { merged } from './merge.ts';
import { DEFAULT_LATENESS_MS, type OrderCounts, Orderer } from './order.ts';
import { LogError, linesOf, nameOf, type Progress, sizeOf } from './source.ts';

export interface ReadOptions {
  /** Default: detected from the first lines of each log. */
  readonly format?: FormatName;
  /** JSON members or CSV columns by field: `{ time: 'when' }`. */
  readonly columns?: Readonly<Partial<Record<Part, string>>>;
  /** How far a line may be behind the newest one. Default 10,000. */
  readonly latenessMs?: number;
}

export interface UnreadableLine {
  readonly path: string;
  /** Line number, from 1. */
  readonly line: number;
  /** The start of the line, with control characters escaped. */
  readonly text: string;
}

/** Counts so far. Each line is one of `entries`, `unreadable`, `blank` or `heading`. */
export interface LogReport extends OrderCounts {
  readonly progress: Progress;
  /** All formats, if logs differ. */
  format: string;
  lines: number;
  entries: number;
  unreadable: number;
  blank: number;
  heading: number;
  /** The first unreadable lines. */
  readonly samples: UnreadableLine[];
  /** Times of the entries returned so far. */
  firstMs: number | undefined;
  lastMs: number | undefined;
}

const MAX_SAMPLES = 20;
const MAX_SAMPLE_LENGTH = 200;

/** Non-blank lines used to detect the format, and the most lines searched for them. */
const DETECTED_LINES = 100;
const MAX_UNDETECTED = 10_000;

const COLUMN_HINT = '. Name the columns, such as --column time=when --column client=ip';

const isBlank = (line: string): boolean => !(line.charCodeAt(0) > 32) && line.trim() === '';

/** Escapes control characters: lines contain untrusted text. */
const sampleOf = (line: string): string =>
  line
    .slice(0, MAX_SAMPLE_LENGTH)
    .replace(
      /\p{Cc}/gu,
      (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );

const emptyReport = (progress: Progress): LogReport => ({
  ...{ progress, format: '', lines: 0, entries: 0, unreadable: 0, blank: 0, heading: 0 },
  ...{ samples: [], moved: 0, late: 0, early: 0, gaps: 0, firstMs: undefined, lastMs: undefined },
});

/** The log of one path. */
class OneLog {
  fromMs = Number.NEGATIVE_INFINITY;
  readonly #path: string;
  readonly #options: ReadOptions;
  readonly #names: Names;
  readonly #report: LogReport;
  #detected: Detected | undefined = undefined;
  #line = 0;

  constructor(path: string, options: ReadOptions, report: LogReport) {
    this.#path = path;
    this.#options = options;
    this.#names = named(USUAL, options.columns ?? {});
    this.#report = report;
  }

  async *entries(): AsyncGenerator<readonly Entry[]> {
    const orderer = new Orderer(this.#report, this.#options.latenessMs);
    for await (const lines of this.#detectedLines()) {
      const ordered = orderer.add(this.#read(lines));
      if (ordered.length > 0) yield ordered;
    }
    const rest = orderer.end();
    if (rest.length > 0) yield rest;
  }

  /** Resolves to a lower bound of the times in the log. */
  async startMs(): Promise<number> {
    for await (const lines of this.#detectedLines()) {
      const entries = this.#read(lines);
      if (entries.length === 0) continue;
      const earliestMs = entries.reduce((least, { timeMs }) => Math.min(least, timeMs), Infinity);
      return earliestMs - (this.#options.latenessMs ?? DEFAULT_LATENESS_MS);
    }
    return Number.NEGATIVE_INFINITY;
  }

  /** Buffers lines until there are enough to detect the format. */
  async *#detectedLines(): AsyncGenerator<readonly string[]> {
    let held: string[] = [];
    for await (const lines of linesOf(this.#path, this.#report.progress)) {
      if (this.#detected !== undefined) {
        yield lines;
        continue;
      }
      held = held.concat(lines);
      const nonBlank = held.filter((line) => !isBlank(line));
      const isEnough = nonBlank.length >= DETECTED_LINES || held.length >= MAX_UNDETECTED;
      if (nonBlank.length > 0 && !isEnough) continue;
      if (nonBlank.length > 0) this.#detect(nonBlank.slice(0, DETECTED_LINES));
      yield held;
      held = [];
    }
    if (held.length === 0) return;
    this.#detect(held.filter((line) => !isBlank(line)).slice(0, DETECTED_LINES));
    yield held;
  }

  get costSource(): CostSource | undefined {
    return this.#detected?.format.costSource;
  }

  #read(lines: readonly string[]): Entry[] {
    const report = this.#report;
    const { format, heading } = this.#detected ?? {};
    const entries: Entry[] = [];
    for (const line of lines) {
      this.#line++;
      if (isBlank(line)) report.blank++;
      else if (line === heading) report.heading++;
      else {
        const entry = format?.read(line);
        if (entry === undefined) this.#unreadable(line);
        else entries.push(entry);
      }
    }
    report.lines += lines.length;
    report.entries += entries.length;
    return entries;
  }

  #unreadable(line: string): void {
    const { samples } = this.#report;
    this.#report.unreadable++;
    if (samples.length >= MAX_SAMPLES) return;
    samples.push({ path: this.#path, line: this.#line, text: sampleOf(line) });
  }

  #detect(first: readonly string[]): void {
    this.#detected = detect(first, this.#options.format, this.#names);
    if (this.#detected === undefined) throw this.#unknown(first[0]);
    const { name } = this.#detected.format;
    const known = this.#report.format === '' ? [] : this.#report.format.split(', ');
    this.#report.format = [...new Set([...known, name])].join(', ');
  }

  #unknown(line: string): LogError {
    const isJson = parseObject(line) !== undefined;
    const isCsv = this.#options.format === 'csv';
    const isNamed = isJson || isCsv || namesColumns(line);
    const wanted = isCsv
      ? 'to start with a header line that has a time and a client column'
      : isNamed
        ? 'to have known names for the time and the client'
        : `to be in one of the formats ${FORMAT_NAMES.join(', ')}`;
    const hint = isNamed ? COLUMN_HINT : '';
    const got = `got \`${sampleOf(line)}\`${hint}`;
    return new LogError(`Expected ${nameOf(this.#path)} ${wanted}, ${got}`);
  }
}

export class LogReader {
  readonly report: LogReport;
  readonly #paths: readonly string[];
  readonly #options: ReadOptions;
  readonly #sizes: readonly (number | undefined)[];
  #logs: readonly OneLog[] = [];

  private constructor(
    paths: readonly string[],
    options: ReadOptions,
    sizes: readonly (number | undefined)[],
  ) {
    this.#paths = paths;
    this.#options = options;
    this.#sizes = sizes;
    const bytesTotal = sizes.reduce<number | undefined>(
      (sum, size) => (sum === undefined || size === undefined ? undefined : sum + size),
      0,
    );
    this.report = emptyReport({ bytesRead: 0, bytesTotal });
  }

  /** Throws a `LogError` if a file does not exist. `-` is standard input. */
  static async open(paths: readonly string[], options: ReadOptions = {}): Promise<LogReader> {
    if (paths.length === 0) throw new LogError('Expected the path of a log, got none');
    const again = paths.find((path, place) => paths.indexOf(path) < place);
    if (again !== undefined) {
      throw new LogError(`Expected each log once, got ${nameOf(again)} twice`);
    }
    return new LogReader(paths, options, await Promise.all(paths.map(sizeOf)));
  }

  /**
   * Yields the entries of all logs in batches; times never decrease. Can be called once. Throws a
   * `LogError` if the format is unknown or there are no entries.
   */
  async *entries(): AsyncGenerator<readonly Entry[]> {
    const { report } = this;
    for await (const batch of await this.#all()) {
      report.firstMs ??= batch[0].timeMs;
      report.lastMs = batch[batch.length - 1].timeMs;
      yield batch;
    }
    if (report.entries > 0) return;
    const [sample] = report.samples;
    const isJson = report.format === 'json-lines' && sample?.text.startsWith('{');
    const hint = this.#costHint() ?? (isJson ? COLUMN_HINT : '');
    const got = sample === undefined ? 'none' : `lines such as \`${sample.text}\`${hint}`;
    throw new LogError(
      `Expected ${this.#paths.map(nameOf).join(', ')} to have requests, got ${got}`,
    );
  }

  /** Explains invalid costs, if that is why no line could be read. */
  #costHint(): string | undefined {
    const source = this.#logs.map((log) => log.costSource).find((each) => each?.refused);
    if (source === undefined) return undefined;
    const [name, got] = [source.name, source.sample].map(sampleOf);
    return `. Expected the cost in \`${name}\` to be a positive integer, got \`${got}\``;
  }

  async #all(): Promise<AsyncGenerator<readonly Entry[]>> {
    const logs = this.#paths.map((path) => new OneLog(path, this.#options, this.report));
    this.#logs = logs;
    if (logs.length === 1) return logs[0].entries();
    for (const [at, log] of logs.entries()) log.fromMs = await this.#startOf(at);
    return merged(logs);
  }

  /** A pipe can be read only once, so it is opened first. */
  async #startOf(at: number): Promise<number> {
    if (this.#sizes[at] === undefined) return Number.NEGATIVE_INFINITY;
    const unseen = emptyReport({ bytesRead: 0, bytesTotal: undefined });
    return await new OneLog(this.#paths[at], this.#options, unseen).startMs();
  }
}
