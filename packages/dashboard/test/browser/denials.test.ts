/** The page of recent denials: reasons, filters and pausing. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { type Check, Load } from './load.ts';
import { eventually, go, isLive, numberOf, recordsOf, useBrowser, visit } from './stage.ts';

const POLICIES = [
  policy('log', 2, '1h', { algorithm: 'sliding-log' }),
  policy('window', 2, '1d', { algorithm: 'fixed-window' }),
  policy('bucket', 4, '1d', { algorithm: 'token-bucket' }),
  policy('shadowed', 1, '1h', { shadow: true }),
];

const calls = (turn: number): readonly Check[] => [
  { policy: 'log', key: `user:${turn % 3}` },
  { policy: 'window', key: 'ada' },
  { policy: 'bucket', key: 'ada', cost: 3 },
  { policy: 'shadowed', key: `user:${turn % 3}` },
];

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let problems: string[];
beforeAll(async () => {
  running = await startRunning({ config: { policies: POLICIES } });
  load = new Load(running, calls);
  ({ page, problems } = await visit(browser(), running.url, '#/denials'));
  await isLive(page);
});
beforeEach(() => load.start());
afterAll(async () => {
  await load.stop();
  await running.close();
});

const denials = () => page.getByRole('table', { name: /^Denials/ });
const shown = async () => ((await denials().count()) === 0 ? [] : recordsOf(denials()));
const policies = async () => [...new Set((await shown()).map(({ Policy }) => Policy))];
const firstOf = async (policy: string) => (await shown()).find((each) => each.Policy === policy);
/** The number of denials in the status line. */
const countIn = (text: string | null): number => numberOf(/([\d,]+) denials?/.exec(text!)![1]);
const state = () => page.locator('.denials-state').textContent();

test.each([
  ['log', /^2 of 2 used in a window of 1 h; this call costs 1; retry in (?:1 h|59 min)/],
  ['window', /^2 of 2 used in a window of 1 d; this call costs 1; retry in /],
  ['bucket', /^1 of 4 tokens available; this call costs 3; retry in /],
  [
    'shadowed',
    /^would have been denied 1 of 1 used in a window of 1 h; this call costs 1; retry in /,
  ],
])('the denials page shows why the policy %s denied a call', async (policy, reason) => {
  await eventually(async () => (await firstOf(policy))?.['Last reason']).toMatch(reason);
});

test('the denials page lists the newest denials first', async () => {
  const newest = async () => (await shown())[0]['Last denial'];
  const before = await newest();
  await eventually(newest).not.toBe(before);
  const times = (await shown()).map((row) => row['Last denial']);
  expect(times).toEqual([...times].sort().reverse());
});

test('the denials page counts the denials that clients received', async () => {
  await load.rest();
  await page.reload();
  await isLive(page);
  await eventually(state).toMatch(/^0 denials/);
  const before = { ...load.received };
  load.start();
  await eventually(async () => countIn(await state())).toBeGreaterThan(0);
  await load.rest();
  const { denied, shadowDenied } = load.received;
  const all = denied + shadowDenied - before.denied - before.shadowDenied;
  await eventually(async () => countIn(await state())).toBe(all);
  expect(await state()).toMatch(/denials of 8 keys since/);
});

test('the denials page has one row per policy and key, with the number of denials', async () => {
  await load.rest();
  const sumOf = (rows: Awaited<ReturnType<typeof shown>>): number =>
    rows.reduce((sum, { Denials }) => sum + numberOf(Denials), 0);
  await eventually(async () => sumOf(await shown()) - countIn(await state())).toBe(0);
  const rows = await shown();
  const names = rows.map(({ Policy, Key }) => `${Policy} ${Key}`);
  expect(names).toHaveLength(8);
  expect(new Set(names).size).toBe(8);
  const counts = rows.map(({ Denials }) => numberOf(Denials));
  await page.getByRole('button', { name: 'Denials' }).click();
  expect(page.url()).toMatch(/sort=-count$/);
  const sorted = async () => (await shown()).map(({ Denials }) => numberOf(Denials));
  await eventually(sorted).toEqual(counts.toSorted((a, b) => b - a));
  await go(page, '#/denials');
});

test('the policy filter of the denials page survives a reload', async () => {
  await page.getByLabel('Policy', { exact: true }).selectOption('window');
  await eventually(policies).toEqual(['window']);
  await page.reload();
  await eventually(policies).toEqual(['window']);
  expect(await page.getByLabel('Policy', { exact: true }).inputValue()).toBe('window');
  expect(page.url()).toMatch(/#\/denials\?policy=window$/);
});

test('the key filter of the denials page survives a reload', async () => {
  await page.getByLabel('Policy', { exact: true }).selectOption('all');
  await page.getByLabel('Key', { exact: true }).fill('*:2');
  const keys = async () => [...new Set((await shown()).map(({ Key }) => Key))];
  await eventually(keys).toEqual(['user:2']);
  await page.reload();
  await eventually(keys).toEqual(['user:2']);
  expect(await page.getByLabel('Key', { exact: true }).inputValue()).toBe('*:2');
});

test('a filter that matches no denial offers to show all denials', async () => {
  await page.getByLabel('Key', { exact: true }).fill('unused');
  await page.getByText(/match the filter/).waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await denials().waitFor();
  expect(page.url()).toMatch(/#\/denials$/);
});

test('Pause freezes the denials page and counts new denials, and Resume shows them', async () => {
  await go(page, '#/denials');
  await denials().waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await eventually(state).toMatch(/^Paused/);
  const before = await shown();
  await eventually(async () => countIn(await state())).toBeGreaterThan(5);
  expect(await shown()).toEqual(before);
  await page.getByRole('button', { name: 'Resume' }).click();
  await eventually(async () => (await shown())[0]).not.toEqual(before[0]);
});

test('a row of the denials page links to the page of its key', async () => {
  await go(page, '#/denials?policy=window');
  await eventually(policies).toEqual(['window']);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('link', { name: 'ada' }).first().click();
  await page.getByRole('heading', { level: 1, name: 'ada' }).waitFor();
  expect(page.url()).toMatch(/#\/key\/window\/ada$/);
});

test('the browser reports no errors on the denials page', () => {
  expect(problems).toEqual([]);
});
