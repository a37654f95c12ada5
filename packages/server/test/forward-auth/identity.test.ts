/** A forwarded request has one identity: only the headers of the profile describe it. */
import { once } from 'node:events';
import { request } from 'node:http';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeySource, RuleConfig } from '../../src/config/model.ts';
import { PROXY_NAMES } from '../../src/proxy-profiles.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { BehindProxy, ensureProxies, isFromApplication } from './behind-proxy.ts';
import { forwarded, PATH } from './forwarded.ts';

const rule = (path: string, policyName: string, ...sources: readonly KeySource[]): RuleConfig => ({
  name: path,
  match: { kind: 'request', path: [path] },
  limits: policyName === 'free' ? [] : [{ policy: policyName, key: [{ sources }] }],
  goOn: false,
});

const ADDRESS: KeySource = { from: 'address' };

const config = {
  policies: [
    ...['login', 'keys', 'params', 'cookies', 'shared'].map((name) => policy(name, 1, '1h')),
    policy('costs', 10, '1h', { costs: { cheap: 1, expensive: 10 } }),
  ],
  rules: [
    rule('/free/**', 'free'),
    rule('/login', 'login', ADDRESS),
    rule('/keys', 'keys', { from: 'header', name: 'x-api-key' }, ADDRESS),
    rule('/params', 'params', { from: 'query', name: 'api_key' }),
    rule('/cookies', 'cookies', { from: 'cookie', name: 'session' }),
    rule('/a', 'shared', ADDRESS),
    rule('/b', 'shared', { from: 'header', name: 'x-user' }),
  ],
};

/** Sends header lines as they are, also repeated ones. */
async function send(running: Running, path: string, lines: readonly string[]): Promise<number> {
  const { port } = running.service.http;
  const headers = ['Host', 'example.com', ...lines];
  const sent = request({ host: '127.0.0.1', port, path, headers, agent: false }).end();
  const [response] = await once(sent, 'response');
  response.resume();
  return response.statusCode;
}

const linesOf = (headers: Readonly<Record<string, string>>): string[] =>
  Object.entries(headers).flat();

let clients = 0;
const freshClient = (): string => `198.18.${++clients >> 8}.${clients & 255}`;

/** Returns the headers in which nginx describes a request with the shipped file. */
const original = (uri: string, client: string) => ({
  'X-Original-Method': 'GET',
  'X-Original-URI': uri,
  'X-Forwarded-For': client,
});

const FORGED = [
  ...['X-Forwarded-Uri', 'X-Original-URI', 'X-Original-URL', 'X-Rewrite-URL', 'X-Forwarded-Path'],
  ...['X-Forwarded-Method', 'X-Original-Method', 'X-HTTP-Method', 'X-Forwarded-Prefix'],
  ...['X-Forwarded-Host', 'X-Original-Host', 'Forwarded', 'X-Real-IP', 'X-Forwarded-Server'],
];

