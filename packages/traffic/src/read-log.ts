/** Reads logs: detects the format, parses lines, sorts and merges the entries. */
import type { CostSource, Entry, Format } from './entry.ts';
import { namesColumns } from './formats/csv.ts';
import { detect, FORMAT_NAMES, type FormatName } from './formats/detect.ts';
import { parseObject } from './formats/json.ts';
import { COMMON_NAMES, type Names, type Part, withNames } from './formats/named.ts';
import { PatternError } from './formats/pattern.ts';
import { merged } from './merge.ts';
import { boundOf, type OrderCounts, Orderer, SORT_BOUND, setTime } from './order.ts';
import { LogError, linesOf, nameOf, type Progress, sizeOf } from './source.ts';

export interface ReadOptions {
  /** Log format. Default: detected from the first lines of each log. */
  readonly format?: FormatName;
  /** Names of the JSON members or CSV columns by field, such as `{ time: 'when' }`. */
  readonly columns?: Readonly<Partial<Record<Part, string>>>;
  /** A `log_format` of nginx, or a regular expression with named groups. Replaces `format`. */
  readonly pattern?: string;
  /**
   * Maximum time that a line may be behind the newest line before it. If it is set, up to 1,000,000
   * lines are buffered for sorting. Default: unlimited, with up to 200,000 buffered lines.
   */
  readonly latenessMs?: number;
}

export interface UnreadableLine {
  readonly path: string;
  /** Line number, from 1. */
  readonly line: number;
  /** The start of the line, with control characters escaped. */
  readonly text: string;
}

/**
 * Counts of the lines read so far. Each line is counted as one of `entries`, `unreadable`, `blank`
 * or `heading`.
 */
export interface LogReport extends OrderCounts {
  readonly progress: Progress;
  /** Name of the log format. If the logs differ, the names of all formats, separated by commas. */
  format: string;
  lines: number;
  entries: number;
  unreadable: number;
  blank: number;
  heading: number;
  /** The first unreadable lines. */
  readonly samples: UnreadableLine[];
  /** Times of the first and the last entry yielded so far. */
  firstMs: number | undefined;
  lastMs: number | undefined;
  /** Maximum time that a late line was behind the newest line before it. */
  maxLateMs: number;
  /** The first readable line. */
  firstLine: string;
}

/**
 * Without `latenessMs`, a log may have entries up to this long before the entries of its first
 * lines.
 */
const START_LATENESS_MS = 3_600_000;

/** Maximum number of logs that are opened at once. */
const MAX_OPEN = 64;

const MAX_SAMPLES = 20;
const MAX_SAMPLE_LENGTH = 200;

/** Number of non-blank lines that are used to detect the format. */
const DETECTED_LINES = 100;
/** After this number of lines, the format is detected even if fewer of them are not blank. */
const MAX_UNDETECTED = 10_000;

const PATTERN_HINT = '. For another format, use --pattern with the log_format of nginx';
const COLUMN_HINT = '. Name the columns, such as --column time=when --column client=ip';

const isBlank = (line: string): boolean => !(line.charCodeAt(0) > 32) && line.trim() === '';

/** Returns the start of a line with control characters escaped, because the text is untrusted. */
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
  ...{ maxLateMs: 0, firstLine: '' },
});

/** Reads the log of one path. */
class OneLog {
  fromMs = Number.NEGATIVE_INFINITY;
  readonly #path: string;
  /** Number of logs that share the memory for sorting. */
  readonly #logs: number;
  readonly #options: ReadOptions;
  readonly #names: Names;
  readonly #report: LogReport;
  #format: Format | undefined = undefined;
  #line = 0;

  constructor(path: string, options: ReadOptions, report: LogReport, logs = 1) {
    this.#path = path;
    this.#logs = logs;
    this.#options = options;
    this.#names = withNames(COMMON_NAMES, options.columns ?? {});
    this.#report = report;
  }

