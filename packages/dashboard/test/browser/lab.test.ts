/** The lab page: its decisions equal those of the engine and the vectors; its controls work. */
import type { Page } from 'playwright-core';
import { createLimiter, ManualClock, memoryStore } from 'sluice';
import { windowAlgorithmNames } from 'sluice/engine';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Running, startRunning } from '../../../server/test/running.ts';
import {
  cellsOf,
  enter,
  eventually,
  go,
  isLive,
  numberOf,
  recordsOf,
  useBrowser,
  WITH_MOTION,
} from './stage.ts';
import {
  addressOf,
  assets,
  cases,
  chunkOfEngine,
  engine,
  forLab,
  runner,
  text,
} from './vectors.ts';

const browser = useBrowser();
let running: Running;
let page: Page;
let problems: string[];
/** Requests so far, and those before the lab was opened. */
const requests: string[] = [];
const requestsBefore: string[] = [];
beforeAll(async () => {
  running = await startRunning();
  ({ page, problems } = await enter(browser(), running.url, WITH_MOTION));
  page.on('request', (request) => requests.push(request.url().slice(running.url.length)));
  await page.goto(`${running.url}/dashboard/#/overview`);
  await isLive(page);
  requestsBefore.push(...requests);
});
beforeEach(async () => {
  await go(page, '#/lab');
  await page.getByRole('heading', { level: 1, name: 'Lab' }).waitFor();
});
afterAll(() => running.close());

test('the browser loads the engine only when the lab is opened', () => {
  expect(requestsBefore).toContain('/v1/policies');
  expect(requestsBefore).not.toContain(assets + chunkOfEngine());
  expect(requests).toContain(assets + chunkOfEngine());
});

describe('the served engine', () => {
  const run = (vectors: string): Promise<unknown> =>
    page.evaluate(`(async (text) => {
      const { memoryStore } = await import('${assets}${engine}');
      const { parseVectors, runVectors } = await import('${assets}vectors.js');
      return runVectors(parseVectors(text), () => memoryStore());
    })(${JSON.stringify(vectors)})`);
  beforeAll(async () => {
    const body = await runner();
    expect(body).toContain(assets + engine);
    // Served from the same origin, so that the CSP allows it.
    await page.route(`**${assets}vectors.js`, (route) =>
      route.fulfill({ contentType: 'text/javascript', body }),
    );
  });

  test('the engine that the dashboard serves passes all test vectors', async () => {
    expect(await run(text)).toEqual({ passed: 160, failed: 0, differences: [] });
  });

  test('a changed test vector fails on the engine that the dashboard serves', async () => {
    const [first] = structuredClone(cases) as unknown as [
      { steps: { expect: { remaining: number } }[] },
    ];
    first.steps[3].expect.remaining++;
    const report = await run(JSON.stringify({ version: 1, cases: [first] }));
    expect(report).toMatchObject({ passed: 0, failed: 1, differences: [{ step: 3 }] });
  });
});

describe('the decisions table', () => {
  test('there are test vectors for every algorithm of the decisions table', () => {
    const algorithms = forLab.map(({ policies }) => policies[0].algorithm);
    expect(new Set(algorithms)).toEqual(new Set(windowAlgorithmNames));
  });

  test('the decisions table of the lab shows the decisions of the test vectors', async () => {
    await page.getByText(/decisions as a table/).click();
    for (const each of forLab) {
      await go(page, addressOf(each));
      const checks = each.steps.filter(({ op }) => op === 'check');
      const expected = checks.map(({ at, cost = 1, expect: result }) => {
        const { allowed, remaining, retryAfterMs } = result!;
        return [at, cost, allowed, remaining, retryAfterMs].map(String);
      });
      const table = page.getByRole('table', { name: /^Each call/ });
      const shown = async () => (await cellsOf(table)).map(([at, _, ...rest]) => [at, ...rest]);
      await eventually(shown, each.name).toEqual(expected);
      expect(await page.getByRole('alert').filter({ hasText: 'Expected' }).count()).toBe(0);
    }
    await page.getByText(/decisions as a table/).click();
  });
});

const compared = () => page.getByRole('table', { name: /^Decisions of each algorithm/ });
const numbers = async (): Promise<readonly [string, string, string, string][]> =>
  (await recordsOf(compared())).map((row) => [
    ...([row.Algorithm, row.Admitted, row.Denied, row['× limit']] as const),
  ]);
