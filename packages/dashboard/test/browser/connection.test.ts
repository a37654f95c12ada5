/** What the pages do when the service is away, and when it is there again. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Serving, scratch, serving } from '../../../cli/test/running.ts';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { Load, remembered } from './load.ts';
import { cellsOf, eventually, isLive, useBrowser, visit } from './stage.ts';

/** The way to a service, which can be cut while the service goes on, or lead to another one. */
class Way {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port: number | undefined = undefined;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => this.#lead(socket));
  }

  static async open(url: string): Promise<Way> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const way = new Way(server);
    way.leadTo(url);
    return way;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  leadTo(url: string): void {
    this.#port = Number(new URL(url).port);
  }

  cut(): void {
    this.#port = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  #lead(socket: Socket): void {
    if (this.#port === undefined) {
      socket.destroy();
      return;
    }
    const other = connect(this.#port, '127.0.0.1');
    for (const [end, far] of [
      [socket, other],
      [other, socket],
    ] as const) {
      this.#sockets.add(end);
      end.on('error', () => {});
      end.on('close', () => {
        this.#sockets.delete(end);
        far.destroy();
      });
    }
    socket.pipe(other).pipe(socket);
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

const browser = useBrowser();

const state = (page: Page) => page.locator('.connection').textContent();

/** The seconds of the chart, the newest first. */
async function secondsOf(page: Page): Promise<string[][]> {
  const details = page.locator('details.as-table').first();
  if ((await details.getAttribute('open')) === null) await details.locator('summary').click();
  else await details.getByRole('button', { name: 'Once more' }).click();
  return cellsOf(page.getByRole('table', { name: /^Calls a second/ }));
}

describe('a connection that is lost while the service goes on', () => {
  let running: Running;
  let load: Load;
  let way: Way;
  let page: Page;
  beforeAll(async () => {
    running = await startRunning({ config: { policies: [policy('few', 5, '1m')] } });
    load = new Load(running, () => [{ policy: 'few', key: 'ada' }]);
    way = await Way.open(running.url);
    ({ page } = await visit(browser(), way.url, '#/overview?range=1'));
    await isLive(page);
  });
  afterAll(async () => {
    await load.stop();
    await way.close();
    await running.close();
  });

  test('is said, with since when, and what is shown stays', async () => {
    const [newest] = await secondsOf(page);
    way.cut();
    await eventually(() => state(page)).toMatch(/^connection lost since \d\d:\d\d:\d\d$/);
    await page.getByText(/The service does not answer\. It is tried again/).waitFor();
    const times = (await secondsOf(page)).map(([time]) => time);
    expect(times).toContain(newest[0]);
    expect(await page.getByRole('link', { name: 'few', exact: true }).isVisible()).toBe(true);
  });

  test('comes back by itself, and the seconds that were missed are filled in', async () => {
    const lost = (await secondsOf(page))[0][0];
    await eventually(async () => [...(await remembered(running)).keys()].at(-1)! > lost).toBe(true);
    const missed = [...(await remembered(running))].filter(([time]) => time > lost);
    expect(missed.length).toBeGreaterThan(0);
    way.leadTo(running.url);
    await eventually(() => state(page)).toBe('live');
    const shown = async () => new Map((await secondsOf(page)).map(([time, ...all]) => [time, all]));
    for (const [time, counts] of missed) {
      await eventually(async () => (await shown()).get(time)?.map(Number)).toEqual(
        counts.slice(0, 4),
      );
    }
    expect(await page.getByText(/does not answer/).count()).toBe(0);
  });
});

describe('a service that is killed', () => {
  const file = scratch();
  let config: string;
  let service: Serving;
  let way: Way;
  let page: Page;
  beforeAll(async () => {
    config = file('sluice.yaml', 'policies:\n  before: 5 per 1m\n');
    service = await serving(['--config', config, '--drain', '100ms']);
    way = await Way.open(service.url);
    ({ page } = await visit(browser(), way.url, '#/overview?range=1'));
    await isLive(page);
    await page.getByRole('link', { name: 'before', exact: true }).waitFor();
  });
  afterAll(async () => {
    await way.close();
    await service.stop();
  });

  test('is missed at once, and found again with what it is now', async () => {
    await service.stop('SIGKILL');
    await eventually(() => state(page)).toMatch(/^connection lost since/);
    await page.getByRole('link', { name: 'Live denials' }).click();
    await page.getByRole('heading', { level: 1, name: 'Live denials' }).waitFor();
    await page.goBack();
    file('sluice.yaml', 'policies:\n  after: 5 per 1m\n');
    service = await serving(['--config', config, '--drain', '100ms']);
    way.leadTo(service.url);
    await eventually(() => state(page)).toBe('live');
    await page.getByRole('link', { name: 'after', exact: true }).waitFor();
    await eventually(() => page.getByRole('link', { name: 'before', exact: true }).count()).toBe(0);
  });

  test('says that it stops, which is a connection lost too', async () => {
    await service.stop('SIGTERM');
    await eventually(() => state(page)).toMatch(/^connection lost since/);
    service = await serving(['--config', config, '--drain', '100ms']);
    way.leadTo(service.url);
    await eventually(() => state(page)).toBe('live');
  });
});
