/** Real proxies, started from the shipped files, in front of an application. */
import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeySource, RequestMatch, RuleConfig } from '../../src/config/model.ts';
import { unavailableStore } from '../fallible-store.ts';
import { policy } from '../running.ts';
import {
  BehindProxy,
  changedCopy,
  type Echo,
  ensureProxies,
  FILES,
  isFromApplication,
  KINDS,
  type ReceivedResponse,
} from './behind-proxy.ts';

const LIMIT = 20;
/** Number of bursts of three concurrent clients. */
const BURSTS = Number(process.env.PROXY_BURSTS ?? 3);

const rule = (
  name: string,
  match: Omit<RequestMatch, 'kind'>,
  source: KeySource = { from: 'address' },
): RuleConfig => ({
  name,
  match: { kind: 'request', ...match },
  limits: name === 'free' ? [] : [{ policy: name, key: [{ sources: [source] }] }],
  goOn: false,
});

const config = {
  policies: [
    policy('many', LIMIT, '1h'),
    policy('one', 1, '1h'),
    policy('writes', 1, '1h'),
    policy('hosts', 1, '1h'),
    policy('keys', 1, '1h'),
    policy('cookies', 1, '1h'),
    policy('any', 1000, '1h'),
  ],
  rules: [
    rule('free', { path: ['/free/**'] }),
    rule('many', { path: ['/many'] }),
    rule('one', { path: ['/one/**'] }),
    rule('writes', { path: ['/writes'], method: ['POST'] }),
    rule('hosts', { path: ['/hosts'], host: ['limited.example'] }),
    rule('keys', { path: ['/keys'] }, { from: 'header', name: 'x-api-key' }),
    rule('cookies', { path: ['/cookies'] }, { from: 'cookie', name: 'session' }),
    rule('any', { path: ['/any', '/status/*'] }),
  ],
};

let clients = 1;
/** Returns a loopback address that no request has used. */
const freshClient = (): string => `127.0.${++clients >> 8}.${clients & 255}`;

const echoOf = ({ body }: ReceivedResponse): Echo => JSON.parse(body);
const statusesOf = (responses: readonly ReceivedResponse[]): number[] =>
  responses.map(({ status }) => status);

/** Checks that a denial has problem details, rate-limit headers and Retry-After. */
function expectDenial(
  { status, headers, body }: ReceivedResponse,
  name: string,
  limit: number,
): void {
  expect(status).toBe(429);
  expect(headers['content-type']).toBe('application/problem+json');
  expect(JSON.parse(body)).toMatchObject({ status: 429 });
  expect(headers['ratelimit-policy']).toBe(`"${name}";q=${limit};w=3600`);
  const wait = Number(headers['retry-after']);
  expect(wait).toBeGreaterThan(0);
  expect(headers.ratelimit).toBe(`"${name}";r=0;t=${wait}`);
}

/** The text to replace in each file so that the proxy fails closed. */
const CLOSED = {
  nginx: ['return 204;', 'return 403;'],
  caddy: [
    'reverse_proxy @sluice_unavailable {$APPLICATION:127.0.0.1:3000}',
    'respond @sluice_unavailable 503',
  ],
  haproxy: ['#   http-request set-var', '  http-request set-var'],
} as const;

beforeAll(ensureProxies, 300_000);