/** The number of calls drawn in an address: `drawn=0*12.5.9` has 14. */
function callsIn(url: string): number {
  const drawn = new URLSearchParams(url.split('?')[1]).get('drawn') ?? '';
  return drawn
    .split('.')
    .map((run) => run.split('*').map(Number))
    .reduce((sum, [value, times = 1]) => sum + value * times, 0);
}

/** The labels of all lanes. */
const lanes = () =>
  page
    .getByRole('img', { name: / admitted, .* denied; / })
    .evaluateAll((all) => all.map((lane) => lane.getAttribute('aria-label')));

test('in the lab, a fixed window admits twice the limit of the default traffic', async () => {
  await eventually(numbers).toEqual([
    ['fixed-window', '100', '0', '2.00'],
    ['sliding-log', '50', '50', '1.00'],
    expect.arrayContaining(['sliding-counter']),
    expect.arrayContaining(['sliding-buckets']),
    expect.arrayContaining(['token-bucket']),
  ]);
  expect(await lanes()).toHaveLength(5);
  expect((await lanes())[0]).toContain('100 admitted, 0 denied');
  expect((await lanes())[1]).toContain('50 admitted, 50 denied');
});

describe('lab settings', () => {
  test('the lab decides traffic of every shape like the engine in Node.js', async () => {
    await page.getByLabel('Limit', { exact: true }).fill('7');
    await page.getByLabel('Window', { exact: true }).fill('3s');
    await page.getByText(/decisions as a table/).click();
    const shapes = await page.getByLabel('Shape').locator('option').allTextContents();
    expect(shapes.length).toBeGreaterThan(5);
    for (const label of shapes) {
      await page.getByLabel('Shape').selectOption({ label: label.trim() });
      const rows = await cellsOf(page.getByRole('table', { name: /^Each call/ }));
      const count = await page.getByText(/decisions as a table/).textContent();
      expect(count).toContain(String(rows.length));
      expect(rows.length).toBeGreaterThan(10);
      // Three columns per algorithm: the log is fourth from the end, the token bucket last.
      expect(rows.map((row) => row.slice(-12, -9))).toEqual(await decided(rows, 'sliding-log'));
      expect(rows.map((row) => row.slice(-3))).toEqual(await decided(rows, 'token-bucket'));
    }
  });

  test('lab settings survive a reload', async () => {
    await page.getByLabel('Shape').selectOption('flash-crowd');
    await page.getByLabel('Limit', { exact: true }).fill('12');
    await page.getByLabel('Window', { exact: true }).fill('20s');
    await page.getByLabel('Calls', { exact: true }).fill('150');
    await page.getByLabel('Seed').fill('42');
    await page.getByLabel('Burst').fill('30');
    await page.getByRole('checkbox', { name: 'sliding-buckets' }).uncheck();
    await eventually(() => page.url()).toContain('burst=30');
    await eventually(() => page.url()).toContain(
      'algorithms=fixed-window.sliding-log.sliding-counter.token-bucket',
    );
    const before = [await numbers(), await lanes()];
    await page.reload();
    await eventually(async () => [await numbers(), await lanes()]).toEqual(before);
    expect(await page.getByLabel('Shape').inputValue()).toBe('flash-crowd');
    expect(await page.getByLabel('Seed').inputValue()).toBe('42');
    expect(await page.getByRole('checkbox', { name: 'sliding-buckets' }).isChecked()).toBe(false);
  });

  test('traffic drawn in the lab survives a reload', async () => {
    const before = await numbers();
    const strip = page.getByRole('slider', { name: /^Calls in slot/ });
    const { x, y, width, height } = (await strip.boundingBox())!;
    await page.mouse.move(x + width * 0.1, y + height * 0.9);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.5, y + height * 0.2, { steps: 8 });
    await page.mouse.up();
    await eventually(numbers).not.toEqual(before);
    // The address follows the drawing with a delay: wait until it contains all calls.
    const count = async () =>
      numberOf((await page.getByText(/decisions as a table/).textContent())!);
    await eventually(async () => callsIn(page.url()) - (await count())).toBe(0);
    const drawn = await numbers();
    await page.reload();
    await eventually(numbers).toEqual(drawn);
    expect(await page.getByLabel('Shape').inputValue()).toBe('drawn');
  });

  test('the lab decides calls that are entered as text', async () => {
    await page.getByLabel('Shape').selectOption('typed');
    await page.getByLabel('Limit', { exact: true }).fill('2');
    await page.getByLabel('Calls: time in ms, cost').fill('0\n10\n20 2\n10000');
    await eventually(numbers).toContainEqual(['sliding-log', '3', '1', '1.00']);
    await eventually(() => page.url()).toContain('times=');
  });

  test.each([
    ['Limit', 'many', 'Expected a whole number from 1 to 1,000,000'],
    ['Limit', '0', 'Expected a whole number from 1 to 1,000,000'],
    ['Window', 'soon', 'Expected a duration such as 10s'],
  ])(
    'the lab rejects a %s of `%s` with a message and keeps its result',
    async (name, value, message) => {
      const before = await numbers();
      const field = page.getByLabel(name, { exact: true });
      await field.fill(value);
      await page.getByText(message).waitFor();
      expect(await field.getAttribute('aria-invalid')).toBe('true');
      expect(await numbers()).toEqual(before);
    },
  );

  test('invalid lab settings in the address fall back to the defaults with a notice', async () => {
    await go(page, '#/lab?limit=nothing&traffic=else');
    const notices = page.getByRole('alert').filter({ hasText: 'Expected' });
    await eventually(async () => (await notices.allTextContents()).join()).toContain('`limit`');
    await eventually(numbers).toContainEqual(['fixed-window', '100', '0', '2.00']);
  });
});

