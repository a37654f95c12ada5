import { ManualClock } from 'sluice';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Sessions } from '../../src/http/sessions.ts';
import { makeLog } from '../../src/observe/log.ts';
import { sendRequest } from '../http-api/plain-request.ts';
import { fresh } from '../http-api/sign-in.ts';
import { policy, type Running, type ServiceResponse, startRunning } from '../running.ts';
import { exchange, headOf } from './raw.ts';

const TOKEN = 'correct horse battery staple';
const config = { policies: [policy('few', 2, '1m')] };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const lines: string[] = [];

/** Returns a valid target for a route; parameters get existing names. */
const targetOf = (path: string): string =>
  path.replace(':policy', 'few').replace(':key', 'a').replace(/\*$/, 'x');

async function start(settings: object): Promise<Running> {
  const log = makeLog({ logLevel: 'trace' }, { write: (line) => lines.push(line) });
  return startRunning({ config, settings, log });
}

/** Returns sessions of another token and another time, and values that are not sessions. */
function forgedCookies(): readonly string[] {
  const forgers = [new Sessions(`${TOKEN}!`), new Sessions(TOKEN, new ManualClock(1000))];
  const texts = forgers.map((each) => each.textOf(each.open()));
  const [, end] = texts[0].split('.');
  const unsigned = `v1.${end}.${'A'.repeat(22)}.${'A'.repeat(43)}`;
  return [...texts, unsigned, 'x', ''].map((text) => `sluice_session=${text}`);
}

/** Returns the loopback URL of the service, for any listening address. */
const urlOf = ({ service }: Running): string => `http://127.0.0.1:${service.http.port}`;

