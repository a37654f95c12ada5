/** Shared by the tests of the key table. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'vitest';
import type { State } from '../../src/algorithms/algorithm.ts';
import { KeyTable } from '../../src/stores/memory/key-table.ts';
import { EntrySlab } from '../../src/stores/memory/slab.ts';

setFlagsFromString('--expose-gc');
export const collect = runInNewContext('gc') as () => void;

export function stateOf(entries = new EntrySlab(false)): State {
  const cells = new Float64Array(3);
  return { cells, words: new Int32Array(cells.buffer), at: 0, entries };
}

/** Creates a table, and a Map with its expected content. */
export function tableModel() {
  const table = new KeyTable();
  const expected = new Map<string, number>();
  const state = stateOf();
  const read = (key: string): number | undefined =>
    table.find(key, state) < 0 ? undefined : state.cells[state.at];
  const write = (key: string, value: number): void => {
    const row = table.find(key, state);
    table.point(state, row < 0 ? table.insert() : row);
    state.cells[state.at] = value;
    expected.set(key, value);
  };
  const remove = (key: string): void => {
    const row = table.find(key, state);
    // Compares first, because `expect` is slow.
    if (row >= 0 !== expected.delete(key)) expect.fail(`${key} has row ${row}`);
    if (row >= 0) table.remove(row);
  };
  /** Compares the values of some keys, or of all expected keys. */
  const verify = (keys: Iterable<string> = expected.keys()): void => {
    expect(table.size).toBe(expected.size);
    for (const key of keys) {
      const value = read(key);
      if (value !== expected.get(key)) expect([key, value]).toEqual([key, expected.get(key)]);
    }
  };
  return { table, expected, read, write, remove, verify };
}
