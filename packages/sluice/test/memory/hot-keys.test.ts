import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { USE_HOT_KEYS } from '../../src/stores/memory/hot-keys.fast-path.ts';
import { KeyTable } from '../../src/stores/memory/key-table.ts';
import { collect, stateOf, tableModel } from './table-model.ts';

describe.runIf(USE_HOT_KEYS)('hot-key cache that admits every key', () => {
  beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0));
  afterEach(() => void vi.restoreAllMocks());

  it.each(['user:100000123', 'ab', 'a', '€', 'ключ', '\ud800'])(
    'a cached key is not hashed again: %j',
    (key) => {
      const { table, read, write } = tableModel();
      const hash = vi.spyOn(table, 'hash');
      write(key, 7);
      expect(read(key)).toBe(7);
      hash.mockClear();
      // A new string with the same characters, as a server creates one for each request.
      expect(read(key.split('').join(''))).toBe(7);
      expect(hash).not.toHaveBeenCalled();
    },
  );

  it('a cached key is not confused with a key that has the same last characters', () => {
    const { read, write } = tableModel();
    write('user:1-123', 1);
    write('user:2-123', 2);
    for (let turn = 0; turn < 5; turn++) {
      expect(read('user:1-123')).toBe(1);
      expect(read('user:2-123')).toBe(2);
      expect(read('user:3-123')).toBeUndefined();
      expect(read('123')).toBeUndefined();
    }
  });

  it('the hot-key cache supports the empty key', () => {
    const { read, write } = tableModel();
    expect(read('')).toBeUndefined();
    write('', 3);
    expect(read('')).toBe(3);
  });

  it('a removed key is not found, and has a new value when it is added again', () => {
    const { read, write, remove } = tableModel();
    write('user:123', 5);
    expect(read('user:123')).toBe(5);
    remove('user:123');
    expect(read('user:123')).toBeUndefined();
    write('user:123', 0);
    expect(read('user:123')).toBe(0);
  });

  it('a key is hashed again after its text was dropped from the cache', () => {
    const { table, read, write } = tableModel();
    write('user:123', 5);
    read('user:123');
    table.dropText('user:456');
    table.dropText('user:123');
    const hash = vi.spyOn(table, 'hash');
    expect(read('user:123')).toBe(5);
    expect(hash).toHaveBeenCalledOnce();
  });

  it('cached keys are found after growth, shrinking and removals moved their rows', () => {
    const commands = fc.array(
      fc.record({ remove: fc.boolean(), key: fc.nat(3000), count: fc.nat(900) }),
      { maxLength: 30 },
    );
    const cached = Array.from({ length: 60 }, (_, number) => `key-${number * 50}`);
    fc.assert(
      fc.property(commands, (list) => {
        const { write, remove, verify, expected } = tableModel();
        for (const { remove: removing, key, count } of list) {
          for (let next = key; next < key + count; next++) {
            if (removing) remove(`key-${next}`);
            else write(`key-${next}`, next * 7);
            if (next % 40 === 0) verify(cached);
          }
          verify(expected.keys());
        }
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 20) },
    );
  });

  it('cached keys are found in a table of several chunks, and after it has shrunk', () => {
    const { table, write, remove, verify } = tableModel();
    const cached = Array.from({ length: 500 }, (_, number) => `key-${1000 + number}`);
    const count = 80_000;
    for (let number = 1000; number < count; number++) {
      write(`key-${number}`, number);
      if (number % 1000 === 999) verify(cached);
    }
    const hash = vi.spyOn(table, 'hash');
    verify(cached);
    expect(hash).not.toHaveBeenCalled();
    hash.mockRestore();
    for (let number = count - 1; number >= 1500; number--) {
      remove(`key-${number}`);
      if (number % 1000 === 0) verify(cached);
    }
    verify(cached);
  });

  it('after the table grows and reuses a chunk, other keys are still found', () => {
    /** Has a chosen hash for the cached key, and distributed hashes for others. */
    class Chosen extends KeyTable {
      cachedHash = 0;

      override hash(text: string): void {
        const number = Number(text);
        this.low = text === 'cached' ? this.cachedHash | 0 : Math.imul(number, 0x9e3779b1) || 1;
        this.high = text === 'cached' ? 7 : number;
      }
    }
    const state = stateOf();
    for (let late = -3; late <= 5; late++) {
      const table = new Chosen();
      // At the same place of a chunk in a table of 1,024 rows as in one of 81,540.
      table.cachedHash = Math.floor(((65_536 + late + 833.6) / 81_540) * 2 ** 32);
      let next = 1;
      const fill = (size: number): void => {
        for (; table.size < size; next++) {
          if (table.find(String(next), state) < 0) table.insert();
        }
      };
      fill(780);
      expect(table.find('cached', state)).toBe(-1);
      table.insert();
      const cached = table.find('cached', state);
      expect(cached).toBeGreaterThanOrEqual(0);
      fill(60_800);
      table.remove(table.find('cached', state));
      const lost: number[] = [];
      for (let number = 1; number < next; number++) {
        if (table.find(String(number), state) < 0) lost.push(number);
      }
      expect(lost, `the cached key ${late} places late`).toEqual([]);
    }
  });

  it('a cached key does not keep the string alive from which it was sliced', () => {
    const { table, read } = tableModel();
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let number = 100; number < 200; number++) {
      const large = `${'x'.repeat(1_000_000)}-a-piece-of-it-${number}`.replace('it', 'something');
      const key = large.slice(-24);
      expect(read(key)).toBeUndefined();
      table.insert();
      expect(read(key)).toBe(0);
      const hash = vi.spyOn(table, 'hash');
      expect(read(key)).toBe(0);
      expect(hash).not.toHaveBeenCalled();
      hash.mockRestore();
    }
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
  });
});

describe.runIf(USE_HOT_KEYS)('hot-key cache with its admission probability', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('a key that is used repeatedly is cached', () => {
    const { table, read, write } = tableModel();
    const hash = vi.spyOn(table, 'hash');
    write('user:123', 9);
    const most = 5000;
    for (let time = 0; time < most; time++) read('user:123');
    // Admitted with probability 0.01: 5,000 misses have a probability of 1 in 10^21.
    expect(hash.mock.calls.length).toBeLessThan(most);
    hash.mockClear();
    expect(read('user:123')).toBe(9);
    expect(hash).not.toHaveBeenCalled();
  });

  it('keys that are used once do not evict a hot key from the cache', () => {
    vi.spyOn(Math, 'random').mockReturnValue(0);
    const { table, read, write } = tableModel();
    // Enough that the following keys do not make the table grow, which would move all rows.
    for (let number = 0; number < 500; number++) write(`filler-${number}`, 1);
    const hash = vi.spyOn(table, 'hash');
    write('user:123', 9);
    read('user:123');
    vi.mocked(Math.random).mockReturnValue(0.5);
    for (let number = 0; number < 100; number++) {
      write(`flood:${number}123`, 1);
      read(`flood:${number}123`);
    }
    hash.mockClear();
    expect(read('user:123')).toBe(9);
    expect(hash).not.toHaveBeenCalled();
  });
});
