/** Chromium and helpers for tests against a real service. Needs a build. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { launchChromium } from '../../../../tools/servers/chromium.mjs';

/** Upper bound for a busy machine; waits end as soon as the condition holds. */
const TIMEOUT_MS = 20_000;
export const SOON = { timeout: TIMEOUT_MS, interval: 50 };

const root = new URL('../../', import.meta.url).pathname;

/** Throws if the build is older than the sources. */
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

/** Launches the browser before the tests of a file, and closes its pages after them. */
export function useBrowser(): () => Browser {
  let browser: Browser;
  beforeAll(async () => {
    checkBuilt();
    browser = await launchChromium();
  }, 120_000);
  afterAll(() => Promise.all((browser?.contexts() ?? []).map((context) => context.close())));
  return () => browser;
}

/** Small and without animation, since the CPU renders every pixel of every frame. */
const WINDOW = { viewport: { width: 1040, height: 640 }, reducedMotion: 'reduce' } as const;
export const WITH_MOTION = { reducedMotion: 'no-preference' } as const;
export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

export interface Visit {
  readonly page: Page;
  /** Console errors, exceptions, popups and requests to other hosts. */
  readonly problems: string[];
}

/** Chromium's warning for every page over plain HTTP from another host. */
const UNTRUSTED = /Cross-Origin-Opener-Policy header has been ignored/;

/** Opens a page of the dashboard by the fragment of its address. */
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

/** Creates a blank page. */
export async function enter(
  browser: Browser,
  url: string,
  look: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ ...WINDOW, timezoneId: 'UTC', ...look });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    const isProblem = message.type() === 'error' || message.type() === 'warning';
    if (isProblem && !UNTRUSTED.test(message.text())) problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(`thrown: ${error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`popped up: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) problems.push(`requested: ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      console.error(`violated: ${violatedDirective} by ${blockedURI}`);
    });
  });
  return { page, problems };
}

/** Navigates within the open page, like a link. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate(
    (to) =>
      new Promise<void>((resolve) => {
        // Wait for the redraw, else locators may match the previous page.
        const isDrawn = (): void => void requestAnimationFrame(() => setTimeout(resolve));
        if (location.hash === to) isDrawn();
        else addEventListener('hashchange', isDrawn, { once: true });
        location.hash = to;
      }),
    hash,
  );
}

/** Waits until the stream has received a tick. */
export const isLive = (page: Page): Promise<void> =>
  page.locator('.connection.live').waitFor({ state: 'visible' });

/** Waits until the chart shows a second, `13:05:59`. */
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

/** The rows of a table as records by column header. */
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

export const eventually = <T>(read: () => T | Promise<T>, message?: string) =>
  expect.poll(read, message === undefined ? SOON : { ...SOON, message });

/** Fills in the open dialog, submits it and waits until it closes. */
export async function submitDialog(
  page: Page,
  button: string,
  fill?: (dialog: Locator) => unknown,
) {
  const dialog = page.getByRole('dialog');
  await dialog.waitFor({ state: 'visible' });
  await fill?.(dialog);
  await dialog.getByRole('button', { name: button, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** The notice after an action. */
export const noticeOf = (page: Page): Locator => page.locator('.notice p');
