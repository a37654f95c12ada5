/** The page of a key: its window as it slides, its numbers, and what is done to it there. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { Load } from './load.ts';
import {
  answer,
  cellsOf,
  eventually,
  go,
  numberOf,
  toldBy,
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
const SHORT = policy('short', 40, '4s', { algorithm: 'sliding-log' });
const SHADOWED = policy('shadowed', 2, '1h', { shadow: true });

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let noises: string[];
beforeAll(async () => {
  running = await startRunning({ config: { policies: [...LONG, SHORT, SHADOWED] } });
  load = new Load(running, () => [{ policy: 'short', key: 'busy' }]);
  ({ page, noises } = await visit(browser(), running.url, '#/key/short/busy'));
});
afterAll(async () => {
  await load.stop();
  await running.close();
});

const check = async (policy: string, key: string, cost = 1) =>
  (await running.post('/v1/check', { policy, key, cost })).json;

/** What the tiles say: `Used` to `7 of 10`. */
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

const windowOf = (at: Page) =>
  at.getByRole('region', { name: /, the last|each of|over/ }).getByRole('img');

describe('a key under load', () => {
  test('its window slides, and what it says goes along', async () => {
    const shape = () => windowOf(page).evaluate((svg) => svg.innerHTML);
    const [before, label] = [await shape(), await windowOf(page).getAttribute('aria-label')];
    await eventually(shape).not.toBe(before);
    await eventually(() => windowOf(page).getAttribute('aria-label')).not.toBe(label);
    await eventually(async () => (await tilesOf(page))['Next call of cost 1']).toMatch(/^in /);
  });

  test('who wants nothing to move has it move only with what the service tells', async () => {
    const still = await visit(browser(), running.url, '#/key/short/busy', {
      reducedMotion: 'reduce',
    });
    await windowOf(still.page).waitFor();
    const drawings = (at: Page): Promise<number> =>
      windowOf(at).evaluate(
        (svg) =>
          new Promise<number>((resolve) => {
            let count = 0;
            const watch = new MutationObserver(() => count++);
            watch.observe(svg, { subtree: true, attributes: true, childList: true });
            setTimeout(() => resolve(count), 1500);
          }),
      );
    const [moving, unmoved] = await Promise.all([drawings(page), drawings(still.page)]);
    expect(unmoved).toBeLessThan(8);
    expect(moving).toBeGreaterThan(unmoved);
    await still.page.context().close();
  });
});

describe.each(LONG.map(({ name }) => name))('a key under the policy %s', (name) => {
  test('has the numbers that the service has', async () => {
    for (const cost of [1, 2, 1]) await check(name, 'ada', cost);
    await go(page, `#/key/${name}/ada?cost=6`);
    const { json } = await running.get(`/v1/keys/${name}/ada`);
    expect(json).toMatchObject({ used: 4, nextMs: 0 });
    await eventually(() => tilesOf(page)).toMatchObject({
      [name === 'bucket' ? 'Taken' : 'Used']: `${json.used} of ${numberText(json.limit)}`,
      'Next call of cost 1': 'now',
    });
    const tiles = await tilesOf(page);
    expect(numberOf(tiles.Remaining)).toBe(json.remaining);
    expect(numberOf(tiles.Limit.split(' ')[0])).toBe(json.limit);
    expect(await windowOf(page).getAttribute('aria-label')).toContain(numberText(json.limit));
    const { json: peek } = await running.post('/v1/peek', { policy: name, key: 'ada', cost: 6 });
    expect(peek.allowed).toBe(true);
    await page.getByText('passes now').waitFor();
  });
});

const numberText = (value: number): string => value.toLocaleString('en-US');

test('the admissions of a log are its entries', async () => {
  await go(page, '#/key/log/ada');
  const { json } = await running.get('/v1/keys/log/ada');
  const table = page.getByRole('table', { name: /^Recent admissions/ });
  const shown = async () => (await cellsOf(table)).map(([when, cost]) => [when, Number(cost)]);
  const entries = json.entries as { atMs: number; cost: number }[];
  const expected = entries.map(({ atMs, cost }) => [
    new Date(atMs).toISOString().slice(11, 23),
    cost,
  ]);
  await eventually(shown).toEqual(expected.reverse());
});

test('a call of another cost is told what it would be told, and a reload keeps it', async () => {
  await go(page, '#/key/log/ada');
  await page.getByLabel('A call of cost').fill('7');
  await page.getByText(/^passes in /).waitFor();
  expect(page.url()).toMatch(/\?cost=7$/);
  await page.getByLabel('A call of cost').fill('11');
  await page.getByText('never passes: 10 is the most that ever fits').waitFor();
  await page.reload();
  await page.getByText('never passes: 10 is the most that ever fits').waitFor();
  expect(await page.getByLabel('A call of cost').inputValue()).toBe('11');
});

describe('what is done to a key in its page counts for the very next call:', () => {
  test('a reset', async () => {
    await check('log', 'bob', 10);
    expect((await check('log', 'bob')).allowed).toBe(false);
    await go(page, '#/key/log/bob');
    await eventually(async () => (await tilesOf(page)).Used).toBe('10 of 10');
    await page.getByRole('button', { name: 'Reset' }).click();
    await answer(page, 'Reset');
    expect(await check('log', 'bob')).toMatchObject({ allowed: true, remaining: 9 });
    expect(await toldBy(page).textContent()).toBe('bob is as good as new');
    await eventually(async () => (await tilesOf(page)).Used).toBe('1 of 10');
  });

  test('an override, and its end', async () => {
    await page.getByRole('button', { name: 'Set an override' }).click();
    await answer(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Limit').fill('25');
      await dialog.getByLabel('Reason').fill('migration');
    });
    expect((await check('log', 'bob')).limit).toBe(25);
    await page.getByText('Reason: “migration”').or(page.getByText('migration')).first().waitFor();
    await eventually(async () => (await tilesOf(page)).Used).toBe('2 of 25');
    await page.getByRole('button', { name: 'Remove the override' }).click();
    await answer(page, 'Remove');
    expect((await check('log', 'bob')).limit).toBe(10);
    await page.getByRole('button', { name: 'Set an override' }).waitFor();
  });
});

test('a reset that is called off changes nothing', async () => {
  await page.getByRole('button', { name: 'Reset' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  expect((await running.get('/v1/keys/log/bob')).json.used).toBe(3);
});

test('a key that nobody has asked for is as good as new, and says how to ask', async () => {
  await go(page, '#/key/log/nobody');
  await page.getByText('as good as new', { exact: true }).waitFor();
  const text = await page.getByText('curl -s').textContent();
  expect(text).toContain(`${running.url}/v1/check`);
  expect(text).toContain('{"policy":"log","key":"nobody"}');
});

test('a key of a policy in shadow says that it is', async () => {
  await check('shadowed', 'ada', 2);
  await go(page, '#/key/shadowed/ada');
  await page.getByText('in shadow').waitFor();
  await eventually(async () => (await tilesOf(page)).Used).toBe('2 of 2');
});

test('an address of no policy says so', async () => {
  const { page: other, noises: own }: Visit = await visit(
    browser(),
    running.url,
    '#/key/nothing/ada',
  );
  await other.getByText('The service has no policy of that name.').waitFor();
  expect(own.filter((noise) => !noise.includes('404 (Not Found)'))).toEqual([]);
  await other.context().close();
});

test('nothing of all that went wrong', () => {
  expect(noises).toEqual([]);
});
