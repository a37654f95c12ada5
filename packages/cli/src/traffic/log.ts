/** Options, reading and error handling for the commands that read logs. */

import { InvalidArgumentError, Option } from 'commander';
import { SluiceError, systemClock } from 'sluice';
import { ConfigError, didYouMean } from 'sluice-server/configured';
import {
  type CostSource,
  type Entry,
  FORMAT_NAMES,
  type FormatName,
  LATENESS_BOUND,
  LogError,
  LogReader,
  type LogReport,
  PARTS,
  type Part,
  SORT_BOUND,
} from 'sluice-traffic';
import {
  counted,
  countText,
  durationText,
  exactTimeText,
  percentText,
} from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { durationValue } from '../option-values.ts';
import { EXIT_ERROR, type ExitCode, Failure, type Output, visible } from '../output.ts';
import { problemLines } from '../problems.ts';
import { Progress, readingText } from './progress.ts';
import { sortCommand } from './sort-command.ts';
import { cut, LABEL_COLUMNS, LINE_COLUMNS, labelled, wrapped } from './text.ts';

export interface LogOptions {
  readonly format?: FormatName;
  readonly pattern?: string;
  readonly lateness?: number;
  readonly column?: Readonly<Partial<Record<Part, string>>>;
  readonly json?: boolean;
}

function columnValue(text: string, before: LogOptions['column'] = {}): LogOptions['column'] {
  const [, part, name] = /^([a-z]+)=(.+)$/.exec(text) ?? [];
  if (PARTS.includes(part as Part)) return { ...before, [part]: name };
  throw new InvalidArgumentError(`Expected PART=NAME, where PART is one of ${PARTS.join(', ')}.`);
}

function formatValue(text: string): FormatName {
  const known = FORMAT_NAMES.find((name) => name === text);
  if (known !== undefined) return known;
  const hint = didYouMean(text, FORMAT_NAMES);
  throw new InvalidArgumentError(`Expected one of ${FORMAT_NAMES.join(', ')}${hint}`);
}

export const logOptions = (): readonly Option[] => [
  new Option('--format <format>', 'log format (default: auto-detect)')
    .choices(FORMAT_NAMES)
    .argParser(formatValue),
  new Option(
    '--pattern <pattern>',
    'custom log format: a log_format of nginx, or a regular expression with named groups',
  ),
  new Option(
    '--lateness <duration>',
    'maximum time that a line is behind the newest line before it; sorts in a buffer of ' +
      `${countText(LATENESS_BOUND.lines)} lines (default: unlimited time, ` +
      `${countText(SORT_BOUND.lines)} lines)`,
  ).argParser(durationValue),
  new Option(
    '--column <mapping>',
    'read a field from this column or JSON member, such as time=when; repeatable',
  ).argParser(columnValue),
  new Option('--json', 'print the result as JSON'),
];

/** Where the costs of the requests come from. */
export interface CostFacts {
  /** Columns or JSON members with costs. Empty if no line has the column that `--column` names. */
  readonly columns: readonly string[];
  /** Number of requests with a cost. A request without a cost costs 1. */
  readonly read: number;
  /** Number of lines rejected because their cost is not a positive integer. */
  readonly refused: number;
  /** The first rejected cost. */
  readonly sample?: string;
}

/** Facts about the log itself. */
export interface LogFacts {
  readonly paths: readonly string[];
  readonly format: string;
  readonly lines: number;
  readonly requests: number;
  readonly unreadable: number;
  readonly samples: LogReport['samples'];
  /** Number of lines too late to be sorted. They are replayed with a later time than their own. */
  readonly late: number;
  /**
   * Number of lines more than a day ahead of the lines around them. They are replayed with an
   * earlier time than their own.
   */
  readonly early: number;
  /** True if more than 1 % of the requests were replayed with another time than their own. */
  readonly unreliable: boolean;
  /**
   * Only if `unreliable`: how far the latest line is behind a line before it, and a command that
   * sorts the log.
   */
  readonly maxLateMs?: number;
  readonly sortCommand?: string;
  /** Undefined if no request has a cost and `--column` names no cost column. */
  readonly costs?: CostFacts;
}

/** Collects the cost sources of all entries. */
class CostSources {
  readonly #all = new Set<CostSource>();
  #last: CostSource | undefined = undefined;