describe.each(PROXY_NAMES)('the proxy profile %s', (proxy) => {
  let running: Running;
  beforeAll(async () => {
    running = await startRunning({ config, settings: { proxy } });
  });
  afterAll(() => running.close());

  const own = (uri: string, client: string): readonly [path: string, lines: string[]] => {
    if (proxy === 'envoy') return [`${PATH}/ext-authz${uri}`, ['X-Forwarded-For', client]];
    if (proxy === 'nginx') return [PATH, linesOf(original(uri, client))];
    return [PATH, linesOf(forwarded(uri, { 'x-forwarded-for': client }))];
  };

  it(`the proxy profile ${proxy} ignores forwarding headers of other profiles`, async () => {
    const client = freshClient();
    const [path, lines] = own('/login', client);
    expect(await send(running, path, lines)).toBe(200);
    const isOwn = (name: string) =>
      lines.some((line, at) => at % 2 === 0 && line.toLowerCase() === name.toLowerCase());
    for (const name of FORGED.filter((each) => !isOwn(each))) {
      const forged = [name, '/free', ...lines, name, 'GET'];
      expect([name, await send(running, path, forged)]).toEqual([name, 429]);
    }
  });

  it(`a repeated header of the proxy profile ${proxy} is rejected`, async () => {
    const [path, lines] = own('/login', freshClient());
    for (let at = 0; at < lines.length; at += 2) {
      const [name, value] = lines.slice(at, at + 2);
      // The host is read only for rules that match it, the scheme never.
      if (/host|proto/i.test(name)) continue;
      for (const second of [value, '', '/free']) {
        expect([name, await send(running, path, [...lines, name, second])]).toEqual([name, 400]);
        expect(await send(running, path, [name.toUpperCase(), second, ...lines])).toBe(400);
      }
    }
  });

  it('a repeated key header is rejected, also if one is spelled with underscores', async () => {
    const [path, lines] = own('/keys', freshClient());
    const key = ['X-Api-Key', 'a'];
    expect(await send(running, path, [...lines, ...key])).toBe(200);
    expect(await send(running, path, [...lines, ...key])).toBe(429);
    for (const more of [
      ['x-api-key', 'b'],
      ['X-API-KEY', 'a'],
      ['X-Api-Key', ''],
      ['X_Api_Key', 'b'],
    ]) {
      expect([more, await send(running, path, [...lines, ...key, ...more])]).toEqual([more, 400]);
      expect([more, await send(running, path, [...more, ...lines, ...key])]).toEqual([more, 400]);
    }
    expect(await send(running, path, [...lines, 'X_Api_Key', 'b'])).toBe(400);
  });

  it('a comma in a key header is rejected if the proxy may join repeated headers', async () => {
    const [path, lines] = own('/keys', freshClient());
    const isJoined = proxy === 'envoy' || proxy === 'generic';
    const status = await send(running, path, [...lines, 'X-Api-Key', `a,b${proxy}`]);
    expect(status).toBe(isJoined ? 400 : 200);
  });

  it('a key parameter or cookie that occurs twice is rejected', async () => {
    const client = freshClient();
    const status = (uri: string, ...more: readonly string[]): Promise<number> => {
      const [path, lines] = own(uri, client);
      return send(running, path, [...lines, ...more]);
    };
    expect(await status('/params?api_key=real')).toBe(200);
    expect(await status('/params?api_key=1&api_key=real')).toBe(400);
    expect(await status('/params?api_key=real&api_key=1')).toBe(400);
    expect(await status('/cookies', 'Cookie', 'session=real')).toBe(200);
    expect(await status('/cookies', 'Cookie', 'session=1; session=real')).toBe(400);
    expect(await status('/cookies', 'Cookie', 'session=real', 'Cookie', 'session=1')).toBe(400);
  });

  it.each([
    ...['/x\\..\\login', '/%2flogin', '/x/..%2flogin', '/free/..%2flogin', '/free\\..\\login'],
    ...['/free/%2e%2e%5clogin', '//x/login', '/free//../login', '/login;x', '/login.'],
  ])('the forwarded path %s is counted as the login', async (uri) => {
    const client = freshClient();
    const [path, lines] = own('/login', client);
    expect(await send(running, path, lines)).toBe(200);
    const [spelt] = own(uri, client);
    expect(await send(running, spelt, own(uri, client)[1])).toBe(429);
  });

  it.each(['/login#x', '/log in', 'login', 'http://free/login', '?'])(
    'the forwarded target %j is rejected',
    async (uri) => {
      if (proxy === 'envoy') return;
      const [path, lines] = own(uri, freshClient());
      const name = proxy === 'nginx' ? 'X-Original-URI' : 'x-forwarded-uri';
      const at = lines.indexOf(name);
      expect(await send(running, path, lines.with(at + 1, uri))).toBe(400);
    },
  );

  it('an address and a header with the same value have separate counters', async () => {
    const client = freshClient();
    const [path, lines] = own('/b', freshClient());
    expect(await send(running, path, [...lines, 'X-User', client])).toBe(200);
    const [pathOfA, linesOfA] = own('/a', client);
    expect(await send(running, pathOfA, linesOfA)).toBe(200);
  });
});

