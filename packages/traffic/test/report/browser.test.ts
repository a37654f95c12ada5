/// <reference lib="dom" />
/** The pages in a real browser without a network: what they show is what the results say. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { htmlReport, type ReportedResult } from '../../src/index.ts';
import { compareResult, NASTY, planResult, suggestResult } from './results.ts';

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

const folder = mkdtempSync(join(tmpdir(), 'sluice-report-'));
let browser: Browser;
beforeAll(async () => {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  browser = await chromium.launch({ executablePath, args: FLAGS });
}, 120_000);
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

interface Opened {
  readonly page: Page;
  /** What went wrong, was asked for, or popped up. */
  readonly noises: readonly string[];
}

async function open(result: ReportedResult, look: object = {}): Promise<Opened> {
  const path = join(folder, `${result.kind}.html`);
  writeFileSync(path, htmlReport(result));
  const context = await browser.newContext({ offline: true, ...look });
  const page = await context.newPage();
  const noises: string[] = [];
  const { href } = pathToFileURL(path);
  page.on('console', (message) => noises.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => noises.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    noises.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== href) noises.push(`request: ${request.url()}`);
  });
  await page.goto(href);
  return { page, noises };
}

/** A table as its texts. */
const tableOf = (page: Page, id: string): Promise<string[][]> =>
  page
    .locator(`#${id} tbody tr`)
    .evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent!.trim())),
    );

const numberOf = (text: string): number => Number(text.replace(/[^\d.]/g, ''));

interface DrawnColumn {
  readonly title: string;
  readonly heights: Readonly<Record<string, number>>;
}

/** The columns of a chart over time, as they are drawn. */
const columnsOf = (page: Page, id: string): Promise<DrawnColumn[]> =>
  page.locator(`#${id} > g`).evaluateAll((groups) =>
    groups.map((group) => ({
      title: group.querySelector('title')!.textContent!,
      heights: Object.fromEntries(
        [...group.querySelectorAll('.column')].map((rect) => [
          rect.getAttribute('class')!.replace('column ', ''),
          rect.getBoundingClientRect().height,
        ]),
      ),
    })),
  );

describe('the page of a plan', () => {
  const result = planResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('tells the numbers of the plan', async () => {
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
      result.policies.map(({ denied: toll }) => [
        toll.requests,
        toll.clients,
        toll.ordinaryClients,
      ]),
    );
  });

  test('draws each bucket as high as its numbers, one upon the other', async () => {
    const columns = await columnsOf(opened.page, 'over-time');
    const { requests, denied, shadow, today } = result.timeline.series;
    expect(columns).toHaveLength(requests.length);
    const most = Math.max(...requests);
    const fullest = columns[requests.indexOf(most)].heights;
    const perRequest = (fullest.allowed + fullest.denied + (fullest.shadow ?? 0)) / most;
    expect(perRequest * most).toBeGreaterThan(80);
    for (const [at, { title, heights }] of columns.entries()) {
      const told = [...title.split(': ')[1].matchAll(/\d[\d,]*/g)].map(([each]) => numberOf(each));
      expect(told).toEqual([requests[at], denied[at], shadow[at], today[at]]);
      expect(heights.denied ?? 0).toBeCloseTo(perRequest * denied[at], 0);
      expect(heights.shadow ?? 0).toBeCloseTo(perRequest * shadow[at], 0);
      const allowed = requests[at] - denied[at] - shadow[at];
      expect(heights.allowed ?? 0).toBeCloseTo(perRequest * allowed, 0);
    }
    const line = await opened.page.locator('#over-time path.today').getAttribute('d');
    expect(line!.match(/[ML]/g)).toHaveLength(requests.length);
  });

  test('names of others are text, whatever they are', async () => {
    const { page, noises } = opened;
    const [first] = await tableOf(page, 'top-clients');
    expect(first[0]).toContain(NASTY);
    expect(first.slice(2, 4).map(numberOf)).toEqual([
      result.topClients[0].requests,
      result.topClients[0].denied,
    ]);
    expect(first[7]).toContain('POST /"><script>alert(2)</script>');
    expect(await page.locator('img, script').count()).toBe(0);
    expect(noises).toEqual([]);
  });

  test('what gets into the page all the same is not run', async () => {
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

describe('the page of a comparison', () => {
  const result = compareResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('tells what each algorithm decided', async () => {
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
    expect(opened.noises).toEqual([]);
  });

  test('draws the worst windows as long as they are, and the limit where it is', async () => {
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
      expect(bars[at].title).toContain(`(${worst!.count}), an adversary`);
      expect(bars[at].widths[0] / limit).toBeCloseTo(worst!.multiple, 1);
      expect(bars[at].widths[1] / limit).toBeCloseTo(adversary.multiple, 1);
    }
    expect(result.algorithms.at(-1)!.worst!.multiple).toBeGreaterThan(1.5);
  });

  test('draws what each denied, to the same scale', async () => {
    const heights: number[] = [];
    for (const { algorithm, denied } of result.algorithms) {
      const columns = await columnsOf(opened.page, `denied-by-${algorithm}`);
      const told = columns.map(({ title }) => numberOf(/: ([\d,]+) of/.exec(title)![1]));
      expect(told).toEqual(result.timeline.series[algorithm]);
      const sum = columns.reduce((all, { heights: drawn }) => all + (drawn.denied ?? 0), 0);
      heights.push(sum / denied);
    }
    for (const each of heights) expect(each).toBeCloseTo(heights[0], 3);
  });
});

describe('the page of a suggestion', () => {
  const result = suggestResult();
  let opened: Opened;
  beforeAll(async () => {
    opened = await open(result);
  });

  test('tells every window and its limits, also those that are folded', async () => {
    const rows = await tableOf(opened.page, 'windows');
    expect(rows.map((row) => row.slice(1, 4).map(numberOf))).toEqual(
      result.windows.map(({ mostAsked, knee, proposed }) => [mostAsked, knee, proposed]),
    );
    for (const { windowMs, limits } of result.windows) {
      const told = await tableOf(opened.page, `limits-${windowMs}`);
      expect(told.map((row) => [row[0], row[1], row[3]].map(numberOf))).toEqual(
        limits.map(({ limit, clients, deniedRequests }) => [limit, clients, deniedRequests]),
      );
    }
    expect(opened.noises).toEqual([]);
  });

  test('draws the curve through its points, and the marks where they are', async () => {
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

describe.each([
  ['desktop', { viewport: { width: 1200, height: 800 } }],
  ['phone', { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
])('on a %s', (_, size) => {
  test.each(['light', 'dark'] as const)('%s: nothing is wider than the page', async (scheme) => {
    const grounds = new Set<string>();
    for (const result of [planResult(), compareResult(), suggestResult()]) {
      const { page } = await open(result, { ...size, colorScheme: scheme });
      const { wide, ground } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - window.innerWidth,
        ground: getComputedStyle(document.body).backgroundColor,
      }));
      expect(wide).toBeLessThanOrEqual(0);
      grounds.add(ground);
      const shot = await page.screenshot({ fullPage: true });
      expect(shot.length).toBeGreaterThan(20_000);
      if (process.env.SLUICE_SCREENSHOTS) {
        const name = `${result.kind}-${scheme}-${size.viewport.width}.png`;
        writeFileSync(join(process.env.SLUICE_SCREENSHOTS, name), shot);
      }
      await page.context().close();
    }
    const [ground] = grounds;
    expect(grounds.size).toBe(1);
    const light = Number(/\d+/.exec(ground)![0]);
    if (scheme === 'dark') expect(light).toBeLessThan(60);
    else expect(light).toBeGreaterThan(200);
  });
});
