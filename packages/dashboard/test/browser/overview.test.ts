/** The overview of a busy service, and after the connection is lost. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { rateText } from '../../src/view/format.ts';
import { Load, POLICIES, remembered, sum } from './load.ts';
import { picture } from './picture.ts';
import {
  cellsOf,
  eventually,
  go,
  isLive,
  numberOf,
  recordsOf,
  useBrowser,
  visit,
} from './stage.ts';
import { TcpProxy } from './tcp-proxy.ts';

const browser = useBrowser();

const chartOf = (page: Page) => page.getByRole('img', { name: /^Calls per second/ });

const NAMES = POLICIES.map(({ name }) => name).sort();
const nameIn = (cell: string): string => cell.split(' ')[0];

const timeText = (timeMs: number): string => new Date(timeMs).toISOString().slice(11, 19);

/** The policy table as of one second. */
async function policiesOf(page: Page) {
  const timeOf = () => page.locator('.legend-time').textContent();
  for (;;) {
    const time = await timeOf();
    const rows = await recordsOf(page.locator('table.policies'));
    if ((await timeOf()) === time) return { time: time!.replace('at ', ''), rows };
  }
}

let running: Running;
let load: Load;
beforeAll(async () => {
  running = await startRunning({ config: { policies: POLICIES } });
  load = new Load(running);
});
afterAll(async () => {
  await load.stop();
  await running.close();
});

