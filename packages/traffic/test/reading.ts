/** Shared by tests of logs: samples with their expected fields, and temporary files. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Entry } from '../src/entry.ts';
import { LogReader, type LogReport, type ReadOptions } from '../src/read-log.ts';

/** Number of property cases; `npm run properties` sets a higher one. */
export const RUNS = Number(process.env.PROPERTY_RUNS ?? 120);

export interface Fields {
  readonly timeMs: number;
  readonly client: string;
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly host: string;
  readonly status: number;
  readonly bytes: number;
  readonly user: string;
}

export function fieldsOf(entry: Entry): Fields {
  const { timeMs, client, method, path, search, host, status, bytes, user } = entry;
  return { timeMs, client, method, path, search, host, status, bytes, user };
}

const logFolder = new URL('./logs/', import.meta.url).pathname;

export interface Sample {
  readonly path: string;
  readonly lines: readonly string[];
  /** By the number of the line. */
  readonly entries: ReadonlyMap<number, Fields>;
  readonly unreadable: readonly number[];
}

/** Reads a sample log and the expected fields of its lines. */
export function sample(name: string): Sample {
  const [first, ...rest] = readFileSync(join(logFolder, `${name}.expected.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const entries = rest.map(
    ({ line, time, ...fields }) => [line, { timeMs: Date.parse(time), ...fields }] as const,
  );
  const path = join(logFolder, `${name}.log`);
  const lines = readFileSync(path, 'utf8').replace(/\n$/, '').split('\n');
  return { path, lines, entries: new Map(entries), unreadable: first.unreadable };
}

export interface Read {
  readonly entries: readonly Entry[];
  readonly report: LogReport;
}

/** Reads logs completely. */
export async function readAll(
  paths: string | readonly string[],
  options: ReadOptions = {},
): Promise<Read> {
  const reader = await LogReader.open([paths].flat(), options);
  const entries: Entry[] = [];
  for await (const batch of reader.entries()) entries.push(...batch);
  return { entries, report: reader.report };
}

/** Creates a folder that is deleted after the test. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-traffic-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Creates a file that is deleted after the test. */
export function makeFile(content: string | Uint8Array, name = 'access.log'): string {
  const path = join(makeFolder(), name);
  writeFileSync(path, content);
  return path;
}

export const START_MS = Date.parse('2026-10-10T11:55:36Z');

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Returns a line of the combined format with milliseconds in its time. */
export function combinedLine(timeMs: number, client = '192.0.2.1', path = '/'): string {
  const [year, month, day, clock] = new Date(timeMs).toISOString().split(/[-TZ]/);
  const time = `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000`;
  return `${client} - - [${time}] "GET ${path} HTTP/1.1" 200 12 "-" "curl/8.5.0"`;
}

export const sumOfLines = ({ entries, unreadable, blank, heading }: LogReport): number =>
  entries + unreadable + blank + heading;