  add(entries: readonly Entry[]): void {
    for (const { costSource } of entries) {
      if (costSource === undefined || costSource === this.#last) continue;
      this.#last = costSource;
      this.#all.add(costSource);
    }
  }

  facts(isRequested: boolean): CostFacts | undefined {
    const used = [...this.#all].filter(({ read, refused }) => read + refused > 0);
    if (used.length === 0 && !isRequested) return undefined;
    const sample = used.find(({ refused }) => refused > 0)?.sample;
    return {
      columns: [...new Set(used.map(({ name }) => name))],
      read: used.reduce((sum, { read }) => sum + read, 0),
      refused: used.reduce((sum, { refused }) => sum + refused, 0),
      ...(sample !== undefined && { sample }),
    };
  }
}

/** If a larger share of the lines is replayed with a wrong time, the result is unreliable. */
const MAX_MISPLACED = 0.01;

/**
 * Reads logs to their end, or until `take` returns true. The progress text starts with `label`,
 * which distinguishes the passes of commands that read the logs twice.
 */
export async function readLogs(
  output: Output,
  paths: readonly string[],
  { format, pattern, lateness, column }: LogOptions,
  // biome-ignore lint/suspicious/noConfusingVoidType: most callbacks return nothing.
  take: (entries: readonly Entry[]) => boolean | void,
  label = '',
): Promise<LogFacts> {
  const reader = await LogReader.open(paths, {
    ...(format !== undefined && { format }),
    ...(pattern !== undefined && { pattern }),
    ...(lateness !== undefined && { latenessMs: lateness }),
    ...(column !== undefined && { columns: column }),
  });
  const progress = new Progress(output);
  const sinceMs = systemClock.now();
  const { report } = reader;
  const sources = new CostSources();
  try {
    for await (const entries of reader.entries()) {
      sources.add(entries);
      if (take(entries) === true) break;
      progress.show(() => label + readingText(report, sinceMs));
    }
  } finally {
    progress.end();
  }
  const { lines, unreadable, samples, late, early, maxLateMs } = report;
  const unreliable = late + early > MAX_MISPLACED * report.entries;
  const command = sortCommand(paths, report.firstLine);
  const costs = sources.facts(column?.cost !== undefined);
  return {
    ...{ paths, format: report.format, lines, requests: report.entries },
    ...{ unreadable, samples, late, early, unreliable },
    ...(unreliable && late > 0 && { maxLateMs }),
    ...(unreliable && late > 0 && command !== undefined && { sortCommand: command }),
    ...(costs !== undefined && { costs }),
  };
}

/** Returns a line such as `log access.log, combined`, followed by the problems of the log. */
export function logLines(
  facts: LogFacts,
  {
    firstMs,
    lastMs,
  }: { readonly firstMs?: number | undefined; readonly lastMs?: number | undefined },
): readonly string[] {
  const { paths, format, unreadable, samples, late, early, costs } = facts;
  const room = LINE_COLUMNS - LABEL_COLUMNS;
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : '';
  const name = paths[0] === '-' ? 'standard input' : paths[0];
  const lines = [`${cut(name, room - more.length - format.length - 2)}${more}, ${format}`];
  if (firstMs !== undefined && lastMs !== undefined) {
    lines.push(`${exactTimeText(firstMs)} to ${exactTimeText(lastMs)} UTC`);
  }
  if (costs !== undefined) lines.push(cut(costText(costs), room));
  if (late > 0) lines.push(`${counted(late, 'line')} out of order, replayed with a later time`);
  if (early > 0) {
    lines.push(`${counted(early, 'line')} more than a day ahead, replayed with an earlier time`);
  }
  if (unreadable > 0) {
    lines.push(`${counted(unreadable, 'line')} unreadable, such as line ${samples[0].line}:`);
    lines.push(cut(samples[0].text, room));
    if (costs !== undefined) lines.push(...refusedLines(costs, room));
  }
  return [...labelled('log', ...lines), ...unreliableLines(facts, room)];
}

/** Returns a text such as `3 of 200 lines (1.5%) are replayed at a wrong time`. */
export const unreliableText = ({ late, early, requests }: LogFacts): string =>
  `${countText(late + early)} of ${countText(requests)} lines ` +
  `(${percentText(late + early, requests)}) are replayed at a wrong time`;

/**
 * Returns a warning and a command that sorts the log. The command is on one line, so that users can
 * copy it.
 */
function unreliableLines(facts: LogFacts, room: number): readonly string[] {
  if (!facts.unreliable) return [];
  const { maxLateMs = 0, sortCommand: command } = facts;
  const late = maxLateMs === 0 ? '' : `, up to ${durationText(maxLateMs)} late`;
  const help = maxLateMs === 0 ? '' : ' Sort the log, or try a longer --lateness.';
  const text = `unreliable: ${unreliableText(facts)}${late}.${help}`;
  return [...labelled('warning', ...wrapped(text, room)), ...(command ? [command] : [])];
}

/** Returns a text such as `costs from the column tokens`. */
export function costText({ columns }: CostFacts): string {
  if (columns.length === 0) return 'no request has a cost, so each costs 1';
  return `costs from the column${columns.length > 1 ? 's' : ''} ${columns.join(', ')}`;
}

function refusedLines({ refused, sample = '' }: CostFacts, room: number): readonly string[] {
  if (refused === 0) return [];
  const which = `${countText(refused)} of them with a cost that is not a positive integer`;
  return wrapped(`${which}, such as \`${cut(sample, 40)}\``, room);
}

type Run = Command['run'];

/**
 * Wraps the `run` of a command. Reports errors in logs, configuration files and limits with exit
 * code 2.
 */
export const withLogs =
  (run: Run): Run =>
  async (context: Context, args, given): Promise<ExitCode> => {
    const { output } = context;
    try {
      return await run(context, args, given);
    } catch (error) {
      if (error instanceof LogError || error instanceof SluiceError) {
        throw new Failure(visible(error.message));
      }
      if (!(error instanceof ConfigError)) throw error;
      const { isErrorTerminal, paintError } = output;
      const lines = problemLines(error.problems, isErrorTerminal, paintError, 'error: ');
      for (const line of lines) output.printError(line);
      return EXIT_ERROR;
    }
  };
