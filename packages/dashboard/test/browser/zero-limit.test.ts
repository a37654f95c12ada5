/** Pages of policies with a limit of 0, which deny every call without counters. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../../server/src/config/read.ts';
import { type Running, startRunning } from '../../../server/test/running.ts';
import { cellsOf, eventually, go, isLive, recordsOf, useBrowser, visit } from './stage.ts';

const CONFIG = `
domain: shop
descriptors:
  - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quiet, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
`;
const browser = useBrowser();
let running: Running;
let page: Page;
let problems: string[];
/** Calls sent, by descriptor. */
const sent: Record<string, number> = { never: 0, quiet: 0 };

/** Sends one call of the user `ada` that matches the descriptor. */
async function call(key: string): Promise<void> {
  const descriptors = [{ entries: [{ key, value: 'ada' }] }];
  const { status } = await running.post('/json', { domain: 'shop', descriptors });
  expect(status).toBe(key === 'never' ? 429 : 200);
  sent[key]++;
}

beforeAll(async () => {
  const config = readConfig([{ path: 'envoy.yaml', text: CONFIG }]);
  running = await startRunning({ config });
  ({ page, problems } = await visit(browser(), running.url));
  await isLive(page);
});
afterAll(() => running.close());

const textOf = async () => (await page.locator('main').textContent())!.replace(/\s+/g, ' ');

/** No number was divided by the limit. */
async function expectNumbers(): Promise<void> {
  expect(await textOf()).not.toMatch(/NaN|Infinity|undefined|0 of 0/);
  const attributes = await page
    .locator('main svg *')
    .evaluateAll((all) => all.map((each) => each.outerHTML).join());
  expect(attributes).not.toMatch(/NaN|Infinity/);
}

test('the overview shows the denials of limits of 0', async () => {
  const rows = async () => {
    await call('never');
    await call('quiet');
    const records = await recordsOf(page.locator('table.policies'));
    return records.map(({ Policy, 'Denied %': share }) => [Policy, share]).sort();
  };
  await eventually(rows).toEqual([
    ['shop.never 0 per 1 min, denies every call', '100%'],
    ['shop.quiet shadow 0 per 1 min, denies every call', '100%'],
  ]);
  await expectNumbers();
});

test.each([
  ['never', 'All calls are denied', '1 key denied since'],
  ['quiet', 'no call is denied', '1 key would have been denied since'],
])(
  'the page of the policy shop.%s lists its denials and offers no change',
  async (key, mode, summary) => {
    const name = `shop.${key}`;
    await go(page, `#/policy/${name}`);
    await page.getByRole('heading', { level: 1, name }).waitFor();
    const top = page.getByRole('table', { name: /^Top keys by/ });
    await eventually(() => cellsOf(top)).toEqual([[`${key}:ada`, String(sent[key]), '100%']]);
    const text = await textOf();
    expect(text).toContain(mode);
    expect(text).toContain(summary);
    expect(text).toContain('can be changed only in the configuration files');
    // The service rejects checks, overrides and a shadow mode for these policies.
    expect(text).not.toMatch(/curl|Inspect key|Add override|Algorithm/);
    const modeCard = page.locator('section[aria-labelledby=shadow-title]');
    expect(await modeCard.getByRole('button').count()).toBe(0);
    await expectNumbers();
  },
);

test('the page of a key with a limit of 0 states that no state is stored', async () => {
  await go(page, '#/policy/shop.never');
  await page.getByRole('link', { name: 'never:ada' }).click();
  await page
    .getByText('The limit is 0: every call is denied, and no state is stored for keys.')
    .waitFor();
  expect(await textOf()).toContain('0 per 1 min, denies every call');
  await expectNumbers();
});

test('recent denials by a limit of 0 state the reason and no time to retry', async () => {
  await go(page, '#/denials');
  await call('never');
  const table = page.getByRole('table', { name: /^Denials/ });
  await table.getByText('the limit is 0, which denies every call').first().waitFor();
  expect(await table.textContent()).not.toMatch(/retry in/);
});

test('the browser reports no errors on pages of limits of 0', () => {
  expect(problems).toEqual([]);
});
