/** A browser before a real service: what the tests of the pages begin with. Needs a build. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';

/**
 * An address bar that nobody sees has pages of its own, which take a second a window. The rest are
 * those that Playwright turns off, because the last list counts.
 */
const WITHOUT = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup', 'LensOverlay'],
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades'],
  ...['HttpsFirstBalancedModeAutoEnable', 'MediaRouter', 'PaintHolding', 'OptimizationHints'],
  ...['ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'],
];
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
  `--disable-features=${WITHOUT.join(',')}`,
];

/** For what a busy machine may take its time with; whoever waits goes on as soon as it is there. */
const PATIENCE_MS = 20_000;
export const SOON = { timeout: PATIENCE_MS, interval: 50 };

const root = new URL('../../', import.meta.url).pathname;

/** What is tested is what is built, so it has to be of what is written. */
function checkBuilt(): void {
  const built = join(root, 'dist/index.html');
  const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true });
  const newest = sources
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs)
    .reduce((latest, each) => Math.max(latest, each), 0);
  if (existsSync(built) && statSync(built).mtimeMs >= newest) return;
  throw new Error('Expected packages/dashboard/dist to be newer than its src: `npm run build`');
}

/** One browser for all tests of a file. */
export function useBrowser(flags: readonly string[] = []): () => Browser {
  let browser: Browser;
  beforeAll(async () => {
    checkBuilt();
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    browser = await chromium.launch({ executablePath, args: [...FLAGS, ...flags] });
  }, 120_000);
  afterAll(() => browser?.close());
  return () => browser;
}

/** As much as a desktop shows, and no more: every pixel is drawn by the processor. */
const WINDOW = { viewport: { width: 1040, height: 640 } };
export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

export interface Visit {
  readonly page: Page;
  /** What went wrong, popped up, or was asked of anybody but the service. */
  readonly noises: string[];
}

/** What browsers say of every page that comes by plain HTTP from another machine. */
const UNTRUSTED = /Cross-Origin-Opener-Policy header has been ignored/;

/** Opens a page of the dashboard, by what its address has after the `#`. */
export async function visit(
  browser: Browser,
  url: string,
  hash = '#/overview',
  look: BrowserContextOptions = {},
): Promise<Visit> {
  const visited = await enter(browser, url, look);
  await visited.page.goto(`${url}/dashboard/${hash}`);
  return visited;
}

/** A page that is nowhere yet. */
export async function enter(
  browser: Browser,
  url: string,
  look: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ ...WINDOW, timezoneId: 'UTC', ...look });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const noises: string[] = [];
  page.on('console', (message) => {
    const isNoise = message.type() === 'error' || message.type() === 'warning';
    if (isNoise && !UNTRUSTED.test(message.text())) noises.push(message.text());
  });
  page.on('pageerror', (error) => noises.push(`thrown: ${error.message}`));
  page.on('dialog', (dialog) => {
    noises.push(`popped up: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) noises.push(`asked: ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      console.error(`violated: ${violatedDirective} by ${blockedURI}`);
    });
  });
  return { page, noises };
}

/** Goes somewhere else in the page that is open, as a link does. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate(
    (to) =>
      new Promise<void>((resolve) => {
        // Until it is drawn, what is looked for may be found on the page that was there before.
        const isDrawn = (): void => void requestAnimationFrame(() => setTimeout(resolve));
        if (location.hash === to) isDrawn();
        else addEventListener('hashchange', isDrawn, { once: true });
        location.hash = to;
      }),
    hash,
  );
}

/** The stream is there, and has told a second. */
export const isLive = (page: Page): Promise<void> =>
  page.locator('.connection.live').waitFor({ state: 'visible' });

/** The chart has got as far as this second, `13:05:59`. */
export const isShown = async (page: Page, time: string): Promise<void> => {
  const newest = async () => (await page.locator('.legend-time').textContent())!.slice(3);
  await eventually(async () => (await newest()) >= time).toBe(true);
};

/** All cells of a table's body, as text. */
export const cellsOf = (table: Locator): Promise<string[][]> =>
  table
    .locator('tbody tr')
    .evaluateAll((rows) =>
      rows.map((row) =>
        [...row.querySelectorAll('th, td')].map((cell) =>
          cell.textContent!.replace(/\s+/g, ' ').trim(),
        ),
      ),
    );

/** The rows of a table by the heads of its columns. */
export const recordsOf = (table: Locator): Promise<Record<string, string>[]> =>
  table.evaluate((element) => {
    const texts = (parent: Element, cells: string): string[] =>
      [...parent.querySelectorAll(cells)].map((cell) =>
        cell.textContent!.replace(/\s+/g, ' ').trim(),
      );
    const heads = texts(element, 'thead th').map((head) => head.replace(/ ?[↓↑]$/, ''));
    return [...element.querySelectorAll('tbody tr')].map((row) =>
      Object.fromEntries(texts(row, 'th, td').map((text, at) => [heads[at], text])),
    );
  });

/** `1,234 calls` is 1234. */
export const numberOf = (text: string): number => Number(text.replace(/[^\d.]/g, ''));

export const eventually = <T>(ask: () => T | Promise<T>, message?: string) =>
  expect.poll(ask, message === undefined ? SOON : { ...SOON, message });

/** Waits for the question, does what it takes, and until it is answered. */
export async function answer(page: Page, button: string, fill?: (dialog: Locator) => unknown) {
  const dialog = page.getByRole('dialog');
  await dialog.waitFor({ state: 'visible' });
  await fill?.(dialog);
  await dialog.getByRole('button', { name: button, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** What the page says it has done. */
export const toldBy = (page: Page): Locator => page.locator('.told p');
