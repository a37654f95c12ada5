/** The page of a key: its sliding window, its numbers and its actions. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { durationText } from '../../src/view/format.ts';
import { Load } from './load.ts';
import {
  cellsOf,
  eventually,
  go,
  noticeOf,
  numberOf,
  submitDialog,
  useBrowser,
  type Visit,
  visit,
} from './stage.ts';

const LONG = [
  policy('log', 10, '1h', { algorithm: 'sliding-log' }),
  policy('counter', 1000, '1d', { algorithm: 'sliding-counter' }),
  policy('window', 10, '1d', { algorithm: 'fixed-window' }),
  policy('bucket', 10, '1d', { algorithm: 'token-bucket' }),
  policy('parts', 10, '1h', { algorithm: 'sliding-buckets', buckets: 60 }),
];
const SHORT = policy('short', 16, '4s', { algorithm: 'sliding-log' });
const SHADOWED = policy('shadowed', 2, '1h', { shadow: true });

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let problems: string[];
beforeAll(async () => {
  running = await startRunning({ config: { policies: [...LONG, SHORT, SHADOWED] } });
  load = new Load(running, () => [{ policy: 'short', key: 'busy' }]);
  ({ page, problems } = await visit(browser(), running.url, '#/key/short/busy'));
});
afterAll(async () => {
  await load.stop();
  await running.close();
});

const check = async (policy: string, key: string, cost = 1) =>
  (await running.post('/v1/check', { policy, key, cost })).json;

/** The tiles by name: `Used` is `7 of 10`. */
const tilesOf = (at: Page): Promise<Record<string, string>> =>
  at
    .locator('dl.tiles > div')
    .evaluateAll((tiles) =>
      Object.fromEntries(
        tiles.map((tile) => [
          tile.querySelector('dt')!.textContent,
          tile.querySelector('dd')!.textContent!.replace(/\s+/g, ' ').trim(),
        ]),
      ),
    );

/** `13:05:59.123` */
const timeText = (timeMs: number): string => new Date(timeMs).toISOString().slice(11, 23);

const windowOf = (at: Page) =>
  at.getByRole('region', { name: /^Admissions in|^Windows of|^Token level/ }).getByRole('img');

describe('a key under load', () => {
  test('the window of a busy key slides, and its label changes', async () => {
    const shape = () => windowOf(page).evaluate((svg) => svg.innerHTML);
    const [before, label] = [await shape(), await windowOf(page).getAttribute('aria-label')];
    await eventually(shape).not.toBe(before);
    await eventually(() => windowOf(page).getAttribute('aria-label')).not.toBe(label);
    await eventually(async () => (await tilesOf(page))['Next call admitted']).toMatch(/^in /);
  });

  test('all numbers on a key page are from one report, whose time is shown', async () => {
    const reports = new Map<string, { used: number; remaining: number; nextMs: number }>();
    page.on('response', async (response) => {
      if (!response.url().includes('/v1/keys?')) return;
      const report = await response.json().catch(() => undefined);
      if (report !== undefined) reports.set(timeText(report.atMs), report);
    });
    const samples = await page.evaluate(
      () =>
        new Promise<string[][]>((resolve) => {
          const all: string[][] = [];
          const text = (selector: string) => document.querySelector(selector)!.textContent!;
          const timer = setInterval(() => {
            const tiles = [...document.querySelectorAll('dl.tiles dd b')].map((each) =>
              each.textContent!.trim().replaceAll('\u00a0', ' '),
            );
            const label = document.querySelector('.window svg')!.getAttribute('aria-label')!;
            all.push([text('.as-of').replace('at ', ''), ...tiles, label]);
            if (all.length < 100) return;
            clearInterval(timer);
            resolve(all);
          }, 20);
        }),
    );
    const first = samples.findIndex(([time]) => reports.has(time));
    const known = samples.slice(first);
    // At least four polls in two seconds, on a busy machine too.
    expect(new Set(known.map(([time]) => time)).size).toBeGreaterThanOrEqual(4);
    for (const [time, used, remaining, , next, , label] of known) {
      const report = reports.get(time)!;
      const nextText = report.nextMs === 0 ? 'now' : `in ${durationText(report.nextMs)}`;
      expect([time, used, remaining, next]).toEqual([
        ...[time, String(report.used), String(report.remaining), nextText],
      ]);
      expect(label).toMatch(new RegExp(`^${report.used} of 16 used`));
    }
  });
});

