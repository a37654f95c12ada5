/// <reference lib="dom" />
/** The same of the pages that are about a moment: explanations, demos, what was watched or made. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { columnsOf, numberOf, type Opened, open, tableOf } from './browser.ts';
import {
  demoResult,
  explainResult,
  fieldsResult,
  generatedLoad,
  generatedLog,
  NASTY,
  topResult,
} from './results.ts';

describe('the page of an explanation', () => {
  const result = explainResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  /** The ticks of the picture, by what they say, with where they are drawn. */
  const ticksOf = (page: Page): Promise<{ title: string; at: number; css: string[] }[]> =>
    page.locator('#window').evaluate((picture) => {
      const left = picture.getBoundingClientRect().left;
      const groups = [...picture.querySelectorAll(':scope > svg')].filter((group) =>
        group.querySelector('title'),
      );
      return groups.map((group) => {
        const bars = [...group.querySelectorAll('rect')];
        const { x, width } = bars[0].getBoundingClientRect();
        return {
          title: group.querySelector('title')!.textContent!,
          at: x + width / 2 - left,
          css: bars.map((bar) => bar.getAttribute('class')!),
        };
      });
    });

  test('draws each request at its time, and what counts unlike what does not', async () => {
    const ticks = await ticksOf(opened.page);
    const { atMs, windowMs } = result;
    const [edge, asked] = await opened.page.locator('#window').evaluate((picture) => {
      const left = picture.getBoundingClientRect().left;
      return [...picture.querySelectorAll('line.dashed')].map(
        (line) => line.getBoundingClientRect().left - left,
      );
    });
    const placeOf = (timeMs: number): number =>
      edge + ((timeMs - (atMs - windowMs)) / windowMs) * (asked - edge);
    const shown = result.requests.filter(({ timeMs }) => timeMs > atMs - 1.2 * windowMs);
    expect(ticks).toHaveLength(shown.length);
    for (const [at, { timeMs, allowed }] of shown.entries()) {
      expect(Math.abs(ticks[at].at - placeOf(timeMs))).toBeLessThan(1);
      const counts = timeMs > atMs - windowMs;
      expect(ticks[at].css).toEqual([allowed ? (counts ? 'allowed' : 'gone') : 'denied']);
      expect(ticks[at].title).toContain(allowed ? '1 admitted' : '1 denied');
    }
    expect(new Set(ticks.flatMap(({ css }) => css))).toEqual(
      new Set(['allowed', 'gone', 'denied']),
    );
  });

  test('tells the sum, and the requests when they are unfolded', async () => {
    const { page, noises } = opened;
    const rows = await tableOf(page, 'reckoning');
    expect(rows.find(([name]) => name === 'the sum')![1]).toBe('30 + 1 = 31 > 30');
    expect(numberOf((await page.locator('#seen b').textContent())!)).toBe(result.seen.requests);
    await page.locator('summary').click();
    const told = await tableOf(page, 'requests');
    expect(told).toHaveLength(60);
    expect(told[0].slice(0, 2)).toEqual(['12:01:21.200', 'denied']);
    expect(await page.locator('h1').textContent()).toBe(`${NASTY} is denied`);
    expect(noises).toEqual([]);
  });

  test('of a counter shades the window before by its weight, and says it', async () => {
    const explained = explainResult('sliding-counter');
    const { page } = await open(explained);
    const zones = await page
      .locator('#window rect.zone')
      .evaluateAll((all) => all.map((zone) => Number(zone.getAttribute('fill-opacity'))));
    expect(zones).toHaveLength(2);
    const weight = 1 - (explained.atMs % 60_000) / 60_000;
    expect(zones[0] - 0.04).toBeCloseTo(weight * (zones[1] - 0.04), 3);
    const words = (await page.locator('#window text').allTextContents()).join('; ');
    expect(words).toContain(`counts by ${(100 * weight).toFixed(1)}%`);
  });

  test('of fields tells each of them, and what is left', async () => {
    const { page, noises } = await open(fieldsResult());
    const limits = await tableOf(page, 'limits');
    expect(limits.map(([name, , left]) => [name, left])).toEqual([
      ['perMinute', '0 of 100 in 1 minmore in 12 s'],
      [NASTY, '5 of 10 in 1 smore in 1 s'],
    ]);
    expect((await tableOf(page, 'fields')).at(-1)![0]).toContain('<script>alert(5)</script>');
    expect(noises).toEqual([]);
  });
});

