/** The page of a policy: its numbers, and changes that take effect with the next call. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Running, startRunning } from '../../../server/test/running.ts';
import { Load, POLICIES, remembered, sum } from './load.ts';
import { picture } from './picture.ts';
import {
  cellsOf,
  eventually,
  go,
  isLive,
  isShown,
  noticeOf,
  numberOf,
  PHONE,
  recordsOf,
  submitDialog,
  useBrowser,
  visit,
} from './stage.ts';

const GRAFANA_URL = 'https://grafana.example/d/sluice';

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let problems: string[];
beforeAll(async () => {
  const settings = { grafanaUrl: GRAFANA_URL };
  running = await startRunning({ config: { policies: POLICIES }, settings });
  load = new Load(running);
  ({ page, problems } = await visit(browser(), running.url, '#/policy/perMinute?range=1'));
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

describe('charts of a policy', () => {
  test('the chart of a policy moves, and its table has the series of the service', async () => {
    const canvas = page.getByRole('img', { name: /^Calls per second/ }).locator('canvas');
    const before = await picture(canvas);
    expect(before.colours).toBeGreaterThan(3);
    await eventually(async () => (await picture(canvas)).digest).not.toBe(before.digest);
    const denials = async () => [...(await remembered(running, 'perMinute')).values()].at(-1)![1];
    await eventually(denials).toBeGreaterThan(0);
    await isShown(page, [...(await remembered(running)).keys()].at(-1)!);
    await page.getByText('As a table', { exact: true }).click();
    const rows = await cellsOf(page.getByRole('table', { name: /^Calls per second/ }));
    const known = await remembered(running, 'perMinute');
    expect(rows.length).toBeGreaterThan(0);
    for (const [time, ...counts] of rows) {
      expect(counts.map(Number), time).toEqual(known.get(time)!.slice(0, 4));
    }
    expect(sum(rows.map(([, , denied]) => Number(denied)))).toBeGreaterThan(0);
  });

  test('the heat strip of a policy is drawn, and its table has full keys and denials', async () => {
    const strip = page.getByRole('img', { name: /^perMinute: the fullest key last used 100%/ });
    expect((await picture(strip)).colours).toBeGreaterThan(1);
    await page.getByText('Fullest key as a table').click();
    const rows = await cellsOf(page.getByRole('table', { name: /^Fullest key/ }));
    const isFull = ([, fullest, denied]: string[]): boolean =>
      fullest === '100%' && numberOf(denied) > 0;
    expect(rows.some(isFull)).toBe(true);
    const { json } = await running.get('/v1/series?seconds=600&policy=perMinute');
    const denied = rows.map(([, , text]) => numberOf(text));
    // The series was read later and may contain more.
    expect(sum(denied)).toBeLessThanOrEqual(sum(json.policies[0].denied));
    expect(sum(denied)).toBeGreaterThan(0);
  });

  test.each(['denied', 'allowed'] as const)(
    'the top keys by %s calls on a policy page are those that the service reports',
    async (by) => {
      await load.stop();
      const title = by === 'denied' ? 'Top keys by denials' : 'Top keys by admissions';
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

describe('an override', () => {
  test('an override added on a policy page applies to the next call', async () => {
    expect((await check('perMinute', 'ada')).limit).toBe(5);
    await page.getByRole('button', { name: 'Add override' }).click();
    await submitDialog(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Key or pattern').fill('ada');
      await dialog.getByLabel('Limit').fill('1');
      await dialog.getByLabel('Reason').fill('too much at once');
    });
    expect(await check('perMinute', 'ada')).toMatchObject({ allowed: false, limit: 1 });
    await row('ada').waitFor();
    expect(await row('ada').textContent()).toContain('too much at once');
    expect(await noticeOf(page).textContent()).toContain('Override for ada saved.');
  });

  test('an override edited on a policy page applies to the next call', async () => {
    await page.getByRole('button', { name: 'Edit the override of ada' }).click();
    await submitDialog(page, 'Save', async (dialog) => {
      expect(await dialog.getByLabel('Limit').inputValue()).toBe('1');
      expect(await dialog.getByLabel('Reason').inputValue()).toBe('too much at once');
      await dialog.getByLabel('Limit').fill('100');
    });
    expect(await check('perMinute', 'ada')).toMatchObject({ allowed: true, limit: 100 });
  });

  test('an override removed on a policy page does not apply to the next call', async () => {
    await page.getByRole('button', { name: 'Remove the override of ada' }).click();
    await submitDialog(page, 'Remove');
    expect(await check('perMinute', 'ada')).toMatchObject({ limit: 5 });
    await eventually(() => row('ada').count()).toBe(0);
  });

  test('an override with a pattern applies only to matching keys', async () => {
    await page.getByRole('button', { name: 'Add override' }).click();
    await submitDialog(page, 'Add', async (dialog) => {
      await dialog.getByLabel('Key or pattern').fill('team:*');
      await dialog.getByLabel('Limit').fill('77');
      await dialog.getByLabel('Expires').selectOption({ label: 'never, until removed' });
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
  ])(
    'an override for key `%s` with limit `%s` is rejected with a message',
    async (key, limit, message) => {
      await page.getByRole('button', { name: 'Add override' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Key or pattern').fill(key);
      await dialog.getByLabel('Limit').fill(limit);
      await dialog.getByRole('button', { name: 'Add', exact: true }).click();
      await dialog.getByText(message).waitFor();
      expect(await dialog.locator('[aria-invalid=true]').count()).toBe(1);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await dialog.waitFor({ state: 'detached' });
      expect((await running.get('/v1/overrides?policy=perMinute')).json.overrides).toHaveLength(1);
    },
  );

  test('a click on Add override while its dialog closes opens the dialog again', async () => {
    const opener = page.getByRole('button', { name: 'Add override' });
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

  test('a policy page shows overrides that another client adds and removes', async () => {
    await running.post('/v1/overrides', { policy: 'perMinute', key: 'eve', limit: 3 });
    await row('eve').waitFor();
    await running.request('DELETE', '/v1/overrides/perMinute/eve');
    await eventually(() => row('eve').count()).toBe(0);
  });
});

describe('a shadow policy', () => {
  const enforced = async () => {
    const { json } = await running.post('/v1/check', { policy: 'shadowed', key: 'user:1' });
    return json.shadow === undefined;
  };

  test('a policy can be enforced, put in shadow mode and reset to its file setting', async () => {
    await go(page, '#/policy/shadowed');
    await page.getByText(/If enforced, .*keys? would have been denied/).waitFor();
    expect(await enforced()).toBe(false);
    await page.getByRole('button', { name: 'Enforce' }).click();
    await submitDialog(page, 'Enforce');
    expect(await enforced()).toBe(true);
    expect((await check('shadowed', 'user:1')).allowed).toBe(false);
    await page.getByRole('button', { name: 'Use shadow mode' }).click();
    await submitDialog(page, 'Use shadow mode');
    expect(await enforced()).toBe(false);
    await page.getByRole('button', { name: 'Use file setting' }).click();
    await submitDialog(page, 'Use file setting');
    expect((await running.get('/v1/policies/shadowed')).json).toMatchObject({
      shadow: true,
      shadowBy: 'file',
    });
  });

  test('the page of a shadow policy shows the number of denials of the service', async () => {
    await load.stop();
    const { json } = await running.get('/v1/top?policy=shadowed&by=denied&count=200');
    const summary = () => page.getByText(/If enforced,/).textContent();
    await eventually(async () => numberOf(/([\d,]+) calls?/.exec((await summary())!)![1])).toBe(
      json.hits,
    );
    expect(await summary()).toContain(`${json.keys.length} keys`);
    load.start();
  });
});

describe('the search field in the header', () => {
  test.each(['#/overview', '#/policy/shadowed', '#/key/perMinute/bob', '#/denials', '#/lab'])(
    'the search field on %s opens the page of a key',
    async (hash) => {
      await go(page, hash);
      await page.getByLabel('Policy of the key').selectOption('perMinute');
      await page.getByLabel('Key to find').fill('user:3');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'user:3' }).waitFor();
      expect(page.url()).toMatch(/#\/key\/perMinute\/user%3A3$/);
      expect(await page.getByLabel('Key to find').inputValue()).toBe('');
    },
  );

  test('the search field preselects the policy of the page', async () => {
    const selected = () => page.getByLabel('Policy of the key').inputValue();
    for (const name of ['shadowed', 'perMinute']) {
      await go(page, `#/policy/${name}`);
      await eventually(selected).toBe(name);
    }
  });

  test('on a phone, a button opens the search field in a row below the header', async () => {
    const phone = await visit(browser(), running.url, '#/denials', PHONE);
    const header = phone.page.locator('header');
    const heightOf = async () => (await header.boundingBox())!.height;
    await isLive(phone.page);
    expect(await heightOf()).toBeLessThan(60);
    expect(await phone.page.getByLabel('Key to find').isVisible()).toBe(false);
    await phone.page.getByRole('button', { name: 'Find a key' }).tap();
    await phone.page.getByLabel('Policy of the key').selectOption('perMinute');
    await phone.page.getByLabel('Key to find').fill('a b');
    await phone.page.keyboard.press('Enter');
    await phone.page.getByRole('heading', { level: 1, name: 'a b' }).waitFor();
    expect(phone.page.url()).toMatch(/#\/key\/perMinute\/a%20b$/);
    await eventually(heightOf).toBeLessThan(60);
    await phone.page.context().close();
  });
});

test('the dashboard links to the configured address of Grafana', async () => {
  for (const hash of ['#/overview', '#/policy/perMinute']) {
    await go(page, hash);
    const link = page.getByRole('link', { name: 'Grafana' });
    await link.waitFor();
    expect(await link.getAttribute('href')).toBe(GRAFANA_URL);
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer');
  }
});

test('a policy page with a range of 24 hours has charts by minute', async () => {
  await go(page, '#/policy/perMinute?range=1440');
  await page.getByRole('heading', { level: 2, name: 'Calls per minute' }).waitFor();
  await page.getByRole('img', { name: /^Calls per minute over the last 24 hours/ }).waitFor();
  await page.getByRole('img', { name: /^perMinute: / }).waitFor();
});

test('the time range of a policy page survives a reload', async () => {
  await go(page, '#/policy/perMinute');
  await page.getByRole('button', { name: '10 min', exact: true }).click();
  expect(page.url()).toMatch(/#\/policy\/perMinute\?range=10$/);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'perMinute' }).waitFor();
  const button = page.getByRole('button', { name: '10 min', exact: true });
  expect(await button.getAttribute('aria-pressed')).toBe('true');
});

test('the page of an unknown policy lists the existing policies', async () => {
  await go(page, '#/policy/nothing');
  await page.getByRole('heading', { level: 1, name: 'Unknown policy “nothing”' }).waitFor();
  await page.getByRole('link', { name: 'perMinute' }).click();
  await page.getByRole('heading', { level: 1, name: 'perMinute' }).waitFor();
});

test('the browser reports no errors on policy pages, except for rejected input', () => {
  expect(problems.filter((problem) => !problem.includes('400 (Bad Request)'))).toEqual([]);
});
