/** Every view in both themes, on a desktop and on a phone: nothing cut off, nothing in the way. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { barriersIn } from './axe.ts';
import { faultsOf, NO_FAULTS } from './layout.ts';
import { DESKTOP, enter, PHONE, useBrowser } from './stage.ts';
import { type Scenes, show, startScenes, VIEWS } from './views.ts';

/** Pictures of all are kept if somebody says where. */
const kept = process.env.SLUICE_SCREENSHOTS;
const folder = kept ?? mkdtempSync(join(tmpdir(), 'sluice-looks-'));
mkdirSync(folder, { recursive: true });

const browser = useBrowser();
let scenes: Scenes;
beforeAll(async () => {
  scenes = await startScenes();
});
afterAll(async () => {
  await scenes.end();
  if (kept === undefined) rmSync(folder, { recursive: true });
});

describe.each([
  ['desktop', DESKTOP],
  ['phone', PHONE],
])('on a %s', (device, size) => {
  describe.each(['light', 'dark'] as const)('in the %s theme', (colorScheme) => {
    let page: Page;
    beforeAll(async () => {
      ({ page } = await enter(browser(), scenes.busy.url, { ...size, colorScheme }));
    });
    afterAll(() => page.context().close());

    // Between the themes only colours are different.
    const rules = colorScheme === 'light' ? undefined : ['color-contrast'];

    test.each(VIEWS)('$name', async (view) => {
      await show(page, scenes, view);
      const path = join(folder, `${view.name}-${device}-${colorScheme}.png`);
      const shot = await page.screenshot({ path, fullPage: true });
      expect(shot.length).toBeGreaterThan(5000);
      expect(await faultsOf(page)).toEqual(NO_FAULTS);
      expect(await barriersIn(page, rules)).toEqual([]);
    });
  });
});
