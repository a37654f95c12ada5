/// <reference lib="dom" />
/** Reports in Chromium without a network: their numbers and drawings agree with the results. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { htmlReport } from '../../src/index.ts';
import {
  browser,
  columnsOf,
  folder,
  numberOf,
  type Opened,
  open,
  tableOf,
  useBrowser,
  write,
} from './browser.ts';
import { compareResult, NASTY, planResult, results, suggestResult } from './results.ts';

useBrowser();

describe('the report of a plan', () => {
  const result = planResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('the plan report shows the counts of the plan', async () => {
    const { page } = opened;
    const tiles = { requests: result.requests, clients: result.clients };
    const denied = {
      'denied-requests': result.denied.requests,
      'denied-clients': result.denied.clients,
      'denied-ordinary': result.denied.ordinaryClients,
      'newly-denied': result.against!.newlyDenied.clients,
      'requests-lost': result.against!.requestsLost,
    };
    for (const [id, value] of Object.entries({ ...tiles, ...denied })) {
      expect(numberOf((await page.locator(`#${id} b`).textContent())!), id).toBe(value);
    }
    const policies = await tableOf(page, 'policies');
    expect(policies.map((row) => row.slice(4).map(numberOf))).toEqual(
      result.policies.map(({ denied: impact }) => [
        impact.requests,
        impact.clients,
        impact.ordinaryClients,
      ]),
    );
  });

  test('the plan report draws stacked columns as high as their counts', async () => {
    const columns = await columnsOf(opened.page, 'over-time');
    const { requests, denied, shadow, current } = result.timeline.series;
    expect(columns).toHaveLength(requests.length);
    const most = Math.max(...requests);
    const fullest = columns[requests.indexOf(most)].heights;
    const perRequest = (fullest.allowed + fullest.denied + (fullest.shadow ?? 0)) / most;
    expect(perRequest * most).toBeGreaterThan(80);
    for (const [at, { title, heights }] of columns.entries()) {
      const shownCounts = [...title.split(': ')[1].matchAll(/\d[\d,]*/g)].map(([each]) =>
        numberOf(each),
      );
      expect(shownCounts).toEqual([requests[at], denied[at], shadow[at], current[at]]);
      expect(heights.denied ?? 0).toBeCloseTo(perRequest * denied[at], 0);
      expect(heights.shadow ?? 0).toBeCloseTo(perRequest * shadow[at], 0);
      const allowed = requests[at] - denied[at] - shadow[at];
      expect(heights.allowed ?? 0).toBeCloseTo(perRequest * allowed, 0);
    }
    const line = await opened.page.locator('#over-time path.current').getAttribute('d');
    expect(line!.match(/[ML]/g)).toHaveLength(requests.length);
  });

  test('the plan report shows names from the log as text', async () => {
    const { page, problems } = opened;
    const [first] = await tableOf(page, 'top-clients');
    expect(first[0]).toContain(NASTY);
    expect(first.slice(2, 4).map(numberOf)).toEqual([
      result.topClients[0].requests,
      result.topClients[0].denied,
    ]);
    expect(first[7]).toContain('POST /"><script>alert(2)</script>');
    expect(await page.locator('img, script').count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test('the Content-Security-Policy of a report blocks injected scripts', async () => {
    const path = join(folder, 'broken.html');
    const bad = '<script>alert(3)</script><img src=x onerror=alert(4)><p style="color:red">';
    writeFileSync(path, htmlReport(result).replace('<footer>', `${bad}<footer>`));
    const context = await browser.newContext({ offline: true });
    const page = await context.newPage();
    const blocked: string[] = [];
    page.on('dialog', (dialog) => {
      blocked.push('a dialog');
      dialog.dismiss();
    });
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) blocked.push('blocked');
    });
    await page.goto(pathToFileURL(path).href);
    expect(new Set(blocked)).toEqual(new Set(['blocked']));
    await context.close();
  });
});

describe('the report of a comparison', () => {
  const result = compareResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('the comparison report shows the decisions of each algorithm', async () => {
    const rows = await tableOf(opened.page, 'decisions');
    expect(rows.map(([name, ...numbers]) => [name, ...numbers.slice(0, 5).map(numberOf)])).toEqual(
      result.algorithms.map((each) => [
        each.algorithm,
        each.admitted,
        each.denied,
        each.deniedClients,
        each.falseAdmits,
        each.falseDenials,
      ]),
    );
    expect(opened.problems).toEqual([]);
  });

  test('the comparison report draws the worst windows and the limit to scale', async () => {
    const bars = await opened.page.locator('#worst > g').evaluateAll((groups) =>
      groups.map((group) => ({
        title: group.querySelector('title')!.textContent,
        widths: [...group.querySelectorAll('rect')].map(
          (rect) => rect.getBoundingClientRect().width,
        ),
      })),
    );
    const limit = await opened.page.locator('#worst line.dashed').evaluate((line) => {
      const left = line.closest('svg')!.getBoundingClientRect().left;
      return line.getBoundingClientRect().left - left;
    });
    for (const [at, { algorithm, worst, adversary }] of result.algorithms.entries()) {
      expect(bars[at].title).toContain(`${algorithm}: this log`);
      expect(bars[at].title).toContain(`(${worst!.count}), attacker`);
      expect(bars[at].widths[0] / limit).toBeCloseTo(worst!.multiple, 1);
      expect(bars[at].widths[1] / limit).toBeCloseTo(adversary.multiple, 1);
    }
    expect(result.algorithms.at(-1)!.worst!.multiple).toBeGreaterThan(1.5);
  });

  test('the comparison report draws the denials of all algorithms to the same scale', async () => {
    const heights: number[] = [];
    for (const { algorithm, denied } of result.algorithms) {
      const columns = await columnsOf(opened.page, `denied-by-${algorithm}`);
      const shownCounts = columns.map(({ title }) => numberOf(/: ([\d,]+) of/.exec(title)![1]));
      expect(shownCounts).toEqual(result.timeline.series[algorithm]);
      const sum = columns.reduce((all, { heights: drawn }) => all + (drawn.denied ?? 0), 0);
      heights.push(sum / denied);
    }
    for (const each of heights) expect(each).toBeCloseTo(heights[0], 3);
  });
});

