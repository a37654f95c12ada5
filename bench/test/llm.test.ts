import { describe, expect, it } from 'vitest';
import { fixedSums, slidingSums, windowFigures } from '../llm/windows.mjs';

const calls = [
  { atMs: 0, window: 1, tokens: 60 },
  { atMs: 1000, window: 2, tokens: 80 },
  { atMs: 999, window: 1, tokens: 30 },
];

describe('figures of windows', () => {
  it('slidingSums returns one sum per call, without calls of a window before', () => {
    expect(slidingSums(calls, 1000)).toEqual([60, 90, 110]);
  });

  it('fixedSums returns one sum for each window of the limiter', () => {
    expect(fixedSums(calls)).toEqual([90, 80]);
  });

  it('windowFigures counts windows over the limit, the largest overshoot and the use', () => {
    const load = { limit: 100, windowMs: 1000, elapsedMs: 2000 };
    expect(windowFigures(calls, slidingSums(calls, 1000), load)).toEqual({
      calls: 3,
      'windows over %': 33.3,
      'overshoot %': 10,
      'use %': 85,
    });
    expect(windowFigures(calls, fixedSums(calls), load)).toMatchObject({
      'windows over %': 0,
      'overshoot %': 0,
    });
  });
});
