/** Sign-in: nothing is shown without the token, and the token reaches only the service. */
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Sessions } from '../../../server/src/http/sessions.ts';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { enter, eventually, go, isLive, useBrowser, type Visit } from './stage.ts';

const TOKEN = 'correct-horse-battery-staple';
const WRONG = 'correct-horse-battery-stable';
/** A name other than localhost: browsers treat it as an insecure origin. */
const HOST = 'sluice.test';

const browser = useBrowser();
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

/** Everything readable by scripts. */
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

/** Routes without authentication: decisions, health, sign-in and the static page. */
const OPEN = [
  ...['POST /v1/check', 'POST /v1/peek', 'POST /json', 'GET /v1/openapi.json'],
  ...['GET /healthz', 'GET /readyz', 'GET /', 'GET /dashboard', 'GET /dashboard/'],
  ...['GET /v1/session', 'POST /v1/session', 'DELETE /v1/session', 'GET /dashboard/assets/*'],
];

describe('without the token', () => {
  test('without the token, all routes respond 401 except the public ones', async () => {
    const open: string[] = [];
    for (const { method, path } of running.service.routes) {
      // Accepts any method from proxies.
      if (path.startsWith('/v1/forward-auth')) continue;
      const response = await running.request(method, path.replaceAll(/:\w+/g, 'few'));
      if (response.status !== 401) open.push(`${method} ${path}`);
      else expect(response.json.code).toBe('ERR_UNAUTHORIZED');
    }
    expect(open.sort()).toEqual([...OPEN].sort());
    expect(running.service.routes.length).toBeGreaterThan(OPEN.length + 10);
  });

  test('without the token, every page shows only the sign-in form', async () => {
    const { page, problems } = await enter(browser(), url);
    const requests: string[] = [];
    page.on('request', (request) => requests.push(new URL(request.url()).pathname));
    for (const hash of ['#/overview', '#/policy/few', '#/key/few/ada', '#/denials', '#/lab']) {
      await page.goto(`${url}/dashboard/${hash}`);
      await page.reload();
      await page.getByLabel('Admin token').waitFor();
      expect(await page.locator('header, nav, table, canvas').count()).toBe(0);
      expect(await page.title()).toBe('Sluice');
    }
    expect(new Set(requests.filter((path) => path.startsWith('/v1')))).toEqual(
      new Set(['/v1/session']),
    );
    expect(problems).toEqual([]);
    await page.context().close();
  });
});

