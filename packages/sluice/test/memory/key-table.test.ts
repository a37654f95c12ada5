import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { KeyedHash } from '../../src/stores/memory/hash.ts';
import { KeyTable } from '../../src/stores/memory/key-table.ts';
import { Rows } from '../../src/stores/memory/rows.ts';
import { collect, stateOf, tableModel } from './table-model.ts';

const CHUNK_BYTES = 2 ** 20;

/** Returns the bytes of all typed arrays in use. Another thread frees unused ones later. */
async function bytesOfArrays(): Promise<number> {
  let last = Number.NaN;
  for (let same = 0; same < 3; ) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
    const { arrayBuffers } = process.memoryUsage();
    same = arrayBuffers === last ? same + 1 : 0;
    last = arrayBuffers;
  }
  return last;
}

describe('KeyTable', () => {
  it('KeyTable behaves like a Map through growth and shrinking', () => {
    const commands = fc.array(
      fc.record({
        remove: fc.boolean(),
        key: fc.integer({ min: 0, max: 2000 }),
        count: fc.nat(400),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(commands, (list) => {
        const { write, remove, verify } = tableModel();
        for (const { remove: removing, key, count } of list) {
          for (let next = key; next < key + count; next++) {
            if (removing) remove(`key-${next}`);
            else write(`key-${next}`, next * 7);
          }
          verify();
        }
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 20) },
    );
  });

  it.each([
    ['of less than a chunk', 20_000],
    ['of several chunks', 100_000],
  ])('KeyTable finds every key during growth and shrinking, in a table %s', (_, count) => {
    const { table, write, remove, read, expected, verify } = tableModel();
    for (let key = 0; key < count; key++) {
      write(`key-${key}`, key);
      if (read(`key-${key >>> 1}`) !== key >>> 1) expect.fail(`lost key ${key >>> 1} at ${key}`);
      if (read(`none-${key}`) !== undefined) expect.fail('found a key that was never added');
    }
    verify();
    for (let key = 0; key < count; key++) {
      remove(`key-${key}`);
      const other = count - 1 - ((count - 1 - key) >>> 1);
      if (expected.has(`key-${other}`) && read(`key-${other}`) !== other) {
        expect.fail(`lost key ${other} while removing ${key}`);
      }
    }
    expect(table.size).toBe(0);
  });

  it('KeyTable moves fewer than 3,000 rows per call when it grows and shrinks', () => {
    const { write, remove } = tableModel();
    const moved = vi.spyOn(Rows.prototype, 'add');
    const most = (change: (key: string) => void): number => {
      let largest = 0;
      for (let key = 0; key < 100_000; key++) {
        moved.mockClear();
        change(`key-${key}`);
        largest = Math.max(largest, moved.mock.calls.length);
      }
      return largest;
    };
    // Adjacent rows move together, up to hundreds of them.
    expect(most((key) => write(key, 1))).toBeLessThan(3000);
    expect(most(remove)).toBeLessThan(3000);
    moved.mockRestore();
  });

  it('removing all keys by nextSwept takes less than 15 times as long as by key', () => {
    const count = 150_000;
    const state = stateOf();
    const filled = (): KeyTable => {
      const table = new KeyTable();
      for (let key = 0; key < count; key++) {
        table.find(`key-${key}`, state);
        table.insert();
      }
      return table;
    };
    const timeOf = (task: () => void): number => {
      const start = performance.now();
      task();
      return performance.now() - start;
    };
    const [one, other] = [filled(), filled()];
    const byKey = timeOf(() => {
      for (let key = 0; key < count; key++) one.remove(one.find(`key-${key}`, state));
    });
    const inTurn = timeOf(() => {
      while (other.size > 0) {
        const row = other.nextSwept();
        if (row >= 0) other.remove(row);
      }
    });
    // In the order of the hashes, the gap would be a hundred times as long.
    expect(inTurn / byKey).toBeLessThan(15);
  });

  it('KeyTable takes at most 48 bytes per key and releases them', async () => {
    const table = new KeyTable();
    const state = stateOf();
    const before = await bytesOfArrays();
    const bytes = async (): Promise<number> => (await bytesOfArrays()) - before;
    // Before, during and after a growth.
    for (const count of [206_000, 220_000, 245_000]) {
      while (table.size < count) {
        table.find(`key-${table.size}`, state);
        table.insert();
      }
      const most = 48 * count + 3 * CHUNK_BYTES;
      expect(await bytes()).toBeGreaterThan(32 * count);
      // The last chunk is seldom full, and others are kept for rows that move.
      expect(await bytes()).toBeLessThan(most);
    }
    for (let key = 0; key < 244_000; key++) table.remove(table.find(`key-${key}`, state));
    expect(await bytes()).toBeLessThan(32 * 60_000);
  });

  it.each([10, 3000, 50_000])('draw returns each of %d keys about equally often', (count) => {
    const { table, write, expected } = tableModel();
    const state = stateOf();
    for (let key = 0; key < count; key++) write(`key-${key}`, key);
    const drawn = new Uint32Array(count);
    const rounds = 20;
    for (let time = 0; time < rounds * count; time++) {
      table.point(state, table.draw());
      drawn[state.cells[state.at]]++;
    }
    expect(expected.size).toBe(count);
    expect(drawn.filter((times) => times === 0).length / count).toBeLessThan(0.01);
    // A key after a gap is also drawn for the gap.
    expect(drawn.reduce((most, times) => Math.max(most, times))).toBeLessThan(rounds * 12);
  });

  it.each([10, 3000, 50_000])(
    'nextSwept reaches each of %d keys, also while some are removed',
    (count) => {
      const { table, write } = tableModel();
      const state = stateOf();
      for (let key = 0; key < count; key++) write(`key-${key}`, key);
      const seen = new Set<number>();
      // Removes every other key, which moves the rows after it.
      for (let steps = 0; steps < 3000 * (count + 256) && table.size > count / 2; steps++) {
        const row = table.nextSwept();
        if (row < 0) continue;
        table.point(state, row);
        const key = state.cells[state.at];
        seen.add(key);
        if (key % 2 === 1) table.remove(row);
      }
      expect(table.size).toBe(count / 2);
      for (let steps = 0; steps < 3000 * (count + 256) && seen.size < count; steps++) {
        const row = table.nextSwept();
        if (row >= 0) table.point(state, row);
        if (row >= 0) seen.add(state.cells[state.at]);
      }
      expect(seen.size).toBe(count);
    },
  );

  it('recent returns the eighth most recent key until that key is removed', () => {
    const { table, write, remove } = tableModel();
    const state = stateOf();
    expect(table.recent()).toBe(-1);
    for (let key = 0; key < 5000; key++) {
      write(`key-${key}`, key);
      if (key < 7) continue;
      table.point(state, table.recent());
      if (state.cells[state.at] !== key - 7) expect(state.cells[state.at]).toBe(key - 7);
    }
    remove('key-4992');
    expect(table.recent()).toBe(-1);
  });

  it('draw returns every row even if Math.random is constant', () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.123);
    const { table, write } = tableModel();
    for (let key = 0; key < 20; key++) write(`key-${key}`, key + 1);
    const state = stateOf();
    const drawn = new Set<number>();
    for (let draw = 0; draw < 5000; draw++) {
      table.point(state, table.draw());
      drawn.add(state.cells[state.at]);
    }
    expect(drawn.size).toBe(20);
    vi.restoreAllMocks();
  });

  it('insert zeroes the cells, also in a reused place', () => {
    const { table, write, remove, read } = tableModel();
    write('a', 5);
    remove('a');
    table.find('b', stateOf());
    table.insert();
    expect(read('b')).toBe(0);
  });
});

