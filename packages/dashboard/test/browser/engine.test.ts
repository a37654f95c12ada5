/** The engine as the service hands it out, in a browser: it decides as the vectors say. */
import { readdirSync, readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { rolldown } from 'rolldown';
import { parseVectors, type VectorCase } from 'sluice/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Running, startRunning } from '../../../server/test/running.ts';
import { cellsOf, eventually, go, useBrowser, visit } from './stage.ts';

const file = (path: string): string => new URL(`../../../${path}`, import.meta.url).pathname;
const text = readFileSync(file('sluice/test/vectors/decisions.json'), 'utf8');
const { cases } = parseVectors(text);

const assets = '/dashboard/assets/';
const engine = readdirSync(file('dashboard/dist/assets')).find((name) =>
  /^lab-engine-.*\.js$/.test(name),
)!;

/** What runs the vectors elsewhere, but with the engine that is handed out. */
async function runner(): Promise<string> {
  const bundle = await rolldown({
    input: file('sluice/src/testing/vectors.ts'),
    plugins: [
      {
        name: 'handed-out',
        resolveId: (id) =>
          /\/(?:clock|limiter)\.ts$/.test(id) ? { id: assets + engine, external: true } : null,
      },
    ],
  });
  const { output } = await bundle.generate({ format: 'es' });
  await bundle.close();
  return output[0].code;
}

const browser = useBrowser();
let running: Running;
let page: Page;
let noises: string[];
const asked: string[] = [];
beforeAll(async () => {
  running = await startRunning();
  ({ page, noises } = await visit(browser(), running.url, '#/overview'));
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
});
afterAll(() => running.close());

describe('the engine that the service hands out', () => {
  test('is asked for only by the lab, and is what that decides with', async () => {
    const source = readFileSync(file(`dashboard/dist/assets/${engine}`), 'utf8');
    const [, chunk] = /from ?"\.\/([^"]+)"/.exec(source)!;
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(asked).not.toContain(assets + chunk);
    await go(page, '#/lab');
    await page.getByRole('heading', { level: 1, name: 'Lab' }).waitFor();
    expect(asked).toContain(assets + chunk);
  });

  test('decides all vectors as expected, field by field', async () => {
    const code = await runner();
    expect(code).toContain(assets + engine);
    // A file of the service's own, as far as the page can tell, so its policy lets it in.
    await page.route(`**${assets}vectors.js`, (route) =>
      route.fulfill({ contentType: 'text/javascript', body: code }),
    );
    const report = await page.evaluate(`(async (text) => {
      const { memoryStore } = await import('${assets}${engine}');
      const { parseVectors, runVectors } = await import('${assets}vectors.js');
      return runVectors(parseVectors(text), () => memoryStore());
    })(${JSON.stringify(text)})`);
    expect(report).toEqual({ passed: 160, failed: 0, differences: [] });
  });

  test('a vector that is wrong is found out', async () => {
    const [first] = structuredClone(cases) as unknown as [
      { steps: { expect: { remaining: number } }[] },
    ];
    first.steps[3].expect.remaining++;
    const wrong = JSON.stringify({ version: 1, cases: [first] });
    const report = await page.evaluate(`(async (text) => {
      const { memoryStore } = await import('${assets}${engine}');
      const { parseVectors, runVectors } = await import('${assets}vectors.js');
      return runVectors(parseVectors(text), () => memoryStore());
    })(${JSON.stringify(wrong)})`);
    expect(report).toMatchObject({ passed: 0, failed: 1, differences: [{ step: 3 }] });
  });
});

const SHORT: Readonly<Record<string, string>> = {
  'fixed-window': 'fixed',
  'sliding-log': 'log',
  'sliding-counter': 'counter',
  'sliding-buckets': 'buckets',
  'token-bucket': 'tokens',
};

/** Checks of one key under one policy, in the order of their times: what the lab can be given. */
const forLab = cases.filter(
  ({ policies, steps }) =>
    policies.length === 1 &&
    steps.every(({ op }) => op === 'check' || op === 'peek') &&
    steps.every(({ at }, number) => number === 0 || at >= steps[number - 1].at),
);

function addressOf({ policies: [policy], steps }: VectorCase): string {
  const checks = steps.filter(({ op }) => op === 'check');
  const times = checks.map(({ at, cost = 1 }, number) => {
    const since = at - (number === 0 ? checks[0].at : checks[number - 1].at);
    return `${since}.${cost}`;
  });
  const query = new URLSearchParams({
    ...{ traffic: 'typed', start: String(checks[0].at), times: times.join('_') },
    ...{ limit: String(policy.limit), window: `${policy.windowMs}ms` },
    algorithms: SHORT[policy.algorithm ?? 'sliding-log'],
    ...(policy.burst !== undefined && { burst: String(policy.burst) }),
    ...(policy.buckets !== undefined && { buckets: String(policy.buckets) }),
  });
  return `#/lab?${query}`;
}

describe('the lab', () => {
  test('there are vectors of every algorithm to give it', () => {
    const algorithms = forLab.map(({ policies }) => policies[0].algorithm);
    expect(new Set(algorithms)).toEqual(new Set(Object.keys(SHORT)));
  });

  test('shows the decisions of the vectors, call by call', async () => {
    await go(page, '#/lab');
    await page.getByText(/decisions as a table/).click();
    for (const each of forLab) {
      await go(page, addressOf(each));
      const checks = each.steps.filter(({ op }) => op === 'check');
      const expected = checks.map(({ at, cost = 1, expect: told }) => {
        const { allowed, remaining, retryAfterMs } = told!;
        return [at, cost, allowed, remaining, retryAfterMs].map(String);
      });
      const table = page.getByRole('table', { name: /^Each call/ });
      const shown = async () => (await cellsOf(table)).map(([at, _, ...told]) => [at, ...told]);
      await eventually(shown, each.name).toEqual(expected);
      expect(await page.getByRole('alert').filter({ hasText: 'Expected' }).count()).toBe(0);
    }
  });

  test('nothing of all that went wrong', () => {
    expect(noises).toEqual([]);
  });
});