describe.each(LONG.map(({ name }) => name))('a key under the policy %s', (name) => {
  test('the tiles of a key page have the numbers that the service reports', async () => {
    for (const cost of [1, 2, 1]) await check(name, 'ada', cost);
    await go(page, `#/key/${name}/ada?cost=6`);
    const { json } = await running.get(`/v1/keys/${name}/ada`);
    expect(json).toMatchObject({ used: 4, nextMs: 0 });
    await eventually(() => tilesOf(page)).toMatchObject({
      Used: `${json.used} of ${numberText(json.limit)}`,
      'Next call admitted': 'now for cost 1',
    });
    const tiles = await tilesOf(page);
    expect(numberOf(tiles.Remaining)).toBe(json.remaining);
    expect(numberOf(tiles.Limit.split(' ')[0])).toBe(json.limit);
    expect(await windowOf(page).getAttribute('aria-label')).toContain(numberText(json.limit));
    const { json: peek } = await running.post('/v1/peek', { policy: name, key: 'ada', cost: 6 });
    expect(peek.allowed).toBe(true);
    await page.getByText('is admitted now').waitFor();
  });
});

const numberText = (value: number): string => value.toLocaleString('en-US');

test('a key page lists the entries of a sliding log as recent admissions', async () => {
  await go(page, '#/key/log/ada');
  const { json } = await running.get('/v1/keys/log/ada');
  const table = page.getByRole('table', { name: /^Recent admissions/ });
  const shown = async () => (await cellsOf(table)).map(([when, cost]) => [when, Number(cost)]);
  const entries = json.entries as { atMs: number; cost: number }[];
  const expected = entries.map(({ atMs, cost }) => [timeText(atMs), cost]);
  await eventually(shown).toEqual(expected.reverse());
});

test('a key page shows the wait for a given cost, also after a reload', async () => {
  await go(page, '#/key/log/ada');
  await page.getByLabel('A call of cost').fill('7');
  await page.getByText(/^is admitted in /).waitFor();
  expect(page.url()).toMatch(/\?cost=7$/);
  await page.getByLabel('A call of cost').fill('11');
  await page.getByText('never admitted: the limit is 10').waitFor();
  await page.reload();
  await page.getByText('never admitted: the limit is 10').waitFor();
  expect(await page.getByLabel('A call of cost').inputValue()).toBe('11');
});

describe('actions on a key', () => {
  test('the reset button of a key page restores the limit of the key', async () => {
    await check('log', 'bob', 10);
    expect((await check('log', 'bob')).allowed).toBe(false);
    await go(page, '#/key/log/bob');
    await eventually(async () => (await tilesOf(page)).Used).toBe('10 of 10');
    await page.getByRole('button', { name: 'Reset' }).click();
    await submitDialog(page, 'Reset');
    expect(await check('log', 'bob')).toMatchObject({ allowed: true, remaining: 9 });
    expect(await noticeOf(page).textContent()).toBe('bob reset');
    await eventually(async () => (await tilesOf(page)).Used).toBe('1 of 10');
  });

  test('an override set or removed on a key page applies to the next call', async () => {
    await page.getByRole('button', { name: 'Set override' }).click();
    await submitDialog(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Limit').fill('25');
      await dialog.getByLabel('Reason').fill('migration');
    });
    expect((await check('log', 'bob')).limit).toBe(25);
    await page.getByText('Reason: “migration”').or(page.getByText('migration')).first().waitFor();
    await eventually(async () => (await tilesOf(page)).Used).toBe('2 of 25');
    await page.getByRole('button', { name: 'Remove override' }).click();
    await submitDialog(page, 'Remove');
    expect((await check('log', 'bob')).limit).toBe(10);
    await page.getByRole('button', { name: 'Set override' }).waitFor();
  });
});

test('a reset that is cancelled in the dialog does not change the key', async () => {
  await page.getByRole('button', { name: 'Reset' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  expect((await running.get('/v1/keys/log/bob')).json.used).toBe(3);
});

test('the page of a key without state shows a command that sends a call', async () => {
  await go(page, '#/key/log/unused');
  await page.getByText('The store has no state for this key').waitFor();
  const text = await page.getByText('curl -s').textContent();
  expect(text).toContain(`${running.url}/v1/check`);
  expect(text).toContain('{"policy":"log","key":"unused"}');
});

test('the page of a key of a shadow policy has a shadow badge', async () => {
  await check('shadowed', 'ada', 2);
  await go(page, '#/key/shadowed/ada');
  await page.locator('.badge.shadow').waitFor();
  await eventually(async () => (await tilesOf(page)).Used).toBe('2 of 2');
});

test('the page of a key reports an unknown policy', async () => {
  const { page: other, problems: own }: Visit = await visit(
    browser(),
    running.url,
    '#/key/nothing/ada',
  );
  await other.getByText('Unknown policy.').waitFor();
  expect(own.filter((problem) => !problem.includes('404 (Not Found)'))).toEqual([]);
  await other.context().close();
});

test('the browser reports no errors on key pages', () => {
  expect(problems).toEqual([]);
});