describe('signing in', () => {
  let visited: Visit;
  let page: Page;
  const requests: string[] = [];
  const hash = '#/policy/few?range=10';
  beforeAll(async () => {
    visited = await enter(browser(), url);
    page = visited.page;
    page.on('request', (request) => requests.push(`${request.method()} ${request.url()}`));
    await page.goto(`${url}/dashboard/${hash}`);
  });
  afterAll(() => page.context().close());

  test('signing in with a wrong token shows an error and no data', async () => {
    await signIn(page, WRONG);
    await page.getByText('This is not the admin token.').waitFor();
    expect(await page.getByLabel('Admin token').getAttribute('aria-invalid')).toBe('true');
    expect(await cookieOf(page.context())).toBeUndefined();
    const isFocused = await page
      .getByLabel('Admin token')
      .evaluate((field) => field === document.activeElement);
    expect(isFocused).toBe(true);
    expect(await page.locator('table').count()).toBe(0);
  });

  test('signing in opens the requested page', async () => {
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'few' }).waitFor();
    await isLive(page);
    expect(page.url()).toBe(`${url}/dashboard/${hash}`);
    const button = page.getByRole('button', { name: '10 min', exact: true });
    expect(await button.getAttribute('aria-pressed')).toBe('true');
  });

  test('signing in sets an HttpOnly, SameSite=Strict cookie', async () => {
    expect(await cookieOf(page.context())).toMatchObject({
      ...{ httpOnly: true, sameSite: 'Strict', path: '/', secure: false, domain: HOST },
    });
    expect(await page.evaluate(() => document.cookie)).toBe('');
  });

  test('signing in leaves no copy of the token in the browser', async () => {
    for (const token of [TOKEN, WRONG]) {
      expect(await traces(page)).not.toContain(token);
      expect(requests.join()).not.toContain(token);
    }
    const { value } = (await cookieOf(page.context()))!;
    expect(value).not.toContain(TOKEN);
    expect(await traces(page)).not.toContain(value);
    expect(requests.join()).not.toContain(value);
    expect(requests.filter((each) => each.startsWith('POST'))).toHaveLength(2);
  });

  test('a session persists across reloads and windows', async () => {
    await page.reload();
    await isLive(page);
    const other = await page.context().newPage();
    await other.goto(`${url}/dashboard/#/overview`);
    await isLive(other);
    await other.close();
  });

  test('a session allows changes over plain HTTP', async () => {
    await page.getByRole('button', { name: 'Use shadow mode' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Use shadow mode' }).click();
    await dialog.waitFor({ state: 'detached' });
    const { json } = await running.get('/v1/policies/few', { authorization: `Bearer ${TOKEN}` });
    expect(json).toMatchObject({ shadow: true, shadowBy: 'api' });
  });

  test('sign-out ends the session and revokes the cookie', async () => {
    const copy = (await cookieOf(page.context()))!;
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Admin token').waitFor();
    expect(await page.locator('header, table').count()).toBe(0);
    expect(await cookieOf(page.context())).toBeUndefined();
    const cookie = `sluice_session=${copy.value}`;
    expect((await running.get('/v1/policies', { cookie })).status).toBe(401);
    await page.reload();
    await page.getByLabel('Admin token').waitFor();
  });

  test('the browser reports no errors while signing in, except for the wrong token', () => {
    expect(visited.problems.filter((problem) => !problem.includes('401 (Unauthorized)'))).toEqual(
      [],
    );
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

  /** Sets the cookie of a session that expires in `leftMs`. */
  async function signedIn(leftMs: number): Promise<void> {
    const sessions = new Sessions(TOKEN);
    const value = sessions.textOf({ ...sessions.open(), expiresAtMs: Date.now() + leftMs });
    await page
      .context()
      .addCookies([{ name: 'sluice_session', value, url, httpOnly: true, sameSite: 'Strict' }]);
  }

  test('after a session expires, signing in again shows the same page', async () => {
    await signedIn(3000);
    await page.goto(`${url}/dashboard/#/denials?policy=few`);
    await page.getByRole('heading', { level: 1, name: 'Recent denials' }).waitFor();
    await page.getByText('Your session has expired.').waitFor();
    expect(await page.locator('header, table').count()).toBe(0);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'Recent denials' }).waitFor();
    await isLive(page);
    expect(page.url()).toBe(`${url}/dashboard/#/denials?policy=few`);
    expect(await page.getByLabel('Policy', { exact: true }).inputValue()).toBe('few');
  });

  test('a revoked session closes an open dialog', async () => {
    await page.goto(`${url}/dashboard/#/key/few/ada`);
    await signIn(page);
    await page.getByRole('button', { name: 'Reset' }).click();
    const { value } = (await cookieOf(page.context()))!;
    await running.request('DELETE', '/v1/session', undefined, {
      cookie: `sluice_session=${value}`,
    });
    await page.getByText('Your session has expired.').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'ada' }).waitFor();
  });

  test('without a session, every address shows the sign-in form', async () => {
    await page.goto(`${url}/dashboard/`);
    await page.getByLabel('Admin token').waitFor();
    await go(page, '#/key/few/ada');
    await go(page, '#/policy/few');
    expect(await page.getByLabel('Admin token').isVisible()).toBe(true);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'few' }).waitFor();
  });

  test('sign-in is rejected after too many attempts', async () => {
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
