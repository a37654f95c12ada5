/** Keyboard operation: every control is reachable by Tab, visibly focused and usable. */
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { Load } from './load.ts';
import { eventually, go, isLive, useBrowser, visit } from './stage.ts';

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
beforeAll(async () => {
  const config = { policies: [policy('few', 2, '1h'), policy('many', 1000, '1m')] };
  running = await startRunning({ config });
  load = new Load(running, () => [
    { policy: 'few', key: 'ada' },
    { policy: 'many', key: 'bob' },
  ]);
  ({ page } = await visit(browser(), running.url));
});
afterAll(async () => {
  await load.stop();
  await running.close();
});
/** Resets the focus, so that Tab starts at the top of the page. */
beforeEach(async () => {
  await go(page, '#/overview?sort=name');
  await page.getByRole('link', { name: 'few', exact: true }).waitFor();
  await isLive(page);
  await page.evaluate(() => {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute('tabindex');
  });
});

const isFocused = (target: Locator): Promise<boolean> =>
  target.evaluate((element) => element === document.activeElement);

/**
 * Reaches the target by Tab, from the control before it. `tabThrough` shows that Tab reaches all
 * controls from the top of the page.
 */
async function tabTo(target: Locator): Promise<void> {
  await target.focus();
  await page.keyboard.press('Shift+Tab');
  expect(await isFocused(target)).toBe(false);
  await page.keyboard.press('Tab');
  expect(await isFocused(target)).toBe(true);
}

const button = (name: string): Locator => page.getByRole('button', { name, exact: true });

const USABLE = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';

/** Tabs through all controls once. Returns those missed and those without a focus outline. */
async function tabThrough(): Promise<{ readonly missed: string[]; readonly unmarked: string[] }> {
  await page.locator(USABLE).evaluateAll((all) => {
    for (const [at, each] of all.entries()) (each as HTMLElement).dataset.at = String(at);
  });
  const seen = new Set<string>();
  const unmarked: string[] = [];
  for (;;) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const isMarked = outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2;
      const isBody = element === document.body;
      return { at: element.dataset.at, isBody, isMarked, text: element.outerHTML.slice(0, 80) };
    });
    // Between the last and the first control the focus is in the browser's own UI.
    if (now.isBody || now.at === undefined) continue;
    if (seen.has(now.at)) break;
    seen.add(now.at);
    if (!now.isMarked) unmarked.push(now.text);
  }
  const missed = await page
    .locator('[data-at]')
    .evaluateAll(
      (all, known) =>
        all
          .filter(
            (each) => each.checkVisibility() && !known.includes((each as HTMLElement).dataset.at!),
          )
          .map(({ outerHTML }) => outerHTML.slice(0, 80)),
      [...seen],
    );
  return { missed, unmarked };
}

test.each(['#/overview', '#/policy/many', '#/key/many/bob', '#/denials?policy=many', '#/lab'])(
  'all controls of %s are reachable by Tab and show the focus',
  async (hash) => {
    await go(page, hash);
    await isLive(page);
    await page.locator('.card').first().waitFor();
    expect(await tabThrough()).toEqual({ missed: [], unmarked: [] });
  },
);