describe('the report of a suggestion', () => {
  const result = suggestResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('the suggestion report shows every window and its limits, also collapsed ones', async () => {
    const rows = await tableOf(opened.page, 'windows');
    expect(rows.map((row) => row.slice(1, 4).map(numberOf))).toEqual(
      result.windows.map(({ peak, knee, proposed }) => [peak, knee, proposed]),
    );
    for (const { windowMs, limits } of result.windows) {
      const shownRows = await tableOf(opened.page, `limits-${windowMs}`);
      expect(shownRows.map((row) => [row[0], row[1], row[3]].map(numberOf))).toEqual(
        limits.map(({ limit, clients, deniedRequests }) => [limit, clients, deniedRequests]),
      );
    }
    expect(opened.problems).toEqual([]);
  });

  test('the suggestion report draws the curve and marks the knee and the proposal', async () => {
    const { page } = opened;
    const chosen = result.windows.find(({ windowMs }) => windowMs === result.proposed.windowMs)!;
    const chart = page.locator(`#curve-${chosen.windowMs}`);
    const path = (await chart.locator('path.curve').getAttribute('d'))!;
    expect(path.match(/[MH]/g)).toHaveLength(chosen.curve.length + 1);
    const texts = await chart.locator('text').allTextContents();
    expect(texts).toContain(`knee ${chosen.knee}`);
    expect(texts).toContain(`proposed ${chosen.proposed}`);
    const [knee, proposed] = await chart
      .locator('line.dashed')
      .evaluateAll((lines) => lines.map((line) => line.getBoundingClientRect().left));
    expect(knee).toBeLessThan(proposed);
  });
});

/** Resolves to layout faults: overlapping text, and text beyond the edge of the page. */
const faultsOf = (page: Page): Promise<string[]> =>
  // Not `innerWidth`: on a phone, it grows with the page.
  page.evaluate((width) => {
    const faults: string[] = [];
    const wide = document.documentElement.scrollWidth - width;
    if (wide > 0) faults.push(`${wide} px too wide`);
    for (const picture of document.querySelectorAll('svg')) {
      if (picture.parentElement?.closest('svg')) continue;
      const words = [...picture.querySelectorAll('text')].map((text) => ({
        text: text.textContent!,
        box: text.getBoundingClientRect(),
      }));
      for (const [at, { text, box }] of words.entries()) {
        if (box.width === 0) continue;
        const isOut = box.left < 0 || box.right > width;
        if (isOut) faults.push(`${picture.id}: ${text} is cut`);
        for (const other of words.slice(at + 1)) {
          const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          if (across > 1 && down > 3) faults.push(`${picture.id}: ${text} over ${other.text}`);
        }
      }
    }
    return faults;
  }, page.viewportSize()!.width);

const addresses = new Map<string, string>();

/** Returns the address of a report, which is written once. */
function addressOf(name: string): string {
  const address = addresses.get(name) ?? write(results[name as keyof typeof results]());
  addresses.set(name, address);
  return address;
}

const SHOTS = process.env.SLUICE_SCREENSHOTS;

const SCHEMES = ['light', 'dark'] as const;

/** Returns the brightness of the background, from 0 to 255. */
async function backgroundOf(page: Page, scheme: (typeof SCHEMES)[number]): Promise<number> {
  await page.emulateMedia({ colorScheme: scheme });
  const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  return Number(/\d+/.exec(colour)![0]);
}

/** In the short form, the smaller phone is the only one. */
const isFull = process.env.TRAFFIC_CAMPAIGN === 'full' || SHOTS !== undefined;
const DEVICES = [
  ['desktop', { viewport: { width: 1280, height: 800 } }],
  ['phone', { viewport: { width: 390, height: 740 }, isMobile: true, hasTouch: true }],
  ['small phone', { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
] as const;

describe.each(DEVICES.filter(([name]) => isFull || name !== 'phone'))(
  'reports on a %s',
  (device, size) => {
    // One page for all reports, since each new one takes a process.
    let page: Page;
    beforeAll(async () => {
      page = await (await browser.newContext({ offline: true, ...size })).newPage();
    });
    afterAll(() => page.context().close());

    test.each(Object.keys(results))(
      'no part of the %s report is cut off or overlaps',
      async (name) => {
        await page.goto(addressOf(name));
        await page.evaluate(() => {
          for (const each of document.querySelectorAll('details')) each.open = true;
        });
        expect(await faultsOf(page)).toEqual([]);
        // The devices have the same colours.
        for (const scheme of isFull || device === 'desktop' ? SCHEMES : []) {
          const background = await backgroundOf(page, scheme);
          if (scheme === 'dark') expect(background).toBeLessThan(60);
          else expect(background).toBeGreaterThan(200);
          if (SHOTS === undefined) continue;
          const path = join(SHOTS, `${name}-${scheme}-${size.viewport.width}.png`);
          await page.screenshot({ path, fullPage: true });
        }
      },
    );
  },
);