describe.each(KINDS)('forward-auth behind %s', (kind) => {
  let behind: BehindProxy;
  beforeAll(async () => {
    behind = await BehindProxy.start(kind);
    await behind.serve({ config });
  });
  afterAll(() => behind.stop());

  it(`behind ${kind}, concurrent requests are allowed exactly up to the limit`, async () => {
    const burst = async (from: string): Promise<void> => {
      const requests = Array.from({ length: 3 * LIMIT }, () =>
        behind.request({ path: '/many', from }),
      );
      const responses = await Promise.all(requests);
      const passed = responses.filter(isFromApplication);
      const remaining = passed.map(({ headers }) =>
        Number(/r=(\d+)/.exec(headers.ratelimit as string)?.[1]),
      );
      expect(remaining.sort((a, b) => b - a)).toEqual(
        Array.from({ length: LIMIT }, (_, at) => LIMIT - 1 - at),
      );
      for (const response of responses) {
        if (!isFromApplication(response)) expectDenial(response, 'many', LIMIT);
      }
    };
    for (let round = 0; round < BURSTS; round++) {
      await Promise.all([freshClient(), freshClient(), freshClient()].map(burst));
    }
    // No request for the service has reached the application.
    expect(behind.seen.filter((uri) => uri.startsWith('/v1/'))).toEqual([]);
  });

  it(`behind ${kind}, the client receives the rate-limit headers`, async () => {
    const passed = await behind.request({ path: '/one', from: freshClient() });
    expect(passed.status).toBe(200);
    expect(passed.headers.ratelimit).toBe('"one";r=0;t=3600');
    expect(passed.headers['ratelimit-policy']).toBe('"one";q=1;w=3600');
    for (const path of ['/free', '/unknown']) {
      const free = await behind.request({ path });
      expect([free.status, isFromApplication(free)]).toEqual([200, true]);
      expect(Object.keys(free.headers).join()).not.toMatch(/ratelimit|sluice/);
    }
  });

  it.each(['403', '404', '429', '500', '503'])(
    `${kind} forwards the status %s of the application unchanged`,
    async (status) => {
      const response = await behind.request({ path: `/status/${status}`, from: freshClient() });
      expect([response.status, isFromApplication(response)]).toEqual([Number(status), true]);
      expect(response.headers.ratelimit).toContain('"any";r=999');
      expect(response.headers['retry-after']).toBeUndefined();
    },
  );

  it(`${kind} sends a request to the application once, even if the request fails`, async () => {
    const response = await behind.request({ path: '/dies', method: 'DELETE' });
    expect([502, 503]).toContain(response.status);
    expect(behind.seen.filter((uri) => uri === '/dies')).toHaveLength(1);
  });

  it(`behind ${kind}, the application receives method, URI, body and client address`, async () => {
    const from = freshClient();
    const body = 'x'.repeat(200_000);
    const path = '/any?a=%20b&c=//d';
    const response = await behind.request({ method: 'PUT', path, body, from });
    expect(echoOf(response)).toMatchObject({ method: 'PUT', url: path, body });
    expect(echoOf(response).headers['x-forwarded-for']).toBe(from);
    const head = await behind.request({ method: 'HEAD', path: '/any', from });
    expect([head.status, head.body]).toEqual([200, '']);
    expect(head.headers.ratelimit).toContain('"any";r=998');
  });

  it(`behind ${kind}, clients are counted by their real address`, async () => {
    const [ada, bob] = [freshClient(), freshClient()];
    expect((await behind.request({ path: '/one', from: ada })).status).toBe(200);
    const forgeries = [
      [],
      ['X-Forwarded-For', bob],
      ['X-Forwarded-For', `${bob}, 9.9.9.9`, 'x-forwarded-for', '8.8.8.8'],
      ['Forwarded', `for=${bob}`],
      ['X-Real-IP', bob, 'Client-IP', bob, 'True-Client-IP', bob],
      ['Connection', 'X-Forwarded-For', 'X-Forwarded-For', bob],
    ];
    for (const headers of forgeries) {
      expectDenial(await behind.request({ path: '/one', from: ada, headers }), 'one', 1);
    }
    // The counter of bob is unused.
    expect((await behind.request({ path: '/one', from: bob })).status).toBe(200);
  });

  it(`behind ${kind}, forged headers do not change which limit applies`, async () => {
    const from = freshClient();
    expect((await behind.request({ path: '/one', from })).status).toBe(200);
    const names = ['X-Forwarded-Uri', 'X-Original-URI', 'X-Original-URL', 'X-Rewrite-URL'];
    const forgeries = [
      ...names.map((name) => [name, '/free']),
      names.flatMap((name) => [name, '/free', name.toLowerCase(), '/free']),
      ['X-Forwarded-Method', 'OPTIONS', 'X-Original-Method', 'OPTIONS'],
      ['X-Forwarded-Host', 'free.example', 'X-Forwarded-Prefix', '/free'],
      ['X-Sluice-Status', '200'],
      names.flatMap((name) => ['Connection', name]),
    ];
    for (const headers of forgeries) {
      expectDenial(await behind.request({ path: '/one', from, headers }), 'one', 1);
    }
    for (const path of ['/one?deny=200', '/one?x=/free', '/one/?', '/one?deny=403']) {
      expect((await behind.request({ path, from })).status).not.toBe(200);
    }
  });

  it(`behind ${kind}, a rule applies to every spelling of its path`, async () => {
    const from = freshClient();
    expect((await behind.request({ path: '/one/a', from })).status).toBe(200);
    const spellings = ['//one/a', '/%6Fne/a', '/free/../one/a', '/./one/a', '/one//b', '/ONE/a'];
    for (const path of spellings) {
      const { status } = await behind.request({ path, from });
      expect([path, status]).toEqual([path, 429]);
    }
  });

  it(`${kind} sends the method and the host to the service`, async () => {
    const from = freshClient();
    const writes = (method: string) => behind.request({ path: '/writes', method, from });
    const responses = [await writes('GET'), await writes('POST'), await writes('GET')];
    expect(statusesOf([...responses, await writes('POST')])).toEqual([200, 200, 200, 429]);
    const host = (name: string) =>
      behind
        .request({ path: '/hosts', from, headers: { host: name } })
        .then(({ status }) => status);
    expect([await host('limited.example'), await host('Limited.Example:80')]).toEqual([200, 429]);
    expect([await host('other.example'), await host('other.example')]).toEqual([200, 200]);
  });

  it(`${kind} sends headers and cookies to the service`, async () => {
    const status = async (path: string, headers: Record<string, string>): Promise<number> =>
      (await behind.request({ path, headers })).status;
    const key = freshClient();
    expect(await status('/keys', { 'x-api-key': `a${key}` })).toBe(200);
    expect(await status('/keys', { 'x-api-key': `b${key}` })).toBe(200);
    expect(await status('/keys', { 'x-api-key': `a${key}` })).toBe(429);
    expect(await status('/cookies', { cookie: `x=1; session=${key}` })).toBe(200);
    expect(await status('/cookies', { cookie: `session=${key}; y=1` })).toBe(429);
  });

  it(`behind ${kind}, a request that the service rejects does not evade the limit`, async () => {
    const spent = await behind.request({ path: '/one', from: '127.0.0.1' });
    expect(spent.status).toBe(200);
    const start = 'GET /one HTTP/1.1\r\nHost: localhost\r\n';
    const sizes = [4, 8, 12, 14, 15, 15.3, 16, 17, 20, 24, 30, 33, 40, 70];
    const texts = [
      ...sizes.map((kilobytes) => {
        const line = 'x'.repeat((1024 * kilobytes) / 10);
        return `${start}${Array.from({ length: 10 }, (_, at) => `X${at}: ${line}\r\n`).join('')}`;
      }),
      ...sizes.map((kilobytes) => `${start}X: ${'x'.repeat(1024 * kilobytes)}\r\n`),
      ...[50, 79, 80, 81, 95, 97, 98, 99, 100, 101, 150].map(
        (count) => `${start}${'X: y\r\n'.repeat(count)}`,
      ),
      ...sizes.map((kilobytes) =>
        start.replace('/one', () => `/one?${'x'.repeat(1024 * kilobytes)}`),
      ),
      ...['X: a\x01b', 'X: a\x7f', 'X: \xff\xfe', 'X:', 'X: \t', 'X\x01: y', 'X y: z'],
      ...['Transfer-Encoding: chunked', 'Expect: 100-continue', 'Upgrade: websocket', 'TE: x'],
      ...['Content-Length: 5', 'Host: other', 'Connection: close, X-Original-URI', 'Cookie: ='],
    ].map((text) => (text.startsWith('GET') ? text : `${start}${text}\r\n`));
    for (const text of texts) {
      const status = await behind.sendRaw(`${text}Connection: close\r\n\r\n0\r\n\r\n`);
      expect([text.slice(0, 120), status]).not.toEqual([text.slice(0, 120), 200]);
      expect([text.slice(0, 120), status]).not.toEqual([text.slice(0, 120), 500]);
    }
    // The proxy still works.
    expect((await behind.request({ path: '/free' })).status).toBe(200);
  });

  describe('failure of the service', () => {
    const expectUnlimited = async (): Promise<void> => {
      const from = freshClient();
      const body = 'y'.repeat(100_000);
      const responses = await Promise.all([
        behind.request({ path: '/one', from }),
        behind.request({ path: '/one?x', body, from }),
      ]);
      for (const response of responses) {
        expect([response.status, isFromApplication(response)]).toEqual([200, true]);
        expect(response.headers.ratelimit).toBeUndefined();
      }
      expect(echoOf(responses[1])).toMatchObject({ method: 'POST', url: '/one?x', body });
    };

    it(`${kind} fails open while the service is stopped`, async () => {
      await behind.stopService();
      await expectUnlimited();
      await behind.serve({ config });
      const from = freshClient();
      const responses = [
        await behind.request({ path: '/one', from }),
        await behind.request({ path: '/one', from }),
      ];
      expect(statusesOf(responses)).toEqual([200, 429]);
    });

    it(`${kind} fails open while the service hangs`, async () => {
      await behind.pretend(createServer(() => {}));
      await expectUnlimited();
    });

    it(`${kind} fails open while the service responds with errors`, async () => {
      const failing = createServer((_, response) => {
        response.statusCode = 500;
        response.end();
      });
      await behind.pretend(failing);
      await expectUnlimited();
    });

    it(`behind ${kind}, clients receive 503 if the store fails with the action deny`, async () => {
      await behind.serve({ config, store: unavailableStore('deny') });
      const response = await behind.request({ path: '/one', from: freshClient() });
      expect([response.status, isFromApplication(response)]).toEqual([503, false]);
      expect(JSON.parse(response.body)).toMatchObject({ status: 503 });
      expect(response.headers.ratelimit).toBeUndefined();
      // A request without limits needs no store.
      expect((await behind.request({ path: '/free' })).status).toBe(200);
    });

    it(`${kind} fails closed with 503 if the file is changed to do so`, async () => {
      const [open, other] = CLOSED[kind];
      const copy = changedCopy(FILES[kind], open, other);
      const closed = await BehindProxy.start(kind, copy.file);
      const unavailable = await closed.request({ path: '/one' });
      expect([unavailable.status, isFromApplication(unavailable)]).toEqual([503, false]);
      await closed.serve({ config });
      const from = freshClient();
      const responses = [
        await closed.request({ path: '/one', from }),
        await closed.request({ path: '/one', from }),
      ];
      expect(statusesOf(responses)).toEqual([200, 429]);
      await closed.stop();
      copy.remove();
    });
  });
});
