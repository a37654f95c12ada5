/** Limits and log lines of wrong tokens, at sign-in and as bearer tokens. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import type { Running } from '../running.ts';
import { cookieIn } from './plain-request.ts';
import {
  audits,
  foreign,
  type Headers,
  leaks,
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

const sendBearer = (service: Running, from: string, token: string, path = '/v1/policies') =>
  request(service, 'GET', path, { authorization: `Bearer ${token}` }, undefined, {
    localAddress: from,
  });

describe('sign-in attempts', () => {
  const attempt = (service: Running, from: string, token = TOKEN, headers: Headers = {}) =>
    request(service, 'POST', '/v1/session', headers, { token }, { localAddress: from });

  test('an address is allowed ten sign-in attempts per minute', async () => {
    const service = await start();
    for (let count = 0; count < 10; count++) {
      expect((await attempt(service, '127.0.0.9', 'wrong')).status).toBe(401);
    }
    const response = await attempt(service, '127.0.0.9');
    expect([response.status, response.json.code]).toEqual([429, 'ERR_TOO_MANY_ATTEMPTS']);
    expect(response.headers['set-cookie']).toBeUndefined();
    const wait = Number(response.headers['retry-after']);
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
    expect(response.headers['ratelimit-policy']).toBe('"attempts";q=10;w=60');
    expect((await attempt(service, '127.0.0.10')).status).toBe(200);
    // A forged client address does not evade the limit.
    const madeUp = await attempt(service, '127.0.0.9', TOKEN, { 'x-forwarded-for': '192.0.2.9' });
    expect(madeUp.status).toBe(429);
    // Neither does a bearer token, otherwise guesses would not be limited.
    expect((await sendBearer(service, '127.0.0.9', TOKEN)).status).toBe(429);
    expect((await sendBearer(service, '127.0.0.10', TOKEN)).status).toBe(200);
    await service.close();
  });

  test('sign-in attempts are counted by the client behind a trusted proxy', async () => {
    const service = await start({ trustProxy: '1', headers: 'none' });
    const behind = (client: string) =>
      attempt(service, '127.0.0.1', 'wrong', { 'x-forwarded-for': client });
    for (let count = 0; count < 10; count++) await behind('192.0.2.1');
    const denied = await behind('192.0.2.1');
    expect([denied.status, denied.headers['retry-after']]).toEqual([429, expect.any(String)]);
    expect((await behind('192.0.2.2')).status).toBe(401);
    await service.close();
  });

  test('an address is allowed two sign-in attempts per minute during a flood', async () => {
    const service = await start();
    const flood = Array.from({ length: 100 }, (_, at) =>
      attempt(service, `127.0.1.${1 + (at % 20)}`, 'wrong'),
    );
    await Promise.all(flood);
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) {
      statuses.push((await attempt(service, '127.0.0.11', 'wrong')).status);
    }
    expect(statuses).toEqual([401, 401, 429]);
    expect((await attempt(service, '127.0.0.12')).status).toBe(200);
    await service.close();
  });

  test('a bounded number of failed sign-ins is logged', async () => {
    const service = await start();
    const wrong = Array.from({ length: 50 }, (_, at) =>
      attempt(service, `127.0.2.${1 + (at % 25)}`, 'wrong'),
    );
    await Promise.all(wrong);
    const failed = audits();
    expect(failed).toHaveLength(10);
    for (const each of failed) {
      const by = expect.stringMatching(/^127\.0\.2\.\d+$/);
      expect(each).toEqual({ action: 'sign-in', ok: false, by });
    }
    await service.close();
    const sums = lines.map((line) => JSON.parse(line)).filter((each) => 'suppressed' in each);
    expect(sums).toMatchObject([{ suppressed: 40, msg: 'more failed sign-ins not logged' }]);
  });
});

describe('bearer tokens', () => {
  test('an address is allowed ten wrong bearer tokens per minute', async () => {
    const service = await start();
    const targets = ['/v1/policies', '/v1/session', '/metrics', '/v1/events', '/v1/top'];
    for (const target of [...targets, ...targets]) {
      const response = await sendBearer(service, '127.0.0.9', 'wrong horse battery staple', target);
      expect([target, response.status]).toEqual([target, target === '/v1/session' ? 200 : 401]);
    }
    for (const token of ['wrong', TOKEN]) {
      for (const target of targets) {
        const response = await sendBearer(service, '127.0.0.9', token, target);
        expect([target, response.status, response.json.code]).toEqual([
          ...[target, 429, 'ERR_TOO_MANY_ATTEMPTS'],
        ]);
        expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
      }
    }
    expect((await sendBearer(service, '127.0.0.10', TOKEN)).status).toBe(200);
    await service.close();
  });

  test('valid bearer tokens are not counted as attempts', async () => {
    const service = await start();
    for (let count = 0; count < 30; count++) {
      expect((await sendBearer(service, '127.0.0.9', TOKEN)).status).toBe(200);
    }
    expect((await sendBearer(service, '127.0.0.9', 'wrong')).status).toBe(401);
    expect(audits()).toHaveLength(1);
    await service.close();
  });

  test('at most ten concurrent bearer tokens of an address are checked', async () => {
    const service = await start();
    const guesses = Array.from({ length: 200 }, (_, at) => (at === 150 ? TOKEN : `guess-${at}`));
    const responses = await Promise.all(
      guesses.map((each) => sendBearer(service, '127.0.0.9', each)),
    );
    const statuses = responses.map(({ status }) => status);
    expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(10);
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(189);
    await service.close();
  });

  test('a wrong bearer token does not end a session', async () => {
    const service = await start();
    const from = { localAddress: '127.0.0.9' };
    const signed = await request(service, 'POST', '/v1/session', {}, { token: TOKEN }, from);
    for (let count = 0; count < 12; count++) await sendBearer(service, '127.0.0.9', 'wrong');
    const headers = own(service, cookieIn(signed));
    const response = await request(service, 'GET', '/v1/policies', headers, undefined, from);
    expect(response.status).toBe(200);
    await service.close();
  });

  test('a bounded number of wrong bearer tokens is logged', async () => {
    const service = await start();
    const wrong = Array.from({ length: 50 }, (_, at) =>
      sendBearer(service, `127.0.3.${1 + (at % 25)}`, 'wrong'),
    );
    await Promise.all(wrong);
    const failed = audits();
    expect(failed).toHaveLength(10);
    for (const each of failed) {
      const by = expect.stringMatching(/^127\.0\.3\.\d+$/);
      expect(each).toEqual({ action: 'token', ok: false, by });
    }
    await service.close();
    const sums = lines.map((line) => JSON.parse(line)).filter((each) => 'suppressed' in each);
    expect(sums).toMatchObject([{ suppressed: 40, msg: 'more rejected tokens not logged' }]);
  });

  test('wrong bearer tokens do not affect readiness probes', async () => {
    const service = await start();
    for (let count = 0; count < 20; count++) {
      expect((await sendBearer(service, '127.0.0.9', 'wrong', '/readyz')).status).toBe(200);
    }
    await service.close();
  });
});

describe('attempts at several services on one Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  test('services on one Redis count wrong tokens together', async () => {
    const settings = { store: redis.url, deadlineMs: '2s', prefix: 'attempts:' };
    const services = [await start(settings), await start(settings)];
    for (const each of services) {
      await expect.poll(async () => (await sendBearer(each, '127.0.0.8', TOKEN)).status).toBe(200);
      await expect.poll(async () => (await each.get('/readyz')).json.store.up).toBe(true);
    }
    for (let count = 0; count < 5; count++) {
      for (const each of services) {
        expect((await sendBearer(each, '127.0.0.9', 'wrong')).status).toBe(401);
      }
    }
    for (const each of services) {
      expect((await sendBearer(each, '127.0.0.9', TOKEN)).status).toBe(429);
    }
    await redis.kill();
    const statuses: number[] = [];
    for (let count = 0; count < 11; count++) {
      statuses.push((await sendBearer(services[0], '127.0.0.10', 'wrong')).status);
    }
    expect(statuses).toEqual([...Array(10).fill(401), 429]);
    for (const each of services) await each.close();
  });
});

describe('audit lines', () => {
  test.each(['silent', 'fatal', 'error', 'warn', 'info'])(
    'audit lines are logged at the log level %s',
    async (level) => {
      const service = await start({}, level);
      await sendBearer(service, '127.0.0.9', 'wrong');
      await request(
        service,
        'POST',
        '/v1/session',
        {},
        { token: 'wrong' },
        { localAddress: '127.0.0.9' },
      );
      await request(
        service,
        'POST',
        '/v1/session',
        {},
        { token: TOKEN },
        { localAddress: '127.0.0.9' },
      );
      await request(service, 'DELETE', '/v1/keys/few/a', { authorization: `Bearer ${TOKEN}` });
      await service.close();
      expect(audits().map(({ action }) => action)).toEqual([
        'token',
        'sign-in',
        'sign-in',
        'reset',
      ]);
    },
  );
});

describe('callers in audit lines', () => {
  test('audit lines contain how the caller is authenticated', async () => {
    const from = { localAddress: '127.0.0.77' };
    const signed = await request(running, 'POST', '/v1/session', {}, { token: TOKEN }, from);
    const headers = own(running, cookieIn(signed));
    await request(running, 'DELETE', '/v1/keys/few/a', headers, undefined, from);
    const bearer = { authorization: `Bearer ${TOKEN}` };
    await request(running, 'DELETE', '/v1/keys/few/a', bearer, undefined, from);
    await request(running, 'DELETE', '/v1/session', headers, undefined, from);
    const by = '127.0.0.77';
    const [{ session }] = audits();
    expect(session).toMatch(/^[0-9a-f]{8}$/);
    const reset = { action: 'reset', policy: 'few', key: 'a', before: null, after: null, by };
    expect(audits()).toEqual([
      { action: 'sign-in', ok: true, by, as: 'token', session },
      { ...reset, as: 'session', session },
      { ...reset, as: 'token' },
      { action: 'sign-out', by, as: 'session', session },
    ]);
    const messages = lines.map((line) => JSON.parse(line).msg);
    expect(messages).toEqual(['signed in', 'admin change', 'admin change', 'signed out']);
  });
});

test('no log line contains the token or a session', async () => {
  for (const { method, path } of running.service.routes) {
    const cookie = cookieIn(await signIn(running));
    const target = path.replace(':policy', 'few').replace(':key', 'a').replace(/\*$/, 'x');
    const verb = method === '*' ? 'GET' : method;
    for (const headers of [own(running, cookie), { cookie }, foreign[0]]) {
      await request(running, verb, target, headers, verb === 'GET' ? undefined : { token: TOKEN });
    }
  }
  expect(audits().length).toBeGreaterThan(running.service.routes.length);
  expect(leaks()).toEqual([]);
});
