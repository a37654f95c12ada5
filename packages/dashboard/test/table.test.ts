import { describe, expect, test } from 'vitest';
import { pageOf } from '../src/view/pager.ts';
import { parseRange } from '../src/view/range.ts';
import { type Column, parseSorting, sortingText, sortRows } from '../src/view/table.ts';

interface Row {
  readonly name: string;
  readonly count: number;
}

const columns: readonly Column<Row>[] = [
  { id: 'name', head: 'Name', cell: ({ name }) => name, sortValue: ({ name }) => name },
  { id: 'count', head: 'Count', cell: ({ count }) => count, sortValue: ({ count }) => count },
  { id: 'plain', head: 'Plain', cell: () => '' },
];
const first = { by: 'count', isDescending: true };
const rows: readonly Row[] = [
  { name: 'policy10', count: 1 },
  { name: 'policy9', count: 3 },
  { name: 'a', count: 1 },
];
const names = (text: string): readonly string[] =>
  sortRows(rows, columns, parseSorting(text, columns, first)).map(({ name }) => name);

describe('sorting', () => {
  test('the sort order of a table round-trips through the address', () => {
    for (const sorting of [{ by: 'name', isDescending: false }, first]) {
      expect(parseSorting(sortingText(sorting), columns, { by: 'x', isDescending: false })).toEqual(
        sorting,
      );
    }
  });

  test.each([undefined, '', '-', 'plain', 'nothing', '__proto__', '--count'])(
    'the invalid sort order %j of a table falls back to the default',
    (text) => expect(parseSorting(text, columns, first)).toBe(first),
  );

  test('names with numbers are sorted by the value of the numbers', () => {
    expect(names('name')).toEqual(['a', 'policy9', 'policy10']);
    expect(names('-name')).toEqual(['policy10', 'policy9', 'a']);
  });

  test('the rows of a table are sorted stably in both directions', () => {
    expect(names('count')).toEqual(['policy10', 'a', 'policy9']);
    expect(names('-count')).toEqual(['policy9', 'policy10', 'a']);
  });
});

describe('a page of rows', () => {
  const all = Array.from({ length: 250 }, (_, at) => at);

  test('a page of a table has at most 100 rows', () => {
    expect(pageOf(all, undefined)).toMatchObject({ from: 0, total: 250 });
    expect(pageOf(all, '100').rows).toEqual(all.slice(100, 200));
    expect(pageOf(all, '200').rows).toEqual(all.slice(200));
  });

  test.each([
    ['150', 100],
    ['999999999', 200],
    ['-1', 0],
    ['1e3', 0],
    ['x', 0],
  ])('a page of a table with from=%s starts at row %i', (from, at) =>
    expect(pageOf(all, from).from).toBe(at),
  );

  test('a page of an empty table has no rows', () => {
    expect(pageOf([], '100')).toEqual({ rows: [], from: 0, total: 0 });
  });
});

test('time ranges up to ten minutes are by second, longer ones by minute', () => {
  expect(parseRange('10')).toEqual({
    ...{ minutes: 10, seconds: 600, text: '10 min', stepMs: 1000, steps: 600, isByMinute: false },
  });
  expect(parseRange('1440')).toEqual({
    ...{ minutes: 1440, seconds: 86_400, text: '24 h', stepMs: 60_000, steps: 1440 },
    isByMinute: true,
  });
});

test('an unknown time range falls back to 5 minutes', () => {
  for (const text of [undefined, '', '7', '1e1', '600']) expect(parseRange(text).minutes).toBe(5);
});