describe('keyboard operation', () => {
  test('the first Tab stop is a link that skips to the content', async () => {
    await page.keyboard.press('Tab');
    const skip = page.getByRole('link', { name: 'Skip to content' });
    expect(await isFocused(skip)).toBe(true);
    await page.keyboard.press('Enter');
    expect(await isFocused(page.locator('main'))).toBe(true);
    expect(page.url()).toContain('#/overview?sort=name');
    await page.keyboard.press('Tab');
    expect(await isFocused(button('1 min'))).toBe(true);
  });

  test('a policy link opened by keyboard moves the focus to the new page', async () => {
    await tabTo(page.getByRole('link', { name: 'few', exact: true }));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'few' }).waitFor();
    await eventually(() => isFocused(page.locator('main'))).toBe(true);
  });

  test('the policies can be sorted and a table opened by keyboard', async () => {
    await tabTo(page.getByRole('columnheader', { name: 'Policy' }).getByRole('button'));
    await page.keyboard.press('Space');
    await eventually(() => page.url()).toContain('sort=-name');
    const summary = page.getByText('Fullest keys as a table');
    await tabTo(summary);
    await page.keyboard.press('Enter');
    await page.getByRole('table', { name: /^Fullest key/ }).waitFor();
    expect(await isFocused(summary)).toBe(true);
  });

  test('Tab stays within a dialog, and Escape returns the focus to the button', async () => {
    await go(page, '#/policy/few');
    await tabTo(button('Add override'));
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Add override' });
    await dialog.waitFor();
    const hasFocus = () => dialog.evaluate((each) => each.contains(document.activeElement));
    expect(await hasFocus()).toBe(true);
    for (let tabs = 0; tabs < 8; tabs++) {
      await page.keyboard.press('Tab');
      const isOutside = await page.evaluate(
        () =>
          document.activeElement !== document.body &&
          document.activeElement!.closest('dialog') === null,
      );
      expect(isOutside).toBe(false);
    }
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await isFocused(button('Add override'))).toBe(true);
  });

  test('an override can be added and removed by keyboard', async () => {
    await go(page, '#/policy/few');
    await tabTo(button('Add override'));
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    expect(await isFocused(dialog.getByLabel('Key or pattern'))).toBe(true);
    await page.keyboard.type('ada');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('9');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    const { json } = await running.post('/v1/check', { policy: 'few', key: 'ada' });
    expect(json.limit).toBe(9);
    await tabTo(button('Remove the override of ada'));
    await page.keyboard.press('Enter');
    await dialog.waitFor();
    await tabInto(dialog.getByRole('button', { name: 'Remove', exact: true }));
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    expect((await running.get('/v1/overrides?policy=few')).json.overrides).toEqual([]);
    await eventually(() => page.evaluate(() => document.activeElement!.tagName)).not.toBe('BODY');
  });

  test('a key can be inspected and reset by keyboard', async () => {
    await go(page, '#/policy/many');
    await page.getByRole('heading', { level: 1, name: 'many' }).waitFor();
    await page.keyboard.press('/');
    await eventually(() => isFocused(page.getByLabel('Key to find'))).toBe(true);
    await page.keyboard.type('bob');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'bob' }).waitFor();
    await load.stop();
    await tabTo(button('Reset'));
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await tabInto(dialog.getByRole('button', { name: 'Reset' }));
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    expect((await running.get('/v1/keys/many/bob')).json.used).toBe(0);
    load.start();
  });

  test('recent denials can be filtered and paused by keyboard', async () => {
    await go(page, '#/denials');
    await page.getByRole('table', { name: /^Denials/ }).waitFor();
    await tabTo(page.getByLabel('Key', { exact: true }));
    await page.keyboard.type('unused');
    await page.getByText(/match the filter/).waitFor();
    await tabTo(button('Pause'));
    await page.keyboard.press('Space');
    await button('Resume').waitFor();
    expect(await isFocused(button('Resume'))).toBe(true);
  });

  test('the theme can be changed by keyboard', async () => {
    await tabTo(button('Theme: auto'));
    await page.keyboard.press('Enter');
    await button('Theme: light').waitFor();
    expect(await page.locator('html').getAttribute('data-theme')).toBe('light');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await button('Theme: auto').waitFor();
  });

  test('lab traffic can be drawn and stepped through by keyboard', async () => {
    await go(page, '#/lab');
    const strip = page.getByRole('slider', { name: /^Calls in slot 1 of/ });
    await tabTo(strip);
    const now = page.getByRole('slider', { name: /^Calls in slot/ });
    expect(await now.getAttribute('aria-valuenow')).toBe('0');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('PageUp');
    await eventually(() => now.getAttribute('aria-valuenow')).toBe('11');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await eventually(() => now.getAttribute('aria-label')).toMatch(/^Calls in slot 3 of/);
    await page.keyboard.press('PageUp');
    await page.keyboard.press('ArrowDown');
    await eventually(() => now.getAttribute('aria-valuenow')).toBe('9');
    await eventually(() => page.url()).toMatch(/drawn=11\.0\.9/);
    expect(await isFocused(now)).toBe(true);
    await tabTo(page.getByLabel('Call', { exact: true }));
    await page.keyboard.press('Home');
    await page.getByText(/^Call 1 of /).waitFor();
    await page.keyboard.press('ArrowRight');
    await page.getByText(/^Call 2 of /).waitFor();
  });
});

/** Like `tabTo`, within a dialog. */
async function tabInto(target: Locator): Promise<void> {
  for (let tabs = 0; tabs < 10 && !(await isFocused(target)); tabs++) {
    await page.keyboard.press('Tab');
  }
  expect(await isFocused(target)).toBe(true);
}
