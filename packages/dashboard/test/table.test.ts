import { describe, expect, test } from 'vitest';
import { pageOf } from '../src/view/pager.ts';
import { readRange } from '../src/view/range.ts';
import { type Column, readSorting, sorted, sortingText } from '../src/view/table.ts';

interface Row {
  readonly name: string;
  readonly count: number;
}

const columns: readonly Column<Row>[] = [
  { id: 'name', head: 'Name', cell: ({ name }) => name, by: ({ name }) => name },
  { id: 'count', head: 'Count', cell: ({ count }) => count, by: ({ count }) => count },
  { id: 'plain', head: 'Plain', cell: () => '' },
];
const first = { by: 'count', isDown: true };
const rows: readonly Row[] = [
  { name: 'policy10', count: 1 },
  { name: 'policy9', count: 3 },
  { name: 'a', count: 1 },
];
const names = (text: string): readonly string[] =>
  sorted(rows, columns, readSorting(text, columns, first)).map(({ name }) => name);

describe('sorting', () => {
  test('is in the address, and read from it', () => {
    for (const sorting of [{ by: 'name', isDown: false }, first]) {
      expect(readSorting(sortingText(sorting), columns, { by: 'x', isDown: false })).toEqual(
        sorting,
      );
    }
  });

  test.each([undefined, '', '-', 'plain', 'nothing', '__proto__', '--count'])(
    'by %j is the first one there is',
    (text) => expect(readSorting(text, columns, first)).toBe(first),
  );

  test('puts numbers in names where people expect them', () => {
    expect(names('name')).toEqual(['a', 'policy9', 'policy10']);
    expect(names('-name')).toEqual(['policy10', 'policy9', 'a']);
  });

  test('leaves equal rows in the order they came in, both ways', () => {
    expect(names('count')).toEqual(['policy10', 'a', 'policy9']);
    expect(names('-count')).toEqual(['policy9', 'policy10', 'a']);
  });
});

describe('a long list', () => {
  const all = Array.from({ length: 250 }, (_, at) => at);

  test('is shown a hundred at a time', () => {
    expect(pageOf(all, undefined)).toMatchObject({ from: 0, all: 250 });
    expect(pageOf(all, '100').rows).toEqual(all.slice(100, 200));
    expect(pageOf(all, '200').rows).toEqual(all.slice(200));
  });

  test.each([
    ['150', 100],
    ['999999999', 200],
    ['-1', 0],
    ['1e3', 0],
    ['x', 0],
  ])('from %s on begins at %i', (from, at) => expect(pageOf(all, from).from).toBe(at));

  test('may be empty', () => {
    expect(pageOf([], '100')).toEqual({ rows: [], from: 0, all: 0 });
  });
});

test('a range is one of those there are, and else five minutes', () => {
  expect(readRange('10')).toEqual({ minutes: 10, seconds: 600, text: '10 min' });
  for (const text of [undefined, '', '7', '1e1', '600']) expect(readRange(text).minutes).toBe(5);
});