/** The engine's decisions on the calls of a table: allowed, remaining, retryAfterMs. */
async function decided(
  rows: readonly string[][],
  algorithm: 'sliding-log' | 'token-bucket',
): Promise<string[][]> {
  const clock = new ManualClock();
  const policies = { lab: { limit: 7, window: 3000, algorithm } };
  const limiter = createLimiter({ policies, store: memoryStore(), clock });
  // With several clients there is a column for them.
  const hasKeys = rows[0].length > 3 + 5 * 3;
  const decisions: string[][] = [];
  for (const row of rows) {
    const [at, , ...rest] = row;
    clock.set(Number(at));
    const key = hasKeys ? rest[0] : 'a';
    const cost = Number(rest[hasKeys ? 1 : 0]);
    const { allowed, remaining, retryAfterMs } = await limiter.check('lab', key, { cost });
    decisions.push([allowed, remaining, retryAfterMs].map(String));
  }
  return decisions;
}

describe('playback', () => {
  test('Play moves the window of the lab, and Pause stops the window', async () => {
    const at = page.getByLabel('Window ends at');
    await at.fill('0');
    await page.getByRole('button', { name: 'Play' }).click();
    await eventually(async () => Number(await at.inputValue())).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Play' }).waitFor();
    const stopped = await at.inputValue();
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
    expect(await at.inputValue()).toBe(stopped);
  });

  test('the lab shows the decision of each algorithm on the selected call', async () => {
    await page.getByLabel('Call', { exact: true }).fill('51');
    await page.getByText(/^Call 51 of 100, at /).waitFor();
    const label = await page.getByLabel('Call', { exact: true }).getAttribute('aria-valuetext');
    expect(label).toMatch(/fixed-window allowed.*sliding-log denied/);
    await eventually(() => page.url()).toContain('call=51');
    await page.reload();
    await page.getByText(/^Call 51 of 100, at /).waitFor();
  });

  test('the policy YAML in the lab shows the selected algorithm', async () => {
    const yaml = page.getByLabel('The policy as YAML');
    expect(await yaml.textContent()).toBe(
      'policies:\n  lab:\n    limit: 50\n    algorithm: sliding-log\n    window: 10s\n',
    );
    await page.getByLabel('Algorithm', { exact: true }).selectOption('token-bucket');
    await eventually(() => yaml.textContent()).toContain('token-bucket');
  });
});

test('changed settings of the lab send no requests and cause no browser errors', async () => {
  requests.length = 0;
  // Requests of every page; the browser requests the icon on each address change.
  const usual = ['/v1/events', '/v1/series?seconds=600', '/dashboard/assets/icon'];
  await page.getByLabel('Shape').selectOption('abuser');
  await page.getByLabel('Limit', { exact: true }).fill('9');
  await eventually(() => page.url()).toContain('limit=9');
  expect(requests.filter((each) => !usual.some((known) => each.startsWith(known)))).toEqual([]);
  expect(problems).toEqual([]);
});
