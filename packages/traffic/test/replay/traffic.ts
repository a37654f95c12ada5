/** Random traffic for tests, the same for the same seed, and logs of it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { Entry } from '../../src/entry.ts';
import { LogReader } from '../../src/read-log.ts';

export interface MadeRequest {
  readonly timeMs: number;
  readonly client: string;
  readonly path?: string;
  readonly cost?: number | undefined;
}

/** Returns a generator of numbers from 0 to 1. */
export function randomFrom(seed: number): () => number {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);

/** Numbers of steady clients and of clients with bursts. */
const STEADY = 8;
const BURSTING = 30;

/**
 * Returns requests over `spanS` seconds: a few steady clients, some with bursts around every tenth
 * minute, and many with few requests. Times are whole seconds, as in most logs.
 */
export function madeTraffic(seed: number, count: number, spanS: number): readonly MadeRequest[] {
  const random = randomFrom(seed);
  const rare = (): number => STEADY + BURSTING + random() ** 2 * (count / 20);
  const all = Array.from({ length: count }, () => {
    const kind = random();
    const client =
      kind < 0.4 ? random() * STEADY : kind < 0.7 ? STEADY + random() * BURSTING : rare();
    const number = Math.floor(client);
    const isBursting = number >= STEADY && number < STEADY + BURSTING;
    const at = random() * spanS;
    const burst = Math.round(at / 600) * 600 + Math.floor(random() * 9) - 4;
    const second = Math.max(0, isBursting ? burst : Math.floor(at));
    const path = `/items/${Math.floor(random() * 99)}`;
    return { timeMs: START_MS + 1000 * second, client: addressOf(number, random), path };
  });
  return all.sort((a, b) => a.timeMs - b.timeMs);
}

/** Every seventh client uses three addresses of an IPv6 network. */
function addressOf(number: number, random: () => number): string {
  if (number % 7 !== 0) return `198.51.${number >> 8}.${number & 255}`;
  return `2001:db8:${(1 + number).toString(16)}::${1 + Math.floor(random() * 3)}`;
}

/** Adds costs: most are low, a few above most limits. */
export function withCosts(requests: readonly MadeRequest[], seed: number): readonly MadeRequest[] {
  const random = randomFrom(seed);
  return requests.map((each) => ({ ...each, cost: 1 + Math.floor(random() ** 6 * 40) }));
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

export function combinedLine({ timeMs, client, path = '/' }: MadeRequest): string {
  const [date, clock] = new Date(timeMs).toISOString().split('T');
  const [year, month, day] = date.split('-');
  const stamp = `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock.slice(0, 8)} +0000`;
  return `${client} - - [${stamp}] "GET ${path} HTTP/1.1" 200 5 "-" "-"`;
}

/** Creates a folder for logs that is deleted after the tests of a file. */
export function logFolder(): (name: string, requests: readonly MadeRequest[]) => string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-traffic-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (name, requests) => {
    const path = join(folder, name);
    writeFileSync(path, `${requests.map(combinedLine).join('\n')}\n`);
    return path;
  };
}

/** Reads a log and passes all its entries to `take`. */
export async function readAll(path: string, take: (entries: readonly Entry[]) => void) {
  const reader = await LogReader.open([path]);
  for await (const batch of reader.entries()) take(batch);
  return reader.report;
}

/** Creates entries without a log, whose times need not be whole seconds. */
export const entriesOf = (requests: readonly MadeRequest[]): readonly Entry[] =>
  requests.map(({ timeMs, client, path = '/', cost }) => ({
    ...{
      timeMs,
      client,
      method: 'GET',
      path,
      search: '',
      host: '',
      status: 200,
      bytes: 0,
      user: '',
      cost,
    },
    field: () => undefined,
  }));
