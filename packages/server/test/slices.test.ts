import { describe, expect, test } from 'vitest';
import { inSlices, runToEnd } from '../src/slices.ts';

function* busy(rounds: number): Generator<void, number> {
  let sum = 0;
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < 20_000; at++) sum += at % 7;
    yield;
  }
  return sum;
}

describe('inSlices', () => {
  test('inSlices lets other work run between two slices', async () => {
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns++;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const result = await inSlices(busy(2000));
    isOver = true;
    expect(result).toBe(runToEnd(busy(2000)));
    expect(turns).toBeGreaterThan(5);
  });

  test('inSlices rejects with the error that the work throws', async () => {
    const work = (function* (): Generator<void, never> {
      yield;
      throw new TypeError('wrong');
    })();
    await expect(inSlices(work)).rejects.toThrow(TypeError);
  });
});
