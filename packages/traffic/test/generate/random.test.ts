import { describe, expect, test } from 'vitest';
import { Random } from '../../src/generate/random.ts';

const drawn = (random: Random, count: number): number[] =>
  Array.from({ length: count }, () => random.bits());

describe('Random', () => {
  test('the numbers of a seed do not change between versions', () => {
    expect(drawn(new Random(1), 4)).toEqual(drawn(new Random(1), 4));
    // A change here changes every generated log.
    expect(drawn(new Random(1), 4)).toMatchInlineSnapshot(`
      [
        1884423795,
        104959073,
        3273915888,
        1960496507,
      ]
    `);
  });

  test('adjacent seeds and streams have different numbers', () => {
    const seeds = [0, 1, 2, 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];
    const all = seeds.flatMap((seed) => [0, 1, 2].map((stream) => new Random(seed, stream)));
    const firsts = new Set(all.flatMap((random) => drawn(random, 50)));
    expect(firsts.size).toBeGreaterThan(all.length * 50 - 3);
  });

  test('fractions are uniform, and each bit is set half of the time', () => {
    const random = new Random(7);
    const tenths = new Array(10).fill(0);
    const bits = new Array(32).fill(0);
    const count = 100_000;
    for (let at = 0; at < count; at++) {
      const value = random.bits();
      tenths[Math.floor((value / 2 ** 32) * 10)]++;
      for (let bit = 0; bit < 32; bit++) bits[bit] += (value >>> bit) & 1;
    }
    for (const each of tenths) expect(Math.abs(each - count / 10)).toBeLessThan(500);
    for (const each of bits) expect(Math.abs(each - count / 2)).toBeLessThan(800);
  });

  test('below(n) returns every integer from 0 to n - 1', () => {
    const random = new Random(3);
    const seen = new Set(Array.from({ length: 1000 }, () => random.below(7)));
    expect([...seen].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });
});
