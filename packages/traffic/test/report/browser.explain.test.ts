/// <reference lib="dom" />
/** The page of an explanation in a browser. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { numberOf, type Opened, open, tableOf, useBrowser } from './browser.ts';
import { explainResult, NASTY } from './results.ts';

useBrowser();

describe('the report of an explanation', () => {
  const result = explainResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  /** Returns the ticks of the picture: their title and position. */
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

  test('the explanation report draws requests at their times, expired ones apart', async () => {
    const ticks = await ticksOf(opened.page);
    const { atMs, windowMs } = result;
    const [edge, current] = await opened.page.locator('#window').evaluate((picture) => {
      const left = picture.getBoundingClientRect().left;
      return [...picture.querySelectorAll('line.dashed')].map(
        (line) => line.getBoundingClientRect().left - left,
      );
    });
    const placeOf = (timeMs: number): number =>
      edge + ((timeMs - (atMs - windowMs)) / windowMs) * (current - edge);
    const shown = result.requests.filter(({ timeMs }) => timeMs > atMs - 1.2 * windowMs);
    expect(ticks).toHaveLength(shown.length);
    for (const [at, { timeMs, allowed }] of shown.entries()) {
      expect(Math.abs(ticks[at].at - placeOf(timeMs))).toBeLessThan(1);
      const counts = timeMs > atMs - windowMs;
      expect(ticks[at].css).toEqual([allowed ? (counts ? 'allowed' : 'expired') : 'denied']);
      expect(ticks[at].title).toContain(allowed ? '1 admitted' : '1 denied');
    }
    expect(new Set(ticks.flatMap(({ css }) => css))).toEqual(
      new Set(['allowed', 'expired', 'denied']),
    );
  });

  test('the explanation report shows the comparison, and the requests when unfolded', async () => {
    const { page, problems } = opened;
    const rows = await tableOf(page, 'comparison');
    expect(rows.find(([name]) => name === 'comparison')![1]).toBe('30 + 1 = 31 > 30');
    expect(numberOf((await page.locator('#seen b').textContent())!)).toBe(result.seen!.requests);
    await page.locator('summary').click();
    const requests = await tableOf(page, 'requests');
    expect(requests).toHaveLength(60);
    expect(requests[0].slice(0, 2)).toEqual(['12:01:21.200', 'denied']);
    expect(await page.locator('h1').textContent()).toBe(`${NASTY} is denied`);
    expect(problems).toEqual([]);
  });

  test('the explanation report shades the previous window of sliding-counter', async () => {
    const explained = explainResult('sliding-counter');
    const { page } = await open(explained);
    const zones = await page
      .locator('#window rect.zone')
      .evaluateAll((all) => all.map((zone) => Number(zone.getAttribute('fill-opacity'))));
    expect(zones).toHaveLength(2);
    const weight = 1 - (explained.atMs % 60_000) / 60_000;
    expect(zones[0] - 0.04).toBeCloseTo(weight * (zones[1] - 0.04), 3);
    const words = (await page.locator('#window text').allTextContents()).join('; ');
    expect(words).toContain(`weight ${(100 * weight).toFixed(1)}%`);
  });
});
