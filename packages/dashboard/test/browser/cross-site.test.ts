/** Cross-site requests: pages of other origins can neither read nor change anything. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { enter, isLive, useBrowser } from './stage.ts';

const TOKEN = 'correct-horse-battery-staple';
const OVERRIDE = { policy: 'few', key: 'ada', limit: 1000 };

const browser = useBrowser();

/** Serves empty pages under any host name. */
let crossSite: Server;
beforeAll(async () => {
  crossSite = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><p>Hello</p>');
  });
  await once(crossSite.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => {
  crossSite.closeAllConnections();
  crossSite.close();
});

/** The response type, status and text visible to the page, or the error name. */
const fetched = (page: Page, url: string, init: RequestInit): Promise<string> =>
  page.evaluate(
    async ([to, options]) => {
      try {
        const response = await fetch(to, options);
        return `${response.type} ${response.status} ${await response.text()}`;
      } catch (error) {
        return (error as Error).name;
      }
    },
    [url, init] as const,
  );

const READS = ['/v1/policies', '/v1/overrides', '/v1/keys/few/ada', '/v1/session', '/metrics'];
const WRITES: readonly [string, string, object][] = [
  ['POST', '/v1/check', { policy: 'few', key: 'ada' }],
  ['POST', '/v1/reset', { policy: 'few', key: 'ada' }],
  ['POST', '/v1/overrides', OVERRIDE],
  ['POST', '/v1/reload', {}],
  ['POST', '/v1/session', { token: TOKEN }],
  ['PUT', '/v1/overrides/few/ada', { limit: 1000 }],
  ['PATCH', '/v1/policies/few', { shadow: true }],
  ['DELETE', '/v1/keys/few/ada', {}],
  ['DELETE', '/v1/session', {}],
];

/** Submits a text/plain form whose `name=value` is JSON. */
async function submitted(page: Page, url: string, body: object): Promise<void> {
  const responded = page.waitForResponse((response) => response.url() === url);
  await page.evaluate(
    ([to, text]) => {
      const frame = document.createElement('iframe');
      frame.name = `frame-${document.querySelectorAll('iframe').length}`;
      const form = document.createElement('form');
      const field = document.createElement('input');
      const [name, value] = text.split('=');
      Object.assign(field, { name, value });
      Object.assign(form, { action: to, method: 'post', enctype: 'text/plain' });
      form.target = frame.name;
      form.append(field);
      document.body.append(frame, form);
      form.submit();
    },
    [url, JSON.stringify({ ...body, reason: '=' })] as const,
  );
  await responded;
}

/** The name of the first event, or `refused`. */
const streamed = (page: Page, url: string): Promise<string> =>
  page.evaluate(
    (to) =>
      new Promise<string>((resolve) => {
        const source = new EventSource(to, { withCredentials: true });
        for (const name of ['open', 'hello', 'tick']) {
          source.addEventListener(name, () => resolve(name));
        }
        source.addEventListener('error', () => {
          source.close();
          resolve('refused');
        });
      }),
    url,
  );

/** Loads a URL by an element. Resolves to `loaded` or `failed`. */
const included = (page: Page, tag: 'script' | 'img', url: string): Promise<string> =>
  page.evaluate(
    ([name, to]) =>
      new Promise<string>((resolve) => {
        const element = document.createElement(name);
        element.addEventListener('load', () => resolve('loaded'));
        element.addEventListener('error', () => resolve('failed'));
        (element as HTMLScriptElement).src = to;
        document.body.append(element);
      }),
    [tag, url] as const,
  );

/** The text of the dashboard in an iframe. */
async function framed(page: Page, url: string): Promise<readonly string[]> {
  await page.evaluate(
    (to) =>
      new Promise<void>((resolve) => {
        const frame = document.createElement('iframe');
        frame.src = to;
        // Also fires for blocked frames.
        frame.addEventListener('load', () => resolve());
        document.body.append(frame);
      }),
    url,
  );
  const shown = page.frames().map((frame) => frame.locator('#app, main').allTextContents());
  return (await Promise.all(shown)).flat();
}

