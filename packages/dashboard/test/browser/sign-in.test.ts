/** Where a token is needed: nothing is shown without it, and nobody but the service gets it. */
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Sessions } from '../../../server/src/http/sessions.ts';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { enter, eventually, go, isLive, useBrowser, type Visit } from './stage.ts';

const TOKEN = 'correct-horse-battery-staple';
const WRONG = 'correct-horse-battery-stable';
/** A name as of another machine: to browsers, a page that came by plain HTTP from elsewhere. */
const HOST = 'sluice.test';

const browser = useBrowser([`--host-resolver-rules=MAP ${HOST} 127.0.0.1`]);
let running: Running;
let url: string;
beforeAll(async () => {
  const config = { policies: [policy('few', 2, '1h')] };
  running = await startRunning({ config, settings: { adminToken: TOKEN } });
  url = `http://${HOST}:${running.service.http.port}`;
});
afterAll(() => running.close());

async function signIn(page: Page, token = TOKEN): Promise<void> {
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** All that scripts and whoever looks at the browser can get at. */
const traces = (page: Page): Promise<string> =>
  page.evaluate(() =>
    JSON.stringify([
      location.href,
      history.state,
      document.cookie,
      { ...localStorage },
      { ...sessionStorage },
      performance.getEntries().map(({ name }) => name),
      document.documentElement.outerHTML,
      [...document.querySelectorAll('input')].map(({ value }) => value),
    ]),
  );

const cookieOf = async (context: BrowserContext) =>
  (await context.cookies()).find(({ name }) => name === 'sluice_session');

/** What everybody may ask for: decisions, health, signing in, and the page, which says nothing. */
const OPEN = [
  ...['POST /v1/check', 'POST /v1/peek', 'POST /json', 'GET /v1/openapi.json'],
  ...['GET /healthz', 'GET /readyz', 'GET /', 'GET /dashboard', 'GET /dashboard/'],
  ...['GET /v1/session', 'POST /v1/session', 'DELETE /v1/session', 'GET /dashboard/assets/*'],
];

describe('without the token', () => {
  test('everything is a 401 but what is open to all', async () => {
    const open: string[] = [];
    for (const { method, path } of running.service.routes) {
      // Proxies ask there with any method.
      if (path.startsWith('/v1/forward-auth')) continue;
      const answer = await running.ask(method, path.replaceAll(/:\w+/g, 'few'));
      if (answer.status !== 401) open.push(`${method} ${path}`);
      else expect(answer.json.code).toBe('ERR_UNAUTHORIZED');
    }
    expect(open.sort()).toEqual([...OPEN].sort());
    expect(running.service.routes.length).toBeGreaterThan(OPEN.length + 10);
  });

  test('every page shows only that one has to sign in, and asks for nothing else', async () => {
    const { page, noises } = await enter(browser(), url);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    for (const hash of ['#/overview', '#/policy/few', '#/key/few/ada', '#/denials', '#/lab']) {
      await page.goto(`${url}/dashboard/${hash}`);
      await page.reload();
      await page.getByLabel('Admin token').waitFor();
      expect(await page.locator('header, nav, table, canvas').count()).toBe(0);
      expect(await page.title()).toBe('Sluice');
    }
    expect(new Set(asked.filter((path) => path.startsWith('/v1')))).toEqual(
      new Set(['/v1/session']),
    );
    expect(noises).toEqual([]);
    await page.context().close();
  });
});

describe('signing in', () => {
  let visited: Visit;
  let page: Page;
  const asked: string[] = [];
  const hash = '#/policy/few?range=10';
  beforeAll(async () => {
    visited = await enter(browser(), url);
    page = visited.page;
    page.on('request', (request) => asked.push(`${request.method()} ${request.url()}`));
    await page.goto(`${url}/dashboard/${hash}`);
  });
  afterAll(() => page.context().close());

  test('with a wrong token is told, and nothing is shown', async () => {
    await signIn(page, WRONG);
    await page.getByText('Expected `token` to be the admin token').waitFor();
    expect(await page.getByLabel('Admin token').getAttribute('aria-invalid')).toBe('true');
    expect(await cookieOf(page.context())).toBeUndefined();
    const isFocused = await page
      .getByLabel('Admin token')
      .evaluate((field) => field === document.activeElement);
    expect(isFocused).toBe(true);
    expect(await page.locator('table').count()).toBe(0);
  });

  test('with the token leads to where one wanted to be', async () => {
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'few' }).waitFor();
    await isLive(page);
    expect(page.url()).toBe(`${url}/dashboard/${hash}`);
    const button = page.getByRole('button', { name: '10 min', exact: true });
    expect(await button.getAttribute('aria-pressed')).toBe('true');
  });

  test('leaves a cookie that no script reads and no other site sends', async () => {
    expect(await cookieOf(page.context())).toMatchObject({
      ...{ httpOnly: true, sameSite: 'Strict', path: '/', secure: false, domain: HOST },
    });
    expect(await page.evaluate(() => document.cookie)).toBe('');
  });

  test('leaves the token nowhere', async () => {
    for (const token of [TOKEN, WRONG]) {
      expect(await traces(page)).not.toContain(token);
      expect(asked.join()).not.toContain(token);
    }
    const { value } = (await cookieOf(page.context()))!;
    expect(value).not.toContain(TOKEN);
    expect(await traces(page)).not.toContain(value);
    expect(asked.join()).not.toContain(value);
    expect(asked.filter((each) => each.startsWith('POST'))).toHaveLength(2);
  });

  test('lasts over a reload, and in another window', async () => {
    await page.reload();
    await isLive(page);
    const other = await page.context().newPage();
    await other.goto(`${url}/dashboard/#/overview`);
    await isLive(other);
    await other.close();
  });

  test('lets things be changed, over plain HTTP too', async () => {
    await page.getByRole('button', { name: 'Put in shadow' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Put in shadow' }).click();
    await dialog.waitFor({ state: 'detached' });
    const { json } = await running.get('/v1/policies/few', { authorization: `Bearer ${TOKEN}` });
    expect(json).toMatchObject({ shadow: true, shadowBy: 'api' });
  });

  test('is over for good when one signs out, also for who has kept the cookie', async () => {
    const kept = (await cookieOf(page.context()))!;
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Admin token').waitFor();
    expect(await page.locator('header, table').count()).toBe(0);
    expect(await cookieOf(page.context())).toBeUndefined();
    const cookie = `sluice_session=${kept.value}`;
    expect((await running.get('/v1/policies', { cookie })).status).toBe(401);
    await page.reload();
    await page.getByLabel('Admin token').waitFor();
  });

  test('makes no noise but for the token that was wrong', () => {
    expect(visited.noises.filter((noise) => !noise.includes('401 (Unauthorized)'))).toEqual([]);
  });
});

describe('a session', () => {
  let page: Page;
  beforeAll(async () => {
    ({ page } = await enter(browser(), url));
  });
  beforeEach(async () => {
    await page.goto('about:blank');
    await page.context().clearCookies();
  });

  /** As if somebody had signed in almost eight hours ago. */
  async function signedIn(leftMs: number): Promise<void> {
    const sessions = new Sessions(TOKEN);
    const value = sessions.textOf({ ...sessions.open(), expiresAtMs: Date.now() + leftMs });
    await page
      .context()
      .addCookies([{ name: 'sluice_session', value, url, httpOnly: true, sameSite: 'Strict' }]);
  }

  test('that expires brings the sign-in back, and one is then where one was', async () => {
    await signedIn(4000);
    await page.goto(`${url}/dashboard/#/denials?policy=few`);
    await page.getByRole('heading', { level: 1, name: 'Live denials' }).waitFor();
    await page.getByText('The session is over.').waitFor();
    expect(await page.locator('header, table').count()).toBe(0);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'Live denials' }).waitFor();
    await isLive(page);
    expect(page.url()).toBe(`${url}/dashboard/#/denials?policy=few`);
    expect(await page.getByLabel('Policy').inputValue()).toBe('few');
  });

  test('that is ended elsewhere ends here, in the middle of a change', async () => {
    await page.goto(`${url}/dashboard/#/key/few/ada`);
    await signIn(page);
    await page.getByRole('button', { name: 'Reset' }).click();
    const { value } = (await cookieOf(page.context()))!;
    await running.ask('DELETE', '/v1/session', undefined, { cookie: `sluice_session=${value}` });
    await page.getByText('The session is over.').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'ada' }).waitFor();
  });

  test('is needed to go anywhere by the address', async () => {
    await page.goto(`${url}/dashboard/`);
    await page.getByLabel('Admin token').waitFor();
    await go(page, '#/key/few/ada');
    await go(page, '#/policy/few');
    expect(await page.getByLabel('Admin token').isVisible()).toBe(true);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'few' }).waitFor();
  });

  test('is not opened by who has tried too often, and that is told', async () => {
    await page.goto(`${url}/dashboard/`);
    await page.getByLabel('Admin token').waitFor();
    const wrong = () =>
      page.evaluate(
        async (token) =>
          (await fetch('/v1/session', { method: 'POST', body: JSON.stringify({ token }) })).status,
        WRONG,
      );
    await eventually(wrong).toBe(429);
    await signIn(page);
    await page.getByText(/attempts/).waitFor();
    expect(await page.locator('table').count()).toBe(0);
  });
});