describe('the overview', () => {
  let page: Page;
  let problems: string[];
  beforeAll(async () => {
    ({ page, problems } = await visit(browser(), running.url, '#/overview?range=1'));
    await isLive(page);
  });
  afterAll(() => page.context().close());

  test('the chart of the overview is redrawn with each new second', async () => {
    const before = await picture(chartOf(page).locator('canvas'));
    const label = await chartOf(page).getAttribute('aria-label');
    const time = await page.locator('.legend-time').textContent();
    expect(before.colours).toBeGreaterThan(3);
    await eventually(() => page.locator('.legend-time').textContent()).not.toBe(time);
    await eventually(() => chartOf(page).getAttribute('aria-label')).not.toBe(label);
    await eventually(async () => (await picture(chartOf(page).locator('canvas'))).digest).not.toBe(
      before.digest,
    );
    expect(await chartOf(page).locator('canvas').count()).toBe(1);
  });

  test('the chart of the overview as a table has the series of the service', async () => {
    await page.getByText('As a table', { exact: true }).click();
    const rows = await cellsOf(page.getByRole('table', { name: /^Calls per second/ }));
    const known = await remembered(running);
    // Time before the start of the service is not in the table.
    const { json } = await running.get('/v1/series?seconds=1');
    expect(rows.at(-1)![0]).toBe(timeText(json.sinceMs));
    for (const [time, ...counts] of rows) {
      expect(counts.map(Number), time).toEqual(known.get(time)!.slice(0, 4));
    }
    expect(sum(rows.map(([, allowed]) => Number(allowed)))).toBeGreaterThan(0);
    const before = rows[0][0];
    await page.getByRole('button', { name: 'Refresh' }).click();
    await eventually(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      return (await cellsOf(page.getByRole('table', { name: /^Calls per second/ })))[0][0];
    }).not.toBe(before);
  });

  test('the policy table of the overview has average rates of the last five seconds', async () => {
    const { time, rows } = await policiesOf(page);
    const since = timeText((await running.get('/v1/series')).json.sinceMs);
    expect(rows.map(({ Policy }) => nameIn(Policy)).sort()).toEqual(NAMES);
    for (const { Policy, 'Allowed/s': allowed, 'Denied/s': denied } of rows) {
      const name = nameIn(Policy);
      if (name === 'idle') continue;
      const known = await remembered(running, name);
      const end = [...known.keys()].indexOf(time) + 1;
      // Or of all seconds since the start, if there are fewer.
      const last = [...known.values()].slice(
        Math.max(end - 5, [...known.keys()].indexOf(since)),
        end,
      );
      const rateOf = (at: number): string =>
        rateText(sum(last.map((counts) => counts[at])) / last.length);
      const expected = name === 'shadowed' ? [rateOf(4), rateOf(2)] : [rateOf(0), rateOf(1)];
      expect([allowed, denied.split(' ')[0]], name).toEqual(expected);
    }
  });

  test('the counters of the overview equal the decisions that clients received', async () => {
    await load.rest();
    const counters = page.getByRole('list', { name: 'Current calls per second' });
    const totals = () =>
      counters
        .getByRole('listitem')
        .evaluateAll((all) => all.map((each) => /([\d,–]+)\s+since/.exec(each.textContent!)![1]));
    const { allowed, denied, shadowDenied } = load.received;
    for (const minutes of [10, 60, 1440]) {
      await go(page, `#/overview?range=${minutes}`);
      await eventually(async () => (await totals()).map(numberOf)).toEqual([
        ...[allowed, denied, shadowDenied, 0],
      ]);
    }
    await page.getByRole('img', { name: /^Calls per minute over the last 24 hours/ }).waitFor();
    for (const each of [allowed, denied, shadowDenied]) expect(each).toBeGreaterThan(0);
    load.start();
  });

  test('time range and sort order of the overview survive a reload', async () => {
    await page.getByRole('button', { name: '1 min', exact: true }).click();
    await page.getByRole('button', { name: 'Policy' }).click();
    expect(page.url()).toMatch(/#\/overview\?range=1&sort=name$/);
    const names = async () =>
      (await cellsOf(page.locator('table.policies'))).map(([name]) => nameIn(name));
    await eventually(names).toEqual(NAMES);
    await page.getByRole('button', { name: 'Policy' }).click();
    await eventually(names).toEqual([...NAMES].reverse());
    await page.reload();
    await isLive(page);
    await eventually(names).toEqual([...NAMES].reverse());
    expect(page.url()).toMatch(/#\/overview\?range=1&sort=-name$/);
    expect(
      await page.getByRole('button', { name: '1 min', exact: true }).getAttribute('aria-pressed'),
    ).toBe('true');
    const head = page.getByRole('columnheader', { name: 'Policy' });
    expect(await head.getAttribute('aria-sort')).toBe('descending');
  });

  test('a policy in the overview links to its page, and Back returns to the overview', async () => {
    await page.getByRole('link', { name: 'perMinute', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'perMinute' }).waitFor();
    expect(await page.title()).toBe('perMinute · Sluice');
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(page.url()).toMatch(/sort=-name$/);
  });

  test('the browser reports no errors on the overview', () => {
    expect(problems).toEqual([]);
  });
});

const state = (page: Page) => page.locator('.connection').textContent();

/** The seconds of the chart, newest first. */
async function secondsOf(page: Page): Promise<string[][]> {
  const details = page.locator('details.as-table').first();
  if ((await details.getAttribute('open')) === null) await details.locator('summary').click();
  else await details.getByRole('button', { name: 'Refresh' }).click();
  return cellsOf(page.getByRole('table', { name: /^Calls per second/ }));
}

describe('a lost connection', () => {
  let proxy: TcpProxy;
  let page: Page;
  beforeAll(async () => {
    proxy = await TcpProxy.open(running.url);
    ({ page } = await visit(browser(), proxy.url, '#/overview?range=1'));
    await isLive(page);
  });
  afterAll(() => proxy.close());

  test('a lost connection is shown with its time, and the data stays', async () => {
    const [newest] = await secondsOf(page);
    proxy.cut();
    await eventually(() => state(page)).toMatch(/^connection lost since \d\d:\d\d:\d\d$/);
    await page.getByText(/The service is unreachable\./).waitFor();
    await page.getByText(/Data as of \d\d:\d\d:\d\d/).waitFor();
    const age = () => page.locator('.age').textContent();
    const ageBefore = await age();
    await eventually(age).not.toBe(ageBefore);
    // A dead service has no state, uptime or current rates.
    const store = page.getByRole('region', { name: 'Store' });
    expect(await store.textContent()).toMatch(/State\s*unknown\s*was up at \d\d:\d\d:\d\d/);
    const uptime = () => store.locator('time').textContent();
    const uptimeBefore = await uptime();
    expect(await page.locator('.counter-now b').allTextContents()).toEqual(['–', '–', '–', '–']);
    expect(new Set((await policiesOf(page)).rows.map((row) => row['Allowed/s']))).toEqual(
      new Set(['–']),
    );
    const times = (await secondsOf(page)).map(([time]) => time);
    expect(times).toContain(newest[0]);
    expect(await uptime()).toBe(uptimeBefore);
    expect(await page.getByRole('link', { name: 'perDay', exact: true }).isVisible()).toBe(true);
    await page.getByRole('link', { name: 'Recent denials' }).click();
    await page.getByRole('heading', { level: 1, name: 'Recent denials' }).waitFor();
    await page.goBack();
  });

  test('a lost connection is restored automatically, and missed seconds are loaded', async () => {
    const lost = (await secondsOf(page))[0][0];
    /** By position, since times wrap at midnight. */
    const since = async () => {
      const all = [...(await remembered(running))];
      const place = all.findIndex(([time]) => time === lost);
      expect(place).toBeGreaterThanOrEqual(0);
      return all.slice(place + 1);
    };
    await eventually(async () => (await since()).length).toBeGreaterThan(0);
    const missed = await since();
    proxy.connectTo(running.url);
    await eventually(() => state(page)).toBe('live');
    const shown = async () => new Map((await secondsOf(page)).map(([time, ...all]) => [time, all]));
    for (const [time, counts] of missed) {
      await eventually(async () => (await shown()).get(time)?.map(Number)).toEqual(
        counts.slice(0, 4),
      );
    }
    expect(await page.getByText(/unreachable/).count()).toBe(0);
  });

  test('a reconnection to another service shows the policies of that service', async () => {
    const other = await startRunning({ config: { policies: [policy('after', 5, '1m')] } });
    proxy.cut();
    await eventually(() => state(page)).toMatch(/^connection lost since/);
    proxy.connectTo(other.url);
    await eventually(() => state(page)).toBe('live');
    await page.getByRole('link', { name: 'after', exact: true }).waitFor();
    await eventually(() => page.getByRole('link', { name: 'perDay', exact: true }).count()).toBe(0);
    // A graceful stop ends the stream by an event.
    await other.close();
    await eventually(() => state(page)).toMatch(/^connection lost since/);
    proxy.connectTo(running.url);
    await eventually(() => state(page)).toBe('live');
  });
});
