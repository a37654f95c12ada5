/** Every view on one kind of device, in both themes: nothing cut off, nothing in the way. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { barriersIn } from './axe.ts';
import { faultsOf, NO_FAULTS } from './layout.ts';
import { enter, useBrowser } from './stage.ts';
import { type Scenes, show, startScenes, VIEWS } from './views.ts';

export function looksOn(device: string, size: BrowserContextOptions): void {
  // Pictures of all are kept if somebody says where.
  const kept = process.env.SLUICE_SCREENSHOTS;
  const folder = kept ?? mkdtempSync(join(tmpdir(), 'sluice-looks-'));
  const browser = useBrowser();
  let scenes: Scenes;
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    scenes = await startScenes();
  });
  afterAll(async () => {
    await scenes.end();
    if (kept === undefined) rmSync(folder, { recursive: true });
  });

  describe.each(['light', 'dark'] as const)(`on a ${device} in the %s theme`, (colorScheme) => {
    let page: Page;
    beforeAll(async () => {
      ({ page } = await enter(browser(), scenes.busy.url, { ...size, colorScheme }));
    });
    afterAll(() => page.context().close());

    // Between the themes only colours are different.
    const isFirst = colorScheme === 'light';
    const views = VIEWS.filter(({ isAlike }) => isFirst || isAlike === undefined);
    test.each(views)('nothing is cut off or in the way: $name', async (view) => {
      await show(page, scenes, view);
      const path = join(folder, `${view.name}-${device}-${colorScheme}.png`);
      // All of it only for who looks at it.
      const shot = await page.screenshot({ path, fullPage: kept !== undefined });
      expect(shot.length).toBeGreaterThan(5000);
      expect(await faultsOf(page)).toEqual(NO_FAULTS);
      expect(await barriersIn(page, isFirst ? undefined : ['color-contrast'])).toEqual([]);
    });
  });
}