describe('missing headers of the proxy profile', () => {
  it.each([
    ['generic', 'x-forwarded-uri'],
    ['nginx', 'x-original-uri'],
  ])('the profile %s rejects a request without the header %s and names it', async (proxy, name) => {
    const running = await startRunning({ config, settings: { proxy } });
    const other = proxy === 'nginx' ? forwarded('/login') : original('/login', '192.0.2.1');
    const method = { 'x-forwarded-method': 'GET', 'x-original-method': 'GET' };
    const response = await running.get(PATH, { ...other, ...method });
    expect([response.status, response.json.code]).toEqual([400, 'ERR_MISSING_HEADER']);
    expect(response.json.detail).toContain(`\`${name}\``);
    const disguised = await running.get(`${PATH}?deny=403`, other);
    expect([disguised.status, disguised.headers.get('x-sluice-status')]).toEqual([403, '400']);
    await running.close();
  });

  it('a missing header of the proxy profile is logged once', async () => {
    const lines: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
    const running = await startRunning({ config, log });
    for (let turn = 0; turn < 3; turn++) {
      await running.get(PATH, original('/login', '192.0.2.1'));
      await running.get(PATH, forwarded('/login#x'));
    }
    const logged = lines.map((line) => JSON.parse(line).code);
    expect(logged.filter((code) => code === 'ERR_MISSING_HEADER')).toHaveLength(1);
    expect(logged).not.toContain('ERR_AMBIGUOUS_REQUEST');
    await running.close();
  });

  it('a forwarded host is required only if a rule matches hosts, and must be valid', async () => {
    const hosted = {
      ...rule('/h', 'login', ADDRESS),
      match: { kind: 'request' as const, host: ['a'] },
    };
    const running = await startRunning({ config: { ...config, rules: [...config.rules, hosted] } });
    const { 'x-forwarded-host': _, ...nowhere } = forwarded('/other');
    expect((await running.get(PATH, { ...nowhere, 'x-forwarded-uri': '/free' })).status).toBe(200);
    expect((await running.get(PATH, nowhere)).status).toBe(400);
    for (const host of ['a, b', 'a b', 'a@b', 'a%61', 'é', `${'a'.repeat(300)}`]) {
      const headers = { ...nowhere, 'x-forwarded-host': encodeURI(host) };
      expect([host, (await running.get(PATH, headers)).status]).toEqual([host, 400]);
    }
    await running.close();
  });

  it('the profile envoy has no endpoint that reads X-Forwarded headers', async () => {
    const running = await startRunning({ config, settings: { proxy: 'envoy' } });
    expect((await running.get(PATH, forwarded('/free'))).status).toBe(404);
    await running.close();
  });
});

describe('path readings with different limits', () => {
  const costly = (path: string, more: object): RuleConfig => ({
    ...rule(path, 'free'),
    limits: [{ policy: 'costs', key: [{ sources: [ADDRESS] }], ...more }],
  });

  it.each([
    ['cost', { cost: 10 }, { cost: 1 }],
    ['operation', { operation: 'expensive', weight: 10 }, { operation: 'cheap', weight: 1 }],
  ])('a path with several readings is charged the highest %s', async (_, expensive, cheap) => {
    const rules = [costly('/export', expensive), costly('/**', cheap)];
    const running = await startRunning({ config: { ...config, rules } });
    const response = await running.get(PATH, forwarded('/x/..%2fexport'));
    expect(response.headers.get('ratelimit')).toContain('"costs";r=0');
    await running.close();
  });

  it('a path whose readings have more than 64 limits together is rejected', async () => {
    const names = Array.from({ length: 80 }, (_, at) => `p${at}`);
    const limits = (from: number) =>
      names.slice(from, from + 40).map((name) => ({ policy: name, key: [{ sources: [ADDRESS] }] }));
    const policies = names.map((name) => policy(name, 10, '1h'));
    const rules = [
      { ...rule('/a', 'free'), limits: limits(0) },
      { ...rule('/**', 'free'), limits: limits(40) },
    ];
    const running = await startRunning({ config: { policies, rules } });
    expect((await running.get(PATH, forwarded('/a'))).status).toBe(200);
    const response = await running.get(PATH, forwarded('/x/..%2fa'));
    expect([response.status, response.json.code]).toEqual([400, 'ERR_AMBIGUOUS_REQUEST']);
    await running.close();
  });
});

describe('identity behind nginx', () => {
  let behind: BehindProxy;
  beforeAll(async () => {
    ensureProxies();
    behind = await BehindProxy.start('nginx');
    await behind.serve({ config });
  }, 300_000);
  afterAll(() => behind.stop());

  it('behind nginx, a second X-Api-Key line does not create a new key', async () => {
    let passed = 0;
    for (let turn = 0; turn < 5; turn++) {
      const headers = ['X-Api-Key', 'real', 'X-Api-Key', `made-up-${turn}`];
      const received = await behind.request({ path: '/keys', headers });
      if (isFromApplication(received)) passed++;
    }
    expect(passed).toBeLessThanOrEqual(1);
  });

  it('behind nginx, a second api_key parameter does not create a new key', async () => {
    let passed = 0;
    for (let turn = 0; turn < 5; turn++) {
      const received = await behind.request({ path: `/params?api_key=${turn}&api_key=real` });
      if (isFromApplication(received)) passed++;
    }
    expect(passed).toBeLessThanOrEqual(1);
  });

  it.each(['/x\\..\\login', '/%2flogin', '/x/..%2flogin'])(
    'the path %s that nginx forwards is counted as the login',
    async (path) => {
      const from = `127.9.${++clients >> 8}.${clients & 255}`;
      expect((await behind.request({ path: '/login', from })).status).toBe(200);
      expect((await behind.request({ path, from })).status).toBe(429);
    },
  );
});