describe('the page of a demo', () => {
  test('draws the bursts as high as they are, and says what passed', async () => {
    const result = demoResult();
    const { page, noises } = await open(result);
    for (const run of result.boundary) {
      const picture = page.locator(`#boundary-${run.algorithm}`);
      const heights = (css: string): Promise<number[]> =>
        picture
          .locator(`rect.${css}`)
          .evaluateAll((all) => all.map((rect) => rect.getBoundingClientRect().height));
      const passed = await heights('allowed');
      const denied = await heights('denied');
      expect(passed).toHaveLength(run.passed.filter((amount) => amount > 0).length);
      expect(denied).toHaveLength(run.passed.filter((amount) => amount < 50).length);
      expect(new Set([...passed, ...denied]).size).toBe(1);
    }
    const words = (await page.locator('svg text').allTextContents()).join('; ');
    expect(words).toContain('100 in 1,200 ms: 2× the limit');
    expect(words).toContain('50 in 1,200 ms: never over the limit');
    expect(await page.locator('h1').textContent()).toBe(
      'Where 50 is the limit, fixed-window let 100 through, sliding-log let 50 through',
    );
    const columns = await columnsOf(page, 'over-time');
    expect(columns).toHaveLength(result.timeline.series.allowed.length);
    expect((await tableOf(page, 'denied-clients'))[0][0]).toBe(NASTY);
    expect(noises).toEqual([]);
  });
});

describe('the page of a service that was watched', () => {
  test('tells rates and keys, and draws the rates of each policy', async () => {
    const result = topResult();
    const { page, noises } = await open(result);
    const rows = await tableOf(page, 'policies');
    expect(rows.map((row) => row.slice(2, 4))).toEqual([
      ['15', '4.3'],
      ['15', '4.3'],
    ]);
    expect(rows[1][0]).toBe(`${NASTY} in shadow`);
    const paths = await page
      .locator('#policies path')
      .evaluateAll((all) => all.map((path) => path.getAttribute('d')!));
    expect(paths).toHaveLength(4);
    for (const path of paths) expect(path.match(/[ML]/g)).toHaveLength(6);
    const keys = await tableOf(page, 'most-denied');
    expect(keys).toEqual([[`${NASTY} perMinute`, '', '420+']]);
    const columns = await columnsOf(page, 'over-time');
    const told = columns.map(({ title }) =>
      [...title.matchAll(/([\d.]+) (?:allowed|denied)/g)].map(([, each]) => Number(each)),
    );
    // The policy in shadow is not among them.
    const { allowed, denied } = result.policies[0].rates;
    expect(told).toEqual(allowed.map((rate, at) => [rate, denied[at]]));
    expect(noises).toEqual([]);
  });
});

describe('the page of generated traffic', () => {
  test('draws the requests over time, and tells the clients', async () => {
    const result = generatedLog();
    const { page, noises } = await open(result);
    const columns = await columnsOf(page, 'over-time');
    const told = columns.map(({ title }) => numberOf(/: ([\d,]+) request/.exec(title)![1]));
    expect(told).toEqual(result.timeline.series.requests);
    const classes = await tableOf(page, 'classes');
    expect(classes.map((row) => numberOf(row[2]))).toEqual(
      result.classes.map(({ clients }) => clients),
    );
    expect((await tableOf(page, 'busiest'))[0][0]).toBe(NASTY);
    const command = await page.locator('pre').textContent();
    expect(command).toBe(
      'sluice generate abuser --seed 5 --requests 6000 --clients 60 --duration 600000ms ' +
        '--start 2026-01-01T00:00:00Z',
    );
    expect(noises).toEqual([]);
  });

  test('of load tells the answers', async () => {
    const { page, noises } = await open(generatedLoad());
    const rows = await tableOf(page, 'answers');
    expect(rows.map(([name, , amount]) => [name, numberOf(amount)])).toEqual([
      ['200', 71],
      ['429', 25],
      [`no answer: ${NASTY}`, 4],
    ]);
    expect(noises).toEqual([]);
  });
});