describe('the keyed hash', () => {
  it('the keyed hash differs between tables', () => {
    const [one, other] = [new KeyedHash(), new KeyedHash()];
    one.hash('the same key');
    other.hash('the same key');
    expect([one.low, one.high]).not.toEqual([other.low, other.high]);
  });

  it.each([
    ['numbered', (n: number) => `user:${n}`],
    ['padded', (n: number) => `${'x'.repeat(n % 700)}${n}`],
    ['wide', (n: number) => `ключ:${n}`],
    ['one wide character among many', (n: number) => `${n}-aaaaaaaaaaaaaaaaaa-é-${n}-€`],
    ['single characters', (n: number) => String.fromCharCode(n)],
  ])('the keyed hash spreads %s keys evenly, without collisions', (_, keyOf) => {
    const hash = new KeyedHash();
    const count = 50_000;
    const slots = new Uint8Array(65_536);
    const seen = new Set<bigint>();
    for (let n = 0; n < count; n++) {
      hash.hash(keyOf(n));
      slots[hash.low & 65_535]++;
      seen.add((BigInt(hash.low >>> 0) << 32n) | BigInt(hash.high >>> 0));
    }
    expect(seen.size).toBe(count);
    // At random, e^(-50000/65536) = 46.6 % of the slots stay empty, and none gets 12.
    const empty = slots.reduce((sum, hits) => sum + (hits === 0 ? 1 : 0), 0) / slots.length;
    expect(empty).toBeGreaterThan(0.45);
    expect(empty).toBeLessThan(0.482);
    expect(Math.max(...slots)).toBeLessThan(14);
  });

  it('one changed bit of a key changes about half of the hash bits', () => {
    const hash = new KeyedHash();
    const bits = (value: number): number => value.toString(2).replaceAll('0', '').length;
    let flipped = 0;
    const trials = 2000;
    for (let n = 0; n < trials; n++) {
      hash.hash(`key-${n}a`);
      const { low, high } = hash;
      hash.hash(`key-${n}c`);
      flipped += bits((low ^ hash.low) >>> 0) + bits((high ^ hash.high) >>> 0);
    }
    expect(flipped / trials / 64).toBeGreaterThan(0.48);
    expect(flipped / trials / 64).toBeLessThan(0.52);
  });
});
