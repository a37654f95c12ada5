/// <reference lib="dom" />
/** Opens reports in Chromium without a network, and reads tables and charts. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { launchChromium } from '../../../../tools/servers/chromium.mjs';
import { htmlReport, type ReportedResult } from '../../src/index.ts';

export let folder: string;
export let browser: Browser;

/** Launches the browser before the tests of a file, and closes its pages after them. */
export function useBrowser(): void {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-report-'));
    browser = await launchChromium();
  }, 120_000);
  afterAll(async () => {
    await Promise.all((browser?.contexts() ?? []).map((context) => context.close()));
    rmSync(folder, { recursive: true });
  });
}

export interface Opened {
  readonly page: Page;
  /** Console messages, errors, dialogs and requests. */
  readonly problems: readonly string[];
}

let files = 0;

/** Writes the report to a file and returns its address. */
export function write(result: ReportedResult): string {
  const path = join(folder, `${result.kind}-${files++}.html`);
  writeFileSync(path, htmlReport(result));
  return pathToFileURL(path).href;
}

export async function open(result: ReportedResult): Promise<Opened> {
  const href = write(result);
  const context = await browser.newContext({ offline: true });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => problems.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== href) problems.push(`request: ${request.url()}`);
  });
  await page.goto(href);
  return { page, problems };
}

/** Returns the cells of a table as text. */
export const tableOf = (page: Page, id: string): Promise<string[][]> =>
  page
    .locator(`#${id} tbody tr`)
    .evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent!.trim())),
    );

export const numberOf = (text: string): number => Number(text.replace(/[^\d.]/g, ''));

export interface DrawnColumn {
  readonly title: string;
  readonly heights: Readonly<Record<string, number>>;
}

/** The columns of a chart over time, as they are drawn. */
export const columnsOf = (page: Page, id: string): Promise<DrawnColumn[]> =>
  page.locator(`#${id} > g`).evaluateAll((groups) =>
    groups.map((group) => ({
      title: group.querySelector('title')!.textContent!,
      heights: Object.fromEntries(
        [...group.querySelectorAll('.column')].map((rect) => [
          rect.getAttribute('class')!.replace('column ', ''),
          rect.getBoundingClientRect().height,
        ]),
      ),
    })),
  );
