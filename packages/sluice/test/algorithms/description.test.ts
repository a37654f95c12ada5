import { describe, expect, it } from 'vitest';
import {
  algorithmInfo,
  describeKey,
  durationText,
  windowAlgorithmNames,
} from '../../src/engine.ts';
import {
  createLimiter,
  definePolicy,
  ManualClock,
  type WindowAlgorithmName,
} from '../../src/index.ts';

const START_MS = 1_745_000_100_000;

/** A key of limit 30 per minute that was charged 13 at 7 s and 13 at 30.5 s. */
function chargedKey(algorithm: WindowAlgorithmName, cost = 13) {
  const options = { limit: 30, window: '1m', algorithm };
  const params = definePolicy('p', options).paramsFor('k');
  const clock = new ManualClock(START_MS + 7000);
  const limiter = createLimiter({ policies: { p: options }, clock });
  limiter.checkSync('p', 'k', { cost });
  clock.set(START_MS + 30_500);
  limiter.checkSync('p', 'k', { cost });
  return { params, clock, limiter, inspected: limiter.inspectSync('p', 'k')! };
}

describe.each(windowAlgorithmNames)('%s', (algorithm) => {
  it(`describeKey of ${algorithm} agrees with peek at every later time`, () => {
    const { params, clock, limiter, inspected } = chargedKey(algorithm);
    for (let atMs = START_MS + 30_500; atMs < START_MS + 200_000; atMs += 499) {
      clock.set(atMs);
      const { remaining } = limiter.peekSync('p', 'k');
      const described = describeKey(algorithm, inspected, params, atMs);
      const expected = { limit: 30, remaining, used: 30 - remaining };
      expect(described, `at ${atMs - START_MS} ms`).toMatchObject(expected);
      const { allowed, retryAfterMs } = limiter.peekSync('p', 'k', { cost: 20 });
      const { sumText, freesText, shape } = describeKey(algorithm, inspected, params, atMs, 20);
      expect(/ (<=|>=) /.test(sumText), sumText).toBe(allowed);
      if (!allowed && shape !== 'windows') expect(freesText).toContain(durationText(retryAfterMs));
    }
  });

  it(`describeKey of ${algorithm} shows a new key as unused`, () => {
    const { params } = chargedKey(algorithm);
    const described = describeKey(algorithm, undefined, params, START_MS);
    expect(described).toMatchObject({
      used: 0,
      remaining: 30,
      shape: algorithmInfo[algorithm].shape,
    });
  });

  it(`describeKey of ${algorithm} returns the texts in descriptions/${algorithm}.txt`, async () => {
    const { params, inspected } = chargedKey(algorithm);
    const lines = [1, 10, 31].flatMap((cost) => {
      const described = describeKey(algorithm, inspected, params, START_MS + 40_000, cost);
      const { usedText, sumText, freesText } = described;
      return [`cost ${cost}`, `  ${usedText}`, `  ${sumText}`, `  ${freesText}`];
    });
    const text = [algorithmInfo[algorithm].summary, ...lines, ''].join('\n');
    await expect(text).toMatchFileSnapshot(`descriptions/${algorithm}.txt`);
  });
});

it('describeKey names no oldest entry if the inspection lists only the newest ones', () => {
  const { params, inspected } = chargedKey('sliding-log');
  const cut = { ...inspected, entries: inspected.entries.slice(1) };
  expect(describeKey('sliding-log', cut, params, START_MS + 40_000).freesText).toBe('');
});
