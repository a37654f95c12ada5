/** Layout and accessibility of every view, on a desktop and a phone, in both themes. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { barriersIn } from './axe.ts';
import { faultsOf, NO_FAULTS } from './layout.ts';
import { DESKTOP, enter, PHONE, useBrowser } from './stage.ts';
import { type Scenes, show, startScenes, VIEWS, type View } from './views.ts';

// Saves screenshots if set.
const folder = process.env.SLUICE_SCREENSHOTS;

const browser = useBrowser();
let scenes: Scenes;
beforeAll(async () => {
  if (folder !== undefined) mkdirSync(folder, { recursive: true });
  scenes = await startScenes();
});
afterAll(() => scenes.end());

/** Switches the colour scheme and waits until the page is drawn in it. */
async function useTheme(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
}

const LAYOUT_RULES = ['scrollable-region-focusable', 'target-size'];

/**
 * Rules of axe for a view in the light theme. A phone shows the same elements as a desktop, so the
 * rules that see layout remain, and contrast, unless another view has the same colours.
 */
const rulesOf = (device: string, { isAlike }: View): readonly string[] | undefined => {
  if (device === 'desktop') return undefined;
  return isAlike ? LAYOUT_RULES : ['color-contrast', ...LAYOUT_RULES];
};

describe.each([
  ['desktop', DESKTOP],
  ['phone', PHONE],
])('pages on a %s', (device, size) => {
  let page: Page;
  beforeAll(async () => {
    ({ page } = await enter(browser(), scenes.busy.url, { ...size, colorScheme: 'light' }));
  });
  afterAll(() => page.context().close());

  test.each(VIEWS)('$name has no layout faults or accessibility violations', async (view) => {
    await show(page, scenes, view);
    // The themes differ in colours only, so the dark one is checked for contrast, and only on the
    // desktop, since the devices have the same colours.
    const hasDark = !view.isAlike && (device === 'desktop' || folder !== undefined);
    const themes = hasDark ? (['light', 'dark'] as const) : (['light'] as const);
    for (const theme of themes) {
      if (theme === 'dark') await useTheme(page, theme);
      if (folder !== undefined) {
        const path = join(folder, `${view.name}-${device}-${theme}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      expect(await faultsOf(page), theme).toEqual(NO_FAULTS);
      if (device === 'phone' && !['sign-in', 'find'].includes(view.name)) {
        const { height } = (await page.locator('header').boundingBox())!;
        expect(height, 'the header is one row').toBeLessThan(60);
      }
      const rules = theme === 'light' ? rulesOf(device, view) : ['color-contrast'];
      expect(await barriersIn(page, rules), theme).toEqual([]);
    }
    if (themes.length > 1) await useTheme(page, 'light');
  });
});