  async *entries(): AsyncGenerator<readonly Entry[]> {
    const { latenessMs } = this.#options;
    const bound = boundOf(this.#logs, latenessMs);
    const orderer = new Orderer(this.#report, { latenessMs, bound });
    for await (const lines of this.#detectedLines()) {
      const bytes = lines.reduce((sum, { length }) => sum + length, 0);
      const ordered = orderer.add(this.#read(lines), bytes);
      if (ordered.length > 0) yield ordered;
    }
    const rest = orderer.end();
    this.#report.maxLateMs = Math.max(this.#report.maxLateMs, orderer.maxLateMs);
    if (rest.length > 0) yield rest;
  }

  /** Resolves to a lower bound of the times in the log. */
  async startMs(): Promise<number> {
    for await (const lines of this.#detectedLines()) {
      const entries = this.#read(lines);
      if (entries.length === 0) continue;
      const earliestMs = entries.reduce((least, { timeMs }) => Math.min(least, timeMs), Infinity);
      return earliestMs - (this.#options.latenessMs ?? START_LATENESS_MS);
    }
    return Number.NEGATIVE_INFINITY;
  }

  /** Yields the lines of the log. Buffers the first lines until the format is detected. */
  async *#detectedLines(): AsyncGenerator<readonly string[]> {
    let held: string[] = [];
    for await (const lines of linesOf(this.#path, this.#report.progress)) {
      if (this.#format !== undefined) {
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
    return this.#format?.costSource;
  }

  #read(lines: readonly string[]): Entry[] {
    const report = this.#report;
    const format = this.#format;
    const entries: Entry[] = [];
    for (const line of lines) {
      this.#line++;
      if (isBlank(line)) report.blank++;
      else if (format?.isHeading?.(line)) report.heading++;
      else {
        const entry = format?.read(line);
        if (entry === undefined) this.#unreadable(line);
        else {
          if (report.firstLine === '') report.firstLine = line;
          entries.push(entry);
        }
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
    const { format, pattern } = this.#options;
    try {
      this.#format = detect(first, { name: format, names: this.#names, pattern });
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      throw new LogError(`Expected the pattern to have ${error.message}`);
    }
    if (this.#format === undefined) throw this.#unknown(first[0]);
    const { name } = this.#format;
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
    const hint = isNamed ? COLUMN_HINT : PATTERN_HINT;
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

  /** Opens logs. Throws a `LogError` if a file does not exist. `-` is standard input. */
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
      this.#countLate(batch);
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

  /**
   * Counts entries earlier than the entry before them as late, and sets their time to that of the
   * entry before. They occur if a log has entries before its estimated start time, because the log
   * was then opened too late.
   */
  #countLate(batch: readonly Entry[]): void {
    const { report } = this;
    let reachedMs = report.lastMs ?? Number.NEGATIVE_INFINITY;
    for (const entry of batch) {
      if (entry.timeMs < reachedMs) {
        report.late++;
        report.maxLateMs = Math.max(report.maxLateMs, reachedMs - entry.timeMs);
        setTime(entry, reachedMs);
      }
      reachedMs = entry.timeMs;
    }
  }

  /** Returns a hint if lines were rejected because of their cost. */
  #costHint(): string | undefined {
    const source = this.#logs.map((log) => log.costSource).find((each) => each?.refused);
    if (source === undefined) return undefined;
    const [name, got] = [source.name, source.sample].map(sampleOf);
    return `. Expected the cost in \`${name}\` to be a positive integer, got \`${got}\``;
  }

  async #all(): Promise<AsyncGenerator<readonly Entry[]>> {
    const { length } = this.#paths;
    const logs = this.#paths.map((path) => new OneLog(path, this.#options, this.report, length));
    this.#logs = logs;
    if (length === 1) return logs[0].entries();
    // If all logs fit in memory, open them at once: their estimated starts are not needed.
    const { bytesTotal = Infinity } = this.report.progress;
    if (bytesTotal <= SORT_BOUND.bytes && length <= MAX_OPEN) return merged(logs);
    for (const [at, log] of logs.entries()) log.fromMs = await this.#startOf(at);
    return merged(logs);
  }

  /**
   * Resolves to the estimated start time of a log. For a pipe, resolves to -Infinity, so that
   * `merged` opens it first: a pipe can be read only once.
   */
  async #startOf(at: number): Promise<number> {
    if (this.#sizes[at] === undefined) return Number.NEGATIVE_INFINITY;
    const unseen = emptyReport({ bytesRead: 0, bytesTotal: undefined });
    return await new OneLog(this.#paths[at], this.#options, unseen).startMs();
  }
}
