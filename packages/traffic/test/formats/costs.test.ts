/** Valid, missing and invalid costs in log lines. */
import { describe, expect, it } from 'vitest';
import { caddy } from '../../src/formats/caddy.ts';
import { csv, headingOf } from '../../src/formats/csv.ts';
import { detect } from '../../src/formats/detect.ts';
import { jsonLines } from '../../src/formats/json-lines.ts';
import { COMMON_NAMES, withNames } from '../../src/formats/named.ts';
import { makeFile, readAll, sumOfLines } from '../reading.ts';

const TIME = '2026-10-10T11:55:36Z';
const TOKENS = withNames(COMMON_NAMES, { cost: 'tokens' });

const tableOf = (heading: string, names = COMMON_NAMES) => csv(headingOf(heading, names)!, names);
const lineOf = (cost: unknown, more: object = {}): string =>
  JSON.stringify({ time: TIME, client: '192.0.2.1', tokens: cost, ...more });

describe('the cost of a line', () => {
  it.each(['cost', 'Cost', 'request_cost', 'Request Cost'])(
    'the cost is read from the column %s by default',
    (column) => {
      expect(tableOf(`time,client,${column}`).read(`${TIME},192.0.2.1,12`)?.cost).toBe(12);
    },
  );

  it('a named cost column replaces the default columns', () => {
    const table = tableOf('time,client,cost,tokens', TOKENS);
    expect(table.read(`${TIME},192.0.2.1,7,12`)?.cost).toBe(12);
    expect(jsonLines(TOKENS).read(lineOf(12, { cost: 7 }))?.cost).toBe(12);
    expect(jsonLines(TOKENS).read(lineOf(undefined, { cost: 7 }))?.cost).toBeUndefined();
    const within = jsonLines(withNames(COMMON_NAMES, { cost: 'usage.total' }));
    expect(within.read(lineOf(1, { usage: { total: 30 } }))?.cost).toBe(30);
  });

  it.each([
    ...[1, 12, '1', ' 12 ', '007', '5.0', 5.0, 1e3],
    ...[Number.MAX_SAFE_INTEGER, String(Number.MAX_SAFE_INTEGER)],
  ])('the cost %j of a log line is valid', (value) => {
    const entry = jsonLines(TOKENS).read(lineOf(value));
    expect(entry?.cost).toBe(Number(value));
    expect(entry?.costSource).toMatchObject({ name: 'tokens', read: 1, refused: 0 });
  });

  it.each([undefined, null, '', '  ', '-'])(
    'a cost of %j in a log line counts as missing',
    (value) => {
      const format = jsonLines(TOKENS);
      expect(format.read(lineOf(value))).toMatchObject({ client: '192.0.2.1', cost: undefined });
      expect(format.costSource).toMatchObject({ read: 0, refused: 0 });
    },
  );

  it.each([
    ...[0, -1, 0.5, 2.5, 1e300, 2 ** 53, true, false, [3], { a: 1 }],
    ...['0', '-1', '0.5', '1e3', '+5', '1,000', '0x10', 'many', 'NaN', '9007199254740993'],
  ])('a cost of %j makes a log line unreadable', (value) => {
    const format = jsonLines(TOKENS);
    expect(format.read(lineOf(value))).toBeUndefined();
    expect(format.costSource).toMatchObject({ name: 'tokens', read: 0, refused: 1 });
    expect(format.costSource?.sample).toBe(
      typeof value === 'object' ? JSON.stringify(value) : String(value),
    );
  });

  it('formats without a cost column have no costs', () => {
    const entry = tableOf('time,client').read(`${TIME},192.0.2.1`);
    expect(entry).toMatchObject({ cost: undefined, costSource: undefined });
    const request = { client_ip: '192.0.2.1' };
    const line = JSON.stringify({ ts: 1_791_633_336, request, cost: 'a lot' });
    expect(caddy.read(line)).toMatchObject({ client: '192.0.2.1', cost: undefined });
  });

  it('the cost of a line without a client is not counted', () => {
    const format = jsonLines(TOKENS);
    expect(format.read(lineOf(0, { client: '' }))).toBeUndefined();
    expect(format.costSource).toMatchObject({ read: 0, refused: 0 });
  });
});

describe('a log with costs', () => {
  const rows = ['3', '', '0', '12', '1.5', '-', 'x', '2'].map(
    (cost) => `${TIME},192.0.2.1,${cost}`,
  );
  const table = ['time,client,tokens', ...rows, ''].join('\n');

  it('lines with invalid costs are counted and shown, the others are read', async () => {
    const path = makeFile(table);
    const { entries, report } = await readAll(path, { columns: { cost: 'tokens' } });
    expect(entries.map(({ cost }) => cost)).toEqual([3, undefined, 12, undefined, 2]);
    expect(report).toMatchObject({ format: 'csv', entries: 5, unreadable: 3, heading: 1 });
    expect(sumOfLines(report)).toBe(report.lines);
    expect(report.samples.map(({ line }) => line)).toEqual([4, 6, 8]);
    const { costSource } = entries[0];
    expect(costSource).toEqual({ name: 'tokens', read: 3, refused: 3, sample: '0' });
    expect(entries.every((each) => each.costSource === costSource)).toBe(true);
  });

  it('a named cost column that the log lacks leaves all costs undefined', async () => {
    const { entries, report } = await readAll(makeFile(table.replace('tokens', 'cost')), {
      columns: { cost: 'nothing' },
    });
    expect(entries.map(({ cost }) => cost)).toEqual(rows.map(() => undefined));
    expect(report.unreadable).toBe(0);
  });

  it('the format is detected even if every cost is invalid, without counting costs', () => {
    const lines = ['time,client,cost', `${TIME},192.0.2.1,free`, `${TIME},192.0.2.2,0`];
    const found = detect(lines);
    expect(found?.name).toBe('csv');
    expect(found?.costSource).toMatchObject({ read: 0, refused: 0 });
  });

  it('each of several logs has its own cost column', async () => {
    const paths = ['cost', 'request_cost'].map((name) =>
      makeFile(`time,client,${name}\n${TIME},192.0.2.1,5\n`, `${name}.csv`),
    );
    const { entries } = await readAll(paths);
    expect(entries.map(({ costSource }) => costSource?.name).sort()).toEqual([
      'cost',
      'request_cost',
    ]);
  });
});