describe.each([
  ['on loopback', '127.0.0.1', undefined, ['127.0.0.1', 'localhost']],
  ['with an admin token', 'sluice.test', TOKEN, ['sluice.test', 'evil.test']],
])('a service %s', (_, host, adminToken, names) => {
  let running: Running;
  let url: string;
  let context: BrowserContext;
  let own: Page;
  const authorization = { authorization: `Bearer ${TOKEN}` };
  beforeAll(async () => {
    const config = { policies: [policy('few', 5, '1h')] };
    running = await startRunning({ config, settings: adminToken ? { adminToken } : {} });
    url = `http://${host}:${running.service.http.port}`;
    await running.post('/v1/check', { policy: 'few', key: 'ada', cost: 3 });
    ({ page: own } = await enter(browser(), url));
    context = own.context();
    await own.goto(`${url}/dashboard/`);
    if (adminToken !== undefined) {
      await own.getByLabel('Admin token').fill(adminToken);
      await own.getByRole('button', { name: 'Sign in' }).click();
    }
    await isLive(own);
  });
  afterAll(async () => {
    await context.close();
    await running.close();
  });

  /** The state that an attacker could change. */
  async function stateOf() {
    const { json: policies } = await running.get('/v1/policies', authorization);
    const { json: overrides } = await running.get('/v1/overrides', authorization);
    const { json: key } = await running.get('/v1/keys/few/ada', authorization);
    return { policies, overrides, used: key.used, entries: key.entries };
  }

  describe.each(names)('requests from a page on %s at another port', (name) => {
    let page: Page;
    const responses: string[] = [];
    beforeAll(async () => {
      page = await context.newPage();
      page.on('response', (response) => {
        if (!response.url().startsWith(url)) return;
        const { pathname } = new URL(response.url());
        responses.push(`${response.request().method()} ${pathname} ${response.status()}`);
      });
      await page.goto(`http://${name}:${(crossSite.address() as AddressInfo).port}/`);
    });
    afterAll(() => page.close());

    test.each(READS)('a cross-site page cannot read %s', async (path) => {
      const credentials = 'include' as const;
      expect(await fetched(page, url + path, { credentials })).toBe('TypeError');
      const opaque = await fetched(page, url + path, { credentials, mode: 'no-cors' });
      expect(['opaque 0 ', 'TypeError']).toContain(opaque);
      expect(await included(page, 'script', url + path)).toBe('failed');
      expect(await included(page, 'img', url + path)).toBe('failed');
    });

    test('a cross-site page cannot read the event stream', async () => {
      expect(await streamed(page, `${url}/v1/events`)).toBe('refused');
    });

    test('every cross-site write is rejected', async () => {
      const before = await stateOf();
      responses.length = 0;
      for (const [method, path, body] of WRITES) {
        const init = { method, body: JSON.stringify(body), credentials: 'include' as const };
        const headers = { 'content-type': 'application/json' };
        await fetched(page, url + path, { ...init, headers });
        await fetched(page, url + path, init);
        await fetched(page, url + path, { ...init, mode: 'no-cors' });
        if (method === 'POST') await submitted(page, url + path, body);
      }
      expect(await stateOf()).toEqual(before);
      expect(responses.length).toBeGreaterThan(0);
      expect(responses.filter((line) => / [23]\d\d$/.test(line))).toEqual([]);
    });

    test('a cross-site page cannot show the dashboard in a frame', async () => {
      expect(await framed(page, `${url}/dashboard/`)).toEqual([]);
    });

    test('cross-site requests do not end the session of the open dashboard', async () => {
      expect(await own.locator('.connection').textContent()).toBe('live');
      const session = await own.evaluate(async () => (await fetch('/v1/session')).json());
      expect(session).toMatchObject({ required: adminToken !== undefined, signedIn: true });
    });

    test('a cross-site page can link to the dashboard', async () => {
      await page.evaluate((to) => {
        location.href = to;
      }, `${url}/`);
      await page.waitForURL(`${url}/dashboard/`);
      await page.getByRole('heading', { level: 1 }).waitFor();
    });
  });
});
