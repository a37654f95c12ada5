/** The overview while processes of a service with workers are killed and replaced. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { RunningGroup } from '../../../server/test/cluster/running-group.ts';
import { policy } from '../../../server/test/running.ts';
import { eventually, isLive, numberOf, SOON, useBrowser, visit } from './stage.ts';
import { TcpProxy } from './tcp-proxy.ts';

const browser = useBrowser();

const start = (name: string): Promise<RunningGroup> =>
  RunningGroup.start({ config: { policies: [policy(name, 1_000_000, '1h')] } });

let group: RunningGroup;
let proxy: TcpProxy;
let page: Page;
beforeAll(async () => {
  group = await start('before');
  proxy = await TcpProxy.open(group.url);
  ({ page } = await visit(browser(), proxy.url, '#/overview?range=10'));
  await isLive(page);
});
afterAll(async () => {
  await proxy?.close();
  await group?.stop();
});

const state = () => page.locator('.connection').textContent();
const isLogged = (message: string, times = 1): Promise<void> =>
  vi.waitFor(
    () => expect(group.log.filter(({ msg }) => msg === message)).toHaveLength(times),
    SOON,
  );

/** Sends a check, again if a killed worker had the connection. Resolves to its decision. */
const check = (): Promise<{ readonly allowed: boolean; readonly degraded?: object }> =>
  vi.waitFor(async () => {
    const body = JSON.stringify({ policy: 'before', key: 'ada' });
    const response = await fetch(`${group.url}/v1/check`, { method: 'POST', body });
    return response.json();
  }, SOON);

/** The number of admitted calls that the page shows. */
const admitted = async (): Promise<number> => {
  const counter = page.getByRole('listitem').filter({ hasText: 'Allowed' });
  return numberOf(/([\d,]+) since/.exec((await counter.textContent())!)![1]);
};

test('after all workers are killed, the overview reconnects and shows new calls', async () => {
  const pids = await group.pids();
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  await eventually(state).toMatch(/^connection lost since/);
  await isLogged('worker replaced', pids.length);
  await eventually(state).toBe('live');
  const before = await admitted();
  await check();
  await eventually(admitted).toBe(before + 1);
});

test('while a killed store process is replaced, the overview counts all admissions', async () => {
  const before = await admitted();
  const pid = await group.storePid();
  process.kill(pid, 'SIGKILL');
  await isLogged('store process replaced');
  let sent = 0;
  for (let isDegraded = true; isDegraded; sent++) {
    const { allowed, degraded } = await check();
    expect(allowed).toBe(true);
    isDegraded = degraded !== undefined;
  }
  await eventually(admitted).toBe(before + sent);
  expect(await state()).toBe('live');
  expect(await group.storePid()).not.toBe(pid);
});

test('after the service is killed and restarted, the overview shows its new policies', async () => {
  group.kill('SIGKILL');
  await group.ended;
  await eventually(state).toMatch(/^connection lost since/);
  await group.stop();
  group = await start('after');
  proxy.connectTo(group.url);
  await eventually(state).toBe('live');
  await page.getByRole('link', { name: 'after', exact: true }).waitFor();
  await eventually(() => page.getByRole('link', { name: 'before', exact: true }).count()).toBe(0);
});
