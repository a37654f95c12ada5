/** Layout and accessibility of every view, on a desktop and a phone, in both themes. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { barriersIn, type Rules } from './axe.ts';
import { faultsOf, NO_FAULTS } from './layout.ts';
import { DESKTOP, enter, PHONE, useBrowser } from './stage.ts';
import { type Scenes, show, startScenes, VIEWS, type View } from './views.ts';

// Saves screenshots if set.
const folder = process.env.SLUICE_SCREENSHOTS;
/** `SLUICE_CAMPAIGN=full` checks every rule on every view, device and theme. */
const isFull = process.env.SLUICE_CAMPAIGN === 'full';

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

const CONTRAST = ['color-contrast'];
const LAYOUT_RULES = ['scrollable-region-focusable', 'target-size'];

/**
 * Rules of axe for a view in the light theme. A phone shows the same elements in the same colours
 * as a desktop, so only the rules that see layout remain. Contrast, the slowest rule, is omitted
 * for views whose colours other views have too.
 */
function rulesOf(device: string, { isAlike }: View): Rules {
  if (isFull) return {};
  if (device === 'phone') return { only: LAYOUT_RULES };
  return isAlike ? { without: CONTRAST } : {};
}

describe.each([
  ['desktop', DESKTOP],
  ['phone', PHONE],
])('pages on a %s', (device, size) => {
  let page: Page;
  beforeAll(async () => {
    ({ page } = await enter(browser(), scenes.busy.url, { ...size, colorScheme: 'light' }));
  });
  afterAll(() => page.context().close());

  test.each(VIEWS)(
    'the view $name has no layout faults or accessibility violations',
    async (view) => {
      await show(page, scenes, view);
      // The themes differ in colours only, so the dark one is checked for contrast, and only on the
      // desktop, since the devices have the same colours.
      const isChecked = !view.isAlike && device === 'desktop';
      const hasDark = isChecked || isFull || folder !== undefined;
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
        const rules = theme === 'light' ? rulesOf(device, view) : { only: CONTRAST };
        expect(await barriersIn(page, rules), theme).toEqual([]);
      }
      if (themes.length > 1) await useTheme(page, 'light');
    },
  );
});
