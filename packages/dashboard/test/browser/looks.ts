/** Layout and accessibility of every view on one device, in both themes. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { barriersIn } from './axe.ts';
import { faultsOf, NO_FAULTS } from './layout.ts';
import { enter, useBrowser } from './stage.ts';
import { type Scenes, show, startScenes, VIEWS } from './views.ts';

export function looksOn(device: string, size: BrowserContextOptions): void {
  // Saves screenshots if set.
  const folder = process.env.SLUICE_SCREENSHOTS;
  const browser = useBrowser();
  let scenes: Scenes;
  beforeAll(async () => {
    if (folder !== undefined) mkdirSync(folder, { recursive: true });
    scenes = await startScenes();
  });
  afterAll(() => scenes.end());

  describe.each(['light', 'dark'] as const)(`on a ${device} in the %s theme`, (colorScheme) => {
    let page: Page;
    beforeAll(async () => {
      ({ page } = await enter(browser(), scenes.busy.url, { ...size, colorScheme }));
    });
    afterAll(() => page.context().close());

    // The themes differ in colours only.
    const isFirst = colorScheme === 'light';
    const views = VIEWS.filter(({ isAlike }) => isFirst || isAlike === undefined);
    test.each(views)('$name has no layout faults or accessibility violations', async (view) => {
      await show(page, scenes, view);
      if (folder !== undefined) {
        const path = join(folder, `${view.name}-${device}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      expect(await faultsOf(page)).toEqual(NO_FAULTS);
      expect(await barriersIn(page, isFirst ? undefined : ['color-contrast'])).toEqual([]);
    });
  });
}