async function send(
  running: Running,
  method: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<ServiceResponse> {
  const init = { method, headers, ...(method === 'POST' && { body: '{}' }) };
  const response = await fetch(urlOf(running) + path, { ...init, redirect: 'manual' });
  const type = response.headers.get('content-type') ?? '';
  // An event stream never ends.
  const isStream = type.includes('event-stream');
  if (isStream) await response.body?.cancel();
  const text = isStream ? '' : await response.text();
  const isJson = type.includes('json');
  const json = isJson && text !== '' ? JSON.parse(text) : undefined;
  return { status: response.status, headers: response.headers, text, json };
}

describe.each(['0.0.0.0:0', '[::]:0', '127.0.0.1:0'])(
  'access with a token, listening on %s',
  (listen) => {
    let running: Running;
    beforeAll(async () => {
      running = await start({ listen, adminToken: TOKEN });
    });
    afterAll(() => running.close());

    const admins = () => running.service.routes.filter(({ access }) => access === 'admin');

    test('every admin route requires the token', async () => {
      expect(admins().length).toBeGreaterThan(10);
      const wrong = [
        {},
        bearer('wrong horse battery staple'),
        bearer(TOKEN.slice(0, -1)),
        bearer(`${TOKEN}x`),
        bearer(''),
        { authorization: TOKEN },
        { authorization: 'Bearer' },
        { authorization: `Basic ${btoa(`admin:${TOKEN}`)}` },
        { cookie: `token=${TOKEN}` },
        ...forgedCookies().map((cookie) => ({ cookie, 'sec-fetch-site': 'same-origin' })),
      ];
      for (const { method, path } of admins()) {
        for (const headers of wrong) {
          const url = urlOf(running) + targetOf(path);
          const response = await sendRequest(url, method, headers, undefined, fresh());
          expect([method, path, response.status]).toEqual([method, path, 401]);
          expect(response.json.code).toBe('ERR_UNAUTHORIZED');
          expect(response.headers['www-authenticate']).toBe('Bearer realm="sluice"');
        }
      }
    });

    test('every admin route accepts the token', async () => {
      for (const { method, path } of admins()) {
        const response = await send(running, method, targetOf(path), bearer(TOKEN));
        expect([method, path, [401, 403, 500].includes(response.status)]).toEqual([
          ...[method, path, false],
        ]);
      }
      expect((await send(running, 'GET', '/v1/policies', bearer(TOKEN))).status).toBe(200);
    });

    test('every admin route accepts a session, but no cross-site request', async () => {
      const sessions = new Sessions(TOKEN);
      const cookie = `sluice_session=${sessions.textOf(sessions.open())}`;
      const statusOf = async (method: string, path: string, site: string) =>
        (await send(running, method, targetOf(path), { cookie, 'sec-fetch-site': site })).status;
      for (const { method, path } of admins()) {
        const status = await statusOf(method, path, 'same-origin');
        expect([method, path, [401, 403, 500].includes(status)]).toEqual([method, path, false]);
        expect(await statusOf(method, path, 'same-site')).toBe(403);
        expect(await statusOf(method, path, 'cross-site')).toBe(403);
      }
    });

    test('an admin token in the query is ignored', async () => {
      const path = `/v1/policies?token=${encodeURIComponent(TOKEN)}`;
      expect((await send(running, 'GET', path)).status).toBe(401);
    });

    test('a HEAD request to an admin route requires the token', async () => {
      expect((await send(running, 'HEAD', '/v1/policies')).status).toBe(401);
      expect((await send(running, 'HEAD', '/v1/policies', bearer(TOKEN))).status).toBe(200);
    });

    test('the Bearer scheme is case-insensitive and allows several spaces', async () => {
      for (const scheme of ['bearer', 'BEARER', 'BeArEr', 'Bearer  ']) {
        const headers = { authorization: `${scheme} ${TOKEN}` };
        expect((await send(running, 'GET', '/v1/policies', headers)).status).toBe(200);
      }
    });

    test('routes other than admin routes do not require the token', async () => {
      for (const { method, path, access } of running.service.routes) {
        if (access === 'admin') continue;
        const response = await send(running, method === '*' ? 'GET' : method, targetOf(path));
        expect([path, [401, 403].includes(response.status)]).toEqual([path, false]);
      }
    });

    test('the admin token is never logged', () => {
      expect(lines.join('\n')).not.toContain(TOKEN);
      expect(lines.join('\n')).not.toContain('horse');
    });
  },
);

describe('the admin token', () => {
  test('an admin token can contain non-ASCII characters', async () => {
    const running = await start({ adminToken: 'schlüssel für später' });
    const { port } = running.service.http;
    const field = (token: string) => `Authorization: Bearer ${token}`;
    const request = (token: string) =>
      Buffer.from(headOf('GET', '/v1/policies', field(token), 'Connection: close'));
    expect((await exchange(port, [request('schlüssel für später')])).status).toBe(200);
    expect((await exchange(port, [request('schlussel fur spater')])).status).toBe(401);
    await running.close();
  });
});

describe('access on loopback without a token', () => {
  let running: Running;
  beforeAll(async () => {
    running = await start({});
  });
  afterAll(() => running.close());

  const status = async (path: string, ...fields: readonly string[]): Promise<number> => {
    const head = [`GET ${path} HTTP/1.1`, ...fields, 'Connection: close', '', ''].join('\r\n');
    return (await exchange(running.service.http.port, [head])).status;
  };

  test('without a token, local callers have admin access', async () => {
    for (const { method, path } of running.service.routes) {
      const response = await send(running, method === '*' ? 'GET' : method, targetOf(path));
      expect([path, [401, 403].includes(response.status)]).toEqual([path, false]);
    }
  });

  test.each(['127.0.0.1', '127.0.0.1:80', '127.1.2.3', 'localhost', 'LOCALHOST:9', '[::1]:8080'])(
    'without a token, loopback accepts the host name %s',
    async (host) => expect(await status('/v1/policies', `Host: ${host}`)).toBe(200),
  );

  test.each([
    'evil.example',
    'evil.example:8080',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '127.0.0.1@evil.example',
    '[::1].evil.example',
    '128.0.0.1',
    '',
  ])('without a token, loopback rejects the host name %j (DNS rebinding)', async (host) => {
    expect(await status('/v1/policies', `Host: ${host}`)).toBe(403);
    expect(await status('/healthz', `Host: ${host}`)).toBe(200);
  });

  const own = () => `127.0.0.1:${running.service.http.port}`;
  test('without a token, loopback rejects every cross-site request', async () => {
    const foreign = [
      'Origin: https://evil.example',
      'Origin: null',
      'Origin: http://127.0.0.1',
      `Origin: http://evil.example/${own()}`,
      'Sec-Fetch-Site: cross-site',
      'Sec-Fetch-Site: same-site',
    ];
    for (const field of foreign) {
      for (const path of ['/v1/policies', '/healthz', '/v1/openapi.json']) {
        expect([field, path, await status(path, `Host: ${own()}`, field)]).toEqual([
          ...[field, path, 403],
        ]);
      }
    }
  });

  test("same-origin requests of the service's own pages are accepted", async () => {
    const fields = [`Host: ${own()}`, `Origin: http://${own()}`, 'Sec-Fetch-Site: same-origin'];
    expect(await status('/v1/policies', ...fields)).toBe(200);
    expect(await status('/v1/policies', `Host: ${own()}`, 'Sec-Fetch-Site: none')).toBe(200);
  });

  test('forward-auth ignores the Origin and Sec-Fetch headers of the client', async () => {
    const fields = [
      'Host: api.example',
      'Origin: https://app.example',
      'Sec-Fetch-Site: same-site',
    ];
    const reported = ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /a'];
    expect(await status('/v1/forward-auth', ...fields, ...reported)).toBe(200);
    expect(await status('/v1/forward-auth/ext-authz/a', ...fields)).toBe(200);
  });
});
