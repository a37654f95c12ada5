/** Sign-in and sign-out. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SESSION_MS } from '../../src/http/sessions.ts';
import type { Running } from '../running.ts';
import { certOf, writeTlsFiles } from '../tls-pair.ts';
import { DocumentedApi } from './documented-api.ts';
import { cookieIn, sendRequest } from './plain-request.ts';
import {
  audits,
  foreign,
  fresh,
  type Headers,
  hostOf,
  own,
  request,
  signIn,
  start,
  startForAll,
  TOKEN,
} from './sign-in.ts';

let running: Running;
startForAll((started) => {
  running = started;
});

describe('sign-in', () => {
  test('sign-in accepts the token and sets a session cookie', async () => {
    const before = Date.now();
    const response = await signIn(running);
    expect(response.status).toBe(200);
    const { required, signedIn, expiresAtMs, ...rest } = response.json;
    expect([required, signedIn, rest]).toEqual([true, true, {}]);
    expect(expiresAtMs).toBeGreaterThanOrEqual(before + SESSION_MS);
    expect(expiresAtMs).toBeLessThanOrEqual(Date.now() + SESSION_MS);
    expect(response.headers['cache-control']).toBe('no-store');
    expect(response.headers['set-cookie']).toEqual([
      expect.stringMatching(
        /^sluice_session=v1\.[\w.-]+; HttpOnly; SameSite=Strict; Path=\/; Max-Age=28800$/,
      ),
    ]);
    const cookie = cookieIn(response);
    const seen = await request(running, 'GET', '/v1/session', own(running, cookie));
    expect(seen.json).toEqual({ required: true, signedIn: true, expiresAtMs });
    expect(seen.headers['set-cookie']).toBeUndefined();
    expect((await request(running, 'GET', '/v1/policies', own(running, cookie))).status).toBe(200);
  });

  test('sign-in responds as docs/http-api.md shows', async () => {
    const page = readFileSync(new URL('../../../../docs/http-api.md', import.meta.url), 'utf8');
    const [, shown] = /^```http\n([\s\S]*?)^```$/m.exec(page)!;
    const [requestLine, body, head, responseBody] = shown.trim().split('\n\n');
    const [method, path] = requestLine.split(' ');
    const response = await request(running, method, path, {}, JSON.parse(body), fresh());
    const hidden = (text: string) => text.replace(/(sluice_session=v1\.)[^;]+/, '$1');
    expect(
      [`HTTP/1.1 ${response.status} OK`, `Set-Cookie: ${response.headers['set-cookie']}`].map(
        hidden,
      ),
    ).toEqual(head.split('\n').map(hidden));
    expect({ ...response.json, expiresAtMs: 0 }).toEqual({
      ...JSON.parse(responseBody),
      expiresAtMs: 0,
    });
  });

  test('sign-in rejects a wrong token without a password dialog', async () => {
    const wrong = [`${TOKEN}x`, TOKEN.slice(0, -1), ` ${TOKEN}`, TOKEN.toUpperCase(), 'x'];
    for (const token of wrong) {
      const response = await signIn(running, token);
      expect([token, response.status, response.json.code]).toEqual([
        token,
        401,
        'ERR_UNAUTHORIZED',
      ]);
      expect(response.headers['www-authenticate']).toBe('Bearer realm="sluice"');
      expect(response.headers['set-cookie']).toBeUndefined();
      expect(response.text).not.toMatch(/horse/i);
    }
  });

  test('sign-in reads the token from the body only', async () => {
    const query = `?token=${encodeURIComponent(TOKEN)}`;
    const inQuery = await request(running, 'POST', `/v1/session${query}`, {}, { token: TOKEN });
    expect([inQuery.status, inQuery.json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
    expect(inQuery.text).not.toContain('horse');
    const bearer = { authorization: `Bearer ${TOKEN}` };
    const inHead = await request(running, 'POST', '/v1/session', bearer, {}, fresh());
    expect([inHead.status, inHead.headers['set-cookie']]).toEqual([400, undefined]);
    expect((await request(running, 'GET', `/v1/session${query}`)).status).toBe(400);
  });

  test('sign-in rejects an invalid body without repeating it', async () => {
    const secret = 'x'.repeat(40_000);
    const wrong = [{}, { token: 7 }, { token: '' }, { token: null }, { token: [TOKEN] }, [], 'x'];
    for (const body of [...wrong, { token: secret }, { token: TOKEN, more: 1 }]) {
      const response = await request(running, 'POST', '/v1/session', {}, body, fresh());
      expect([response.status, response.json.code]).toEqual([400, 'ERR_INVALID_BODY']);
      expect(response.text).not.toMatch(/horse|xxxx|`7`/);
      expect(response.headers['set-cookie']).toBeUndefined();
    }
  });

  test('sign-in rejects cross-site requests', async () => {
    for (const headers of foreign) {
      const response = await signIn(running, TOKEN, headers);
      expect([response.status, response.headers['set-cookie']]).toEqual([403, undefined]);
    }
  });

  test('sign-in behind a TLS proxy sets a Secure cookie', async () => {
    const origin = `https://${hostOf(running)}`;
    const response = await signIn(running, TOKEN, { origin, 'sec-fetch-site': 'same-origin' });
    expect(response.headers['set-cookie']?.[0]).toMatch(/; Secure$/);
  });
});

describe('GET /v1/session', () => {
  test('GET /v1/session returns that sign-in is required', async () => {
    const response = await request(running, 'GET', '/v1/session');
    expect([response.status, response.json]).toEqual([200, { required: true, signedIn: false }]);
    expect(response.headers['cache-control']).toBe('no-store');
    expect(response.headers['www-authenticate']).toBeUndefined();
  });

  test('GET /v1/session returns signedIn for a bearer token', async () => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const response = await request(running, 'GET', '/v1/session', headers);
    expect(response.json).toEqual({ required: true, signedIn: true });
  });

  test('GET /v1/session returns signedIn for local callers without a token', async () => {
    const loopback = await start({ adminToken: undefined });
    for (const [method, body] of [['GET'], ['POST', { token: 'any' }], ['DELETE']] as const) {
      const response = await request(loopback, method, '/v1/session', {}, body);
      expect([response.status, response.json]).toEqual([200, { required: false, signedIn: true }]);
      expect(response.headers['set-cookie']).toBeUndefined();
    }
    // A foreign host name that resolves to this machine (DNS rebinding).
    const headers = { host: 'evil.example' };
    const rebound = await request(loopback, 'GET', '/v1/session', headers);
    expect(rebound.json).toEqual({ required: false, signedIn: false });
    const posted = await request(loopback, 'POST', '/v1/session', headers, { token: 'any' });
    expect(posted.status).toBe(403);
    await loopback.close();
  });
});

describe('sign-out', () => {
  test('sign-out ends the session, deletes the cookie and keeps other sessions', async () => {
    const cookies = [cookieIn(await signIn(running)), cookieIn(await signIn(running))];
    const response = await request(running, 'DELETE', '/v1/session', own(running, cookies[0]));
    expect([response.status, response.json]).toEqual([200, { required: true, signedIn: false }]);
    expect(response.headers['cache-control']).toBe('no-store');
    expect(response.headers['set-cookie']).toEqual([
      'sluice_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0',
    ]);
    const statuses = cookies.map((cookie) =>
      request(running, 'GET', '/v1/policies', own(running, cookie)).then((each) => each.status),
    );
    expect(await Promise.all(statuses)).toEqual([401, 200]);
  });

  test('sign-out without a session succeeds', async () => {
    const cookie = cookieIn(await signIn(running));
    for (const each of [cookie, cookie, 'sluice_session=x', '']) {
      const response = await request(running, 'DELETE', '/v1/session', own(running, each));
      expect([response.status, response.json.signedIn]).toEqual([200, false]);
    }
    expect(audits().filter(({ action }) => action === 'sign-out')).toHaveLength(1);
  });

  test('sign-out ends all sessions of the request, also without origin headers', async () => {
    const [first, second] = [cookieIn(await signIn(running)), cookieIn(await signIn(running))];
    await request(running, 'DELETE', '/v1/session', { cookie: `${first}; ${second}` });
    for (const cookie of [first, second]) {
      expect((await request(running, 'GET', '/v1/policies', own(running, cookie))).status).toBe(
        401,
      );
    }
  });

  test('sign-out rejects cross-site requests', async () => {
    const cookie = cookieIn(await signIn(running));
    for (const headers of foreign) {
      expect((await request(running, 'DELETE', '/v1/session', { cookie, ...headers })).status).toBe(
        403,
      );
    }
    expect((await request(running, 'GET', '/v1/policies', own(running, cookie))).status).toBe(200);
  });
});

test('with TLS, the session cookie is Secure, and an http origin is rejected', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-session-'));
  const files = writeTlsFiles(folder);
  const service = await start(files);
  const more = { ca: certOf(files) };
  const url = `https://${hostOf(service)}`;
  const signed = await sendRequest(`${url}/v1/session`, 'POST', {}, { token: TOKEN }, more);
  expect(signed.headers['set-cookie']?.[0]).toMatch(/; Max-Age=28800; Secure$/);
  const cookie = cookieIn(signed);
  const status = async (headers: Headers) =>
    (await sendRequest(`${url}/v1/policies`, 'GET', { cookie, ...headers }, undefined, more))
      .status;
  expect(await status({ origin: url })).toBe(200);
  // A page without TLS may have been injected on the network.
  expect(await status({ origin: url.replace('https', 'http') })).toBe(401);
  const out = await sendRequest(`${url}/v1/session`, 'DELETE', { cookie }, undefined, more);
  expect(out.headers['set-cookie']?.[0]).toMatch(/; Max-Age=0; Secure$/);
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

test('session responses match the OpenAPI document', async () => {
  const service = await start();
  const api = await DocumentedApi.of(service);
  await api.get('/v1/session');
  expect((await api.post('/v1/session', { token: TOKEN })).status).toBe(200);
  for (let count = 0; count < 9; count++) await api.post('/v1/session', { token: 'wrong' });
  expect((await api.post('/v1/session', { token: TOKEN })).status).toBe(429);
  await api.delete('/v1/session');
  const { securitySchemes } = api.document.components;
  expect(securitySchemes.session).toEqual({ type: 'apiKey', in: 'cookie', name: 'sluice_session' });
  await service.close();
});
