/** Requests that the cookie of a session authenticates. */
import { ManualClock } from 'sluice';
import { describe, expect, test, vi } from 'vitest';
import { SESSION_MS, Sessions } from '../../src/http/sessions.ts';
import type { Running } from '../running.ts';
import { cookieIn } from './plain-request.ts';
import {
  audits,
  foreign,
  type Headers,
  hostOf,
  lines,
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

describe('session cookies', () => {
  const status = async (headers: Headers, method = 'GET', path = '/v1/policies') =>
    (await request(running, method, path, headers)).status;

  test('a session is accepted from a page of the same site', async () => {
    const cookie = cookieIn(await signIn(running));
    const origin = `http://${hostOf(running)}`;
    const accepted: readonly Headers[] = [
      { origin },
      { 'sec-fetch-site': 'same-origin' },
      { origin, 'sec-fetch-site': 'same-origin' },
      { origin: `https://${hostOf(running)}` },
    ];
    for (const headers of accepted) {
      expect(await status({ cookie, ...headers })).toBe(200);
      expect(await status({ cookie, ...headers }, 'DELETE', '/v1/keys/few/a')).toBe(200);
    }
    // Over plain HTTP, browsers send no origin headers with GET.
    for (const headers of [{}, { 'sec-fetch-site': 'none' }]) {
      expect(await status({ cookie, ...headers })).toBe(200);
      expect(await status({ cookie, ...headers }, 'HEAD')).toBe(200);
    }
  });

  test('a session without origin headers allows only safe methods', async () => {
    const cookie = cookieIn(await signIn(running));
    const silent: readonly Headers[] = [
      {},
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'Same-Origin' },
      { 'sec-fetch-site': '' },
    ];
    for (const { method, path } of running.service.routes) {
      if (!/^(POST|PUT|PATCH|DELETE)$/.test(method) || /session|check|peek|json/.test(path)) {
        continue;
      }
      const target = path.replace(':policy', 'few').replace(':key', 'a');
      for (const headers of silent) {
        const received = await status({ cookie, ...headers }, method, target);
        expect([method, path, headers, received]).toEqual([method, path, headers, 401]);
      }
      for (const headers of foreign) {
        expect(await status({ cookie, ...headers }, method, target)).toBe(403);
      }
    }
    expect(audits().filter(({ action }) => action !== 'sign-in')).toEqual([]);
  });

  test('a session is rejected from pages of other sites', async () => {
    const cookie = cookieIn(await signIn(running));
    for (const headers of foreign) expect(await status({ cookie, ...headers })).toBe(403);
    expect(await status({ cookie, 'sec-fetch-site': 'elsewhere' })).toBe(401);
  });

  test('repeated and invalid session cookies are rejected', async () => {
    const cookie = cookieIn(await signIn(running));
    const [, end, id, signature] = cookie.split('.');
    const wrong = [
      `${cookie}; ${cookie}`,
      `sluice_session=x; ${cookie}`,
      `${cookie}; sluice_session=`,
      `${cookie}x`,
      cookie.slice(0, -1),
      cookie.replace('=', '="').concat('"'),
      'sluice_session=',
      `sluice_session=${TOKEN}`,
      `sluice_session=v1.zzzzzzzz.${id}.${signature}`,
      `sluice_session=v1.${end}.${'A'.repeat(22)}.${signature}`,
      `sluice_session=v1.${end}.${id}.${'A'.repeat(43)}`,
      `sluice_session=${'x'.repeat(20_000)}`,
      `sluice_session=%76${cookie.slice(16)}`,
    ];
    for (const each of wrong) {
      const response = await request(running, 'GET', '/v1/policies', own(running, each));
      expect([each, response.status]).toEqual([each, 401]);
      const seen = await request(running, 'GET', '/v1/session', own(running, each));
      expect(seen.json).toEqual({ required: true, signedIn: false });
    }
    expect(await status(own(running, `a=b; ${cookie}; c=d`))).toBe(200);
    expect(lines.filter((line) => !line.includes('"audit"'))).toEqual([]);
  });

  test('expired sessions and sessions of another token are rejected', async () => {
    const over = new Sessions(TOKEN, new ManualClock(Date.now() - SESSION_MS));
    const other = new Sessions(`${TOKEN}!`);
    for (const sessions of [over, other]) {
      const cookie = `sluice_session=${sessions.textOf(sessions.open())}`;
      expect(await status(own(running, cookie))).toBe(401);
    }
    const cookie = cookieIn(await signIn(running));
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + SESSION_MS - 60_000 });
    expect(await status(own(running, cookie))).toBe(200);
    vi.setSystemTime(Date.now() + 60_000);
    expect(await status(own(running, cookie))).toBe(401);
    vi.useRealTimers();
  });

  test('a session is valid in services with the same token and invalid in others', async () => {
    const cookie = cookieIn(await signIn(running));
    const second = await start();
    const response = await request(second, 'GET', '/v1/policies', own(second, cookie));
    expect(response.status).toBe(200);
    await second.close();
    const other = await start({ adminToken: 'another horse of another colour' });
    expect((await request(other, 'GET', '/v1/policies', own(other, cookie))).status).toBe(401);
    await other.close();
  });

  test('access control reports the expiry and the end of the session of a request', async () => {
    const signed = await signIn(running);
    const { access } = running.service.app;
    const seen = new Promise((resolve) => {
      const { callerOf } = access;
      vi.spyOn(access, 'callerOf').mockImplementationOnce((context) => {
        const caller = callerOf.call(access, context);
        setImmediate(() => {
          const good = access.stillAdmits(context);
          access.sessions?.end(context.caller!.session!);
          resolve([context.sessionExpiresAtMs, good, access.stillAdmits(context)]);
        });
        return caller;
      });
    });
    await request(running, 'GET', '/v1/policies', own(running, cookieIn(signed)));
    expect(await seen).toEqual([signed.json.expiresAtMs, true, false]);
  });
});
