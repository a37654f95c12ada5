import { expect, test } from 'vitest';
import type { CountSeries } from '../src/api/types.ts';
import { plotData } from '../src/view/chart.ts';
import { countsFigure, currentRate, sum } from '../src/view/counts.ts';
import { parseRange } from '../src/view/range.ts';

/** Two unknown seconds, then one call per second. */
const series = (): CountSeries => {
  const values = [...new Array(298).fill(1)];
  const known = [null, null, ...values];
  const zeros = known.map((each) => each && 0);
  return {
    ...{ allowed: known, denied: zeros, shadowAllowed: zeros, shadowDenied: zeros },
    ...{ degraded: zeros, fullest: known },
  };
};

test('time before the start of the service is a gap in the chart, not zero', () => {
  const times = Array.from({ length: 300 }, (_, at) => at);
  const figure = countsFigure(series(), times, parseRange('5'));
  const [, allowed, denied] = plotData(figure);
  expect(allowed.slice(0, 4)).toEqual([null, null, 1, 1]);
  expect([denied[0], denied[1]]).toEqual([null, null]);
});

test('the sums and rates of a chart leave out unknown seconds', () => {
  expect(sum([null, 2, null, 3], 4)).toBe(5);
  expect(currentRate([9, 9, null, null, null, 4, 6])).toBe(5);
  expect(currentRate([null, null])).toBeUndefined();
});
