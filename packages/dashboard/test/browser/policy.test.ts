/** The page of a policy: its numbers, and what is changed there counts for the very next call. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Running, startRunning } from '../../../server/test/running.ts';
import { Load, POLICIES, remembered, sum } from './load.ts';
import { picture } from './picture.ts';
import {
  answer,
  cellsOf,
  eventually,
  go,
  isLive,
  isShown,
  numberOf,
  recordsOf,
  toldBy,
  useBrowser,
  visit,
} from './stage.ts';

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let noises: string[];
beforeAll(async () => {
  running = await startRunning({ config: { policies: POLICIES } });
  load = new Load(running);
  ({ page, noises } = await visit(browser(), running.url, '#/policy/perMinute?range=1'));
  await isLive(page);
});
afterAll(async () => {
  await load.stop();
  await running.close();
});

const check = async (policy: string, key: string) =>
  (await running.post('/v1/check', { policy, key })).json;

const row = (key: string) =>
  page.getByRole('region', { name: 'Overrides' }).getByRole('row').filter({ hasText: key });

describe('the numbers of a policy', () => {
  test('its chart moves, and its table has what the service remembers of it', async () => {
    const canvas = page.getByRole('img', { name: /^Calls a second/ }).locator('canvas');
    const before = await picture(canvas);
    expect(before.colours).toBeGreaterThan(3);
    await eventually(async () => (await picture(canvas)).digest).not.toBe(before.digest);
    const denials = async () => [...(await remembered(running, 'perMinute')).values()].at(-1)![1];
    await eventually(denials).toBeGreaterThan(0);
    await isShown(page, [...(await remembered(running)).keys()].at(-1)!);
    await page.getByText('As a table', { exact: true }).click();
    const rows = await cellsOf(page.getByRole('table', { name: /^Calls a second/ }));
    const known = await remembered(running, 'perMinute');
    expect(rows).toHaveLength(60);
    for (const [time, ...counts] of rows) {
      expect(counts.map(Number), time).toEqual(known.get(time)!.slice(0, 4));
    }
    expect(sum(rows.map(([, , denied]) => Number(denied)))).toBeGreaterThan(0);
  });

  test('how full its fullest key was is drawn, and told as a table', async () => {
    const strip = page.getByRole('img', { name: /^perMinute: fullest key 100 %/ });
    expect((await picture(strip)).colours).toBeGreaterThan(1);
    await page.getByText('Fullest key as a table').click();
    const rows = await cellsOf(page.getByRole('table', { name: /^How full/ }));
    expect(rows.some(([, text]) => /^fullest key 100 %, \d+ calls? denied$/.test(text))).toBe(true);
    const { json } = await running.get('/v1/series?seconds=600&policy=perMinute');
    const told = rows.map(([, text]) => numberOf(/([\d,]+) calls? denied/.exec(text)?.[1] ?? '0'));
    // What came while it was asked is in one and not yet in the other.
    expect(sum(told)).toBeLessThanOrEqual(sum(json.policies[0].denied));
    expect(sum(told)).toBeGreaterThan(0);
  });

  test.each(['denied', 'allowed'] as const)(
    'who was %s most is who the service says',
    async (by) => {
      await load.stop();
      const title = by === 'denied' ? 'Most denied' : 'Most used';
      const shown = async () =>
        (await recordsOf(page.getByRole('table', { name: title }))).map(({ Key, Calls }) => [
          Key,
          numberOf(Calls),
        ]);
      const { json } = await running.get(`/v1/top?policy=perMinute&by=${by}&count=15`);
      const keys = json.keys as { key: string; atLeast: number; atMost: number }[];
      expect(keys.length).toBeGreaterThan(3);
      await eventually(shown).toEqual(keys.map(({ key, atMost }) => [key, atMost]));
      load.start();
    },
  );
});

describe('an override that is made in the page', () => {
  test('counts for the very next call', async () => {
    expect((await check('perMinute', 'ada')).limit).toBe(5);
    await page.getByRole('button', { name: 'Add an override' }).click();
    await answer(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Key or pattern').fill('ada');
      await dialog.getByLabel('Limit').fill('1');
      await dialog.getByLabel('Reason').fill('too much at once');
    });
    expect(await check('perMinute', 'ada')).toMatchObject({ allowed: false, limit: 1 });
    await row('ada').waitFor();
    expect(await row('ada').textContent()).toContain('too much at once');
    expect(await toldBy(page).textContent()).toContain('The override of ada counts.');
  });

  test('is changed', async () => {
    await page.getByRole('button', { name: 'Edit the override of ada' }).click();
    await answer(page, 'Save', async (dialog) => {
      expect(await dialog.getByLabel('Limit').inputValue()).toBe('1');
      expect(await dialog.getByLabel('Reason').inputValue()).toBe('too much at once');
      await dialog.getByLabel('Limit').fill('100');
    });
    expect(await check('perMinute', 'ada')).toMatchObject({ allowed: true, limit: 100 });
  });

  test('is removed', async () => {
    await page.getByRole('button', { name: 'Remove the override of ada' }).click();
    await answer(page, 'Remove');
    expect(await check('perMinute', 'ada')).toMatchObject({ limit: 5 });
    await eventually(() => row('ada').count()).toBe(0);
  });

  test('is for all keys that a pattern fits', async () => {
    await page.getByRole('button', { name: 'Add an override' }).click();
    await answer(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Key or pattern').fill('team:*');
      await dialog.getByLabel('Limit').fill('77');
      await dialog.getByLabel('Counts').selectOption({ label: 'until it is removed' });
    });
    expect((await check('perMinute', 'team:7')).limit).toBe(77);
    expect((await check('perMinute', 'another')).limit).toBe(5);
    const { json } = await running.get('/v1/overrides?policy=perMinute');
    expect(json.overrides).toEqual([
      { policy: 'perMinute', key: 'team:*', limit: 77, source: 'api', persisted: false },
    ]);
  });

  test.each([
    ['', '5', 'Expected a key'],
    ['bob', 'many', 'Expected a whole number of at least 1'],
    ['bob', '0', 'Expected'],
  ])('for `%s` with a limit of `%s` is refused, and says why', async (key, limit, why) => {
    await page.getByRole('button', { name: 'Add an override' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Key or pattern').fill(key);
    await dialog.getByLabel('Limit').fill(limit);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await dialog.getByText(why).waitFor();
    expect(await dialog.locator('[aria-invalid=true]').count()).toBe(1);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await running.get('/v1/overrides?policy=perMinute')).json.overrides).toHaveLength(1);
  });

  test('is asked for again in the very moment in which it is called off', async () => {
    const opener = page.getByRole('button', { name: 'Add an override' });
    await opener.click();
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await opener.evaluate((button) => {
      document.querySelector('dialog')!.close();
      (button as HTMLElement).click();
    });
    await dialog.getByLabel('Key or pattern').fill('still there');
    await page.keyboard.press('Escape');
    await eventually(() => page.locator('dialog').count()).toBe(0);
  });

  test('appears when somebody else makes it', async () => {
    await running.post('/v1/overrides', { policy: 'perMinute', key: 'eve', limit: 3 });
    await row('eve').waitFor();
    await running.ask('DELETE', '/v1/overrides/perMinute/eve');
    await eventually(() => row('eve').count()).toBe(0);
  });
});

describe('a policy in shadow', () => {
  const enforced = async () => {
    const { json } = await running.post('/v1/check', { policy: 'shadowed', key: 'user:1' });
    return json.shadow === undefined;
  };

  test('is enforced from the very next call on, and put in shadow again', async () => {
    await go(page, '#/policy/shadowed');
    await page.getByText(/If this were on, .*clients? would have been denied/).waitFor();
    expect(await enforced()).toBe(false);
    await page.getByRole('button', { name: 'Enforce it' }).click();
    await answer(page, 'Enforce it');
    expect(await enforced()).toBe(true);
    expect((await check('shadowed', 'user:1')).allowed).toBe(false);
    await page.getByRole('button', { name: 'Put in shadow' }).click();
    await answer(page, 'Put in shadow');
    expect(await enforced()).toBe(false);
    await page.getByRole('button', { name: 'As the files say' }).click();
    await answer(page, 'As the files say');
    expect((await running.get('/v1/policies/shadowed')).json).toMatchObject({
      shadow: true,
      shadowBy: 'file',
    });
  });

  test('tells how many it would have denied, as the service counts them', async () => {
    await load.stop();
    const { json } = await running.get('/v1/top?policy=shadowed&by=denied&count=200');
    const story = () => page.getByText(/If this were on,/).textContent();
    await eventually(async () => numberOf(/([\d,]+) calls?/.exec((await story())!)![1])).toBe(
      json.hits,
    );
    expect(await story()).toContain(`${json.keys.length} clients`);
    load.start();
  });
});

test('a key is looked up from the page of its policy', async () => {
  await go(page, '#/policy/perMinute');
  await page.getByLabel('See a key').fill('user:3');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'user:3' }).waitFor();
  expect(page.url()).toMatch(/#\/key\/perMinute\/user%3A3$/);
});

test('range is in the address, and a reload keeps it', async () => {
  await go(page, '#/policy/perMinute');
  await page.getByRole('button', { name: '10 min', exact: true }).click();
  expect(page.url()).toMatch(/#\/policy\/perMinute\?range=10$/);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'perMinute' }).waitFor();
  const button = page.getByRole('button', { name: '10 min', exact: true });
  expect(await button.getAttribute('aria-pressed')).toBe('true');
});

test('a policy that is not there says so, and which are', async () => {
  await go(page, '#/policy/nothing');
  await page.getByRole('heading', { level: 1, name: 'There is no policy nothing' }).waitFor();
  await page.getByRole('link', { name: 'perMinute' }).click();
  await page.getByRole('heading', { level: 1, name: 'perMinute' }).waitFor();
});

test('nothing of all that went wrong but what was refused', () => {
  expect(noises.filter((noise) => !noise.includes('400 (Bad Request)'))).toEqual([]);
});
