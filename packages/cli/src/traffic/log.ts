/** What all commands do that read logs: options, the reading, and what is wrong with either. */

import { InvalidArgumentError, Option } from 'commander';
import { definePolicy, SluiceError, systemClock } from 'sluice';
import { ConfigError } from 'sluice-server/configured';
import {
  type CostSource,
  type Entry,
  FORMAT_NAMES,
  type FormatName,
  LogError,
  LogReader,
  type LogReport,
  PARTS,
  type Part,
} from 'sluice-traffic';
import { counted, countText, exactTimeText } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { CANNOT, type ExitCode, Failure, type Output, visible } from '../output.ts';
import { problemLines } from '../problems.ts';
import { Progress, readingText } from './progress.ts';
import { cut, LABEL_COLUMNS, LINE_COLUMNS, labelled, wrapped } from './text.ts';

export interface LogOptions {
  readonly format?: FormatName;
  readonly column?: Readonly<Partial<Record<Part, string>>>;
  readonly json?: boolean;
}

function columnValue(text: string, before: LogOptions['column'] = {}): LogOptions['column'] {
  const [, part, name] = /^([a-z]+)=(.+)$/.exec(text) ?? [];
  if (PARTS.includes(part as Part)) return { ...before, [part]: name };
  throw new InvalidArgumentError(`Expected PART=NAME, where PART is one of ${PARTS.join(', ')}.`);
}

export const logOptions = (): readonly Option[] => [
  new Option('--format <format>', 'of the log (default: found out)').choices(FORMAT_NAMES),
  new Option(
    '--column <mapping>',
    'where JSON lines or CSV have what, such as time=when',
  ).argParser(columnValue),
  new Option('--json', 'print the result as JSON'),
];

/** What `--limit` says: `100/1m`. */
export function limitOf(text: string): { readonly limit: number; readonly windowMs: number } {
  try {
    return definePolicy('limit', text).params!;
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new Failure(`Expected --limit to be such as 100/1m, got \`${visible(text)}\``);
  }
}

/** Where costs come from. */
export interface CostFacts {
  /** Columns, or members of the JSON; none if one was asked for that no request has. */
  readonly columns: readonly string[];
  /** Requests that say what they cost; each of the others costs 1. */
  readonly read: number;
  /** Those of the unreadable lines that say a cost which is no integer of at least 1. */
  readonly refused: number;
  /** What the first of those says. */
  readonly sample?: string;
}

/** What is said of a log beside what was found in it. */
export interface LogFacts {
  readonly paths: readonly string[];
  readonly format: string;
  readonly lines: number;
  readonly requests: number;
  readonly unreadable: number;
  readonly samples: LogReport['samples'];
  /** Lines that could not be put in order, and were taken at the time reached. */
  readonly late: number;
  /** The same of lines that are far ahead of those around them. */
  readonly early: number;
  /** Only if some request says what it costs, or if a column was named for it. */
  readonly costs?: CostFacts;
}

/** Hears from the entries of logs where those have their costs. */
class CostSources {
  readonly #all = new Set<CostSource>();
  #last: CostSource | undefined = undefined;

  hear(entries: readonly Entry[]): void {
    for (const { costSource } of entries) {
      if (costSource === undefined || costSource === this.#last) continue;
      this.#last = costSource;
      this.#all.add(costSource);
    }
  }

  facts(isAsked: boolean): CostFacts | undefined {
    const used = [...this.#all].filter(({ read, refused }) => read + refused > 0);
    if (used.length === 0 && !isAsked) return undefined;
    const sample = used.find(({ refused }) => refused > 0)?.sample;
    return {
      columns: [...new Set(used.map(({ name }) => name))],
      read: used.reduce((sum, { read }) => sum + read, 0),
      refused: used.reduce((sum, { refused }) => sum + refused, 0),
      ...(sample !== undefined && { sample }),
    };
  }
}

/** A log of which more than this share is out of its order says nothing about windows. */
const MAX_LATE = 0.5;

/**
 * Reads logs to their end, or until `take` says that it has enough. `turn` is what is said before
 * how far it has come, where they are read several times.
 */
export async function readLogs(
  output: Output,
  paths: readonly string[],
  { format, column }: LogOptions,
  // biome-ignore lint/suspicious/noConfusingVoidType: most takers say nothing.
  take: (entries: readonly Entry[]) => boolean | void,
  turn = '',
): Promise<LogFacts> {
  const reader = await LogReader.open(paths, {
    ...(format !== undefined && { format }),
    ...(column !== undefined && { columns: column }),
  });
  const progress = new Progress(output);
  const sinceMs = systemClock.now();
  const { report } = reader;
  const sources = new CostSources();
  try {
    for await (const entries of reader.entries()) {
      sources.hear(entries);
      if (take(entries) === true) break;
      progress.show(() => turn + readingText(report, sinceMs));
    }
  } finally {
    progress.end();
  }
  const { lines, unreadable, samples, late, early } = report;
  if (late > MAX_LATE * report.entries) {
    const got = `${counted(late, 'line')} of ${countText(report.entries)} that come too late`;
    throw new LogError(
      `Expected ${paths.map(visible).join(', ')} in the order of time, got ${got}: sort them first`,
    );
  }
  const costs = sources.facts(column?.cost !== undefined);
  return {
    ...{ paths, format: report.format, lines, requests: report.entries },
    ...{ unreadable, samples, late, early },
    ...(costs !== undefined && { costs }),
  };
}

/** `log   access.log, combined` and what is wrong with it. */
export function logLines(
  { paths, format, unreadable, samples, late, early, costs }: LogFacts,
  {
    firstMs,
    lastMs,
  }: { readonly firstMs?: number | undefined; readonly lastMs?: number | undefined },
): readonly string[] {
  const room = LINE_COLUMNS - LABEL_COLUMNS;
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : '';
  const name = paths[0] === '-' ? 'standard input' : paths[0];
  const lines = [`${cut(name, room - more.length - format.length - 2)}${more}, ${format}`];
  if (firstMs !== undefined && lastMs !== undefined) {
    lines.push(`${exactTimeText(firstMs)} to ${exactTimeText(lastMs)} UTC`);
  }
  if (costs !== undefined) lines.push(cut(costText(costs), room));
  if (late > 0) lines.push(`${counted(late, 'line')} too late, taken at the time reached`);
  if (early > 0) {
    lines.push(`${counted(early, 'line')} too far ahead, taken at the time reached`);
  }
  if (unreadable > 0) {
    lines.push(
      `${counted(unreadable, 'line')} could not be read, such as line ${samples[0].line}:`,
    );
    lines.push(cut(samples[0].text, room));
    if (costs !== undefined) lines.push(...refusedLines(costs, room));
  }
  return labelled('log', ...lines);
}

/** `costs from the column tokens` */
export function costText({ columns }: CostFacts): string {
  if (columns.length === 0) return 'no request says what it costs, so each costs 1';
  return `costs from the column${columns.length > 1 ? 's' : ''} ${columns.join(', ')}`;
}

function refusedLines({ refused, sample = '' }: CostFacts, room: number): readonly string[] {
  if (refused === 0) return [];
  const which = `of these ${countText(refused)} with a cost that is no integer of at least 1`;
  return wrapped(`${which}, such as \`${cut(sample, 40)}\``, room);
}

type Run = Command['run'];

/** Has mistakes in logs, files and limits told in words. They are all bad input. */
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
      const lines = problemLines(error.problems, output.isErrorTerminal, output.paintError);
      for (const line of lines) output.printError(line);
      return CANNOT;
    }
  };
