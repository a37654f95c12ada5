/** Dashboard pages of concurrency limits and of blocked keys. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  concurrencyPolicy,
  policy,
  type Running,
  startRunning,
} from '../../../server/test/running.ts';
import { cellsOf, eventually, go, useBrowser, visit } from './stage.ts';

const browser = useBrowser();
let running: Running;
let page: Page;
beforeAll(async () => {
  const policies = [
    policy('logins', 1, '1m', { block: '15m' }),
    { ...concurrencyPolicy('jobs', 20), options: { concurrency: 20, lease: '10m' } },
  ];
  running = await startRunning({ config: { policies } });
  ({ page } = await visit(browser(), running.url, '#/overview'));
});
afterAll(() => running.close());

const check = async (body: object) => (await running.post('/v1/check', body)).json;
const main = () => page.locator('main').textContent();

describe('the dashboard', () => {
  test('a key page lists holds with label, expiry, cost and fence', async () => {
    const first = await check({ policy: 'jobs', key: 'ada', label: 'report 7' });
    await check({ policy: 'jobs', key: 'ada', cost: 2 });
    await go(page, '#/key/jobs/ada');
    const rows = () => cellsOf(page.getByRole('table', { name: /^Holds/ }));
    await eventually(async () => (await rows()).length).toBe(2);
    const [row] = await rows();
    expect([row[0], row[3], row[4]]).toEqual(['report 7', '1', String(first.fence)]);
    expect(row[2]).toMatch(/^in (?:9 min|10 min)/);
    expect(await main()).toContain('20 at the same time, lease 10 min');
    await running.post('/v1/release', { receipt: first.receipt });
    await eventually(async () => (await rows()).length).toBe(1);
  });

  test('a key page shows that the key is blocked, and until when', async () => {
    await check({ policy: 'logins', key: 'eve' });
    await check({ policy: 'logins', key: 'eve' });
    await go(page, '#/key/logins/eve');
    await eventually(main).toMatch(/blocked\s+Every call is denied until [\d:]+, for\s+1[45] min/);
    await running.request('DELETE', '/v1/blocks?policy=logins&key=eve');
    await eventually(main).not.toContain('Every call is denied');
  });

  test('a policy page shows the lease of a limit, or the length of a block', async () => {
    await go(page, '#/policy/jobs');
    await eventually(main).toMatch(/20\s+at the same time[\s\S]*Lease\s+10 min/);
    await go(page, '#/policy/logins');
    await eventually(main).toMatch(/Block\s+15 min/);
  });
});
