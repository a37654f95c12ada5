/** The forward-auth endpoint: which headers it reads, and its responses. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { policy, type Running, startRunning } from '../running.ts';
import { forwarded, limit, PATH, repeat, rule, statusesOf } from './forwarded.ts';

describe('forward-auth', () => {
  let running: Running;
  let client = 0;
  const freshClient = (): string => `198.51.${client >> 8}.${client++ & 255}`;

  beforeAll(async () => {
    const policies = [policy('few', 2, '1m'), policy('one', 1, '1m'), policy('hosts', 1, '1m')];
    const rules = [
      rule('/few/**', [limit('few')]),
      rule('/one', [limit('one')], { method: ['POST'] }),
      rule('/host', [limit('hosts')], { host: ['limited.example'] }),
      rule('/free', []),
    ];
    running = await startRunning({ config: { policies, rules } });
  });
  afterAll(() => running.close());

  it('forward-auth responds to an allowed request with 200 and rate-limit headers', async () => {
    const response = await running.get(
      PATH,
      forwarded('/few/x', { 'x-forwarded-for': freshClient() }),
    );
    expect([response.status, response.text]).toEqual([200, '']);
    expect(response.headers.get('ratelimit-policy')).toBe('"few";q=2;w=60');
    expect(response.headers.get('ratelimit')).toBe('"few";r=1;t=60');
    expect(response.headers.get('retry-after')).toBeNull();
    expect(response.headers.get('x-sluice-status')).toBeNull();
  });

  it('forward-auth responds to a denied request with 429 and Retry-After', async () => {
    const headers = forwarded('/few/x?page=1', { 'x-forwarded-for': freshClient() });
    const responses = await repeat(3, () => running.get(PATH, headers));
    expect(statusesOf(responses)).toEqual([200, 200, 429]);
    const { headers: fields, json } = responses[2];
    expect(fields.get('content-type')).toBe('application/problem+json');
    expect(json).toMatchObject({ status: 429, 'violated-policies': ['few'] });
    expect(Number(fields.get('retry-after'))).toBeGreaterThan(0);
    expect(fields.get('ratelimit')).toBe(`"few";r=0;t=${fields.get('retry-after')}`);
    expect(fields.get('ratelimit-policy')).toBe('"few";q=2;w=60');
    expect(fields.get('x-sluice-status')).toBe('429');
  });

  it('?deny=403 denies with 403, and the original status is in a header', async () => {
    const headers = forwarded('/few/x', { 'x-forwarded-for': freshClient() });
    const responses = await repeat(3, () => running.get(`${PATH}?deny=403`, headers));
    expect(statusesOf(responses)).toEqual([200, 200, 403]);
    expect(responses[2].headers.get('x-sluice-status')).toBe('429');
    expect(Number(responses[2].headers.get('retry-after'))).toBeGreaterThan(0);
    expect(responses[2].json.status).toBe(429);
  });

  it.each(['deny=401', 'deny=', 'page=2&deny=429', '&%zz'])(
    'the query ?%s, which Caddy copies from the client, is ignored',
    async (query) => {
      const headers = forwarded('/few/x', { 'x-forwarded-for': freshClient() });
      const responses = await repeat(3, () => running.get(`${PATH}?${query}`, headers));
      expect(statusesOf(responses)).toEqual([200, 200, 429]);
    },
  );

  it('forward-auth allows a request without a rule or limit, without headers', async () => {
    for (const uri of ['/other', '/free']) {
      const response = await running.get(PATH, forwarded(uri));
      expect([response.status, response.text]).toEqual([200, '']);
      expect([...response.headers.keys()].join()).not.toMatch(/ratelimit/);
    }
  });

  it.each(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PURGE'])(
    'forward-auth accepts the method %s',
    async (method) => {
      const headers = forwarded('/few/x', { 'x-forwarded-for': freshClient() });
      const responses = await repeat(3, () => running.request(method, PATH, undefined, headers));
      expect(statusesOf(responses)).toEqual([200, 200, 429]);
      expect(Number(responses[2].headers.get('retry-after'))).toBeGreaterThan(0);
      if (method === 'HEAD') expect(responses[2].text).toBe('');
    },
  );

  it('rules match the method of the forwarded request', async () => {
    const from = { 'x-forwarded-for': freshClient() };
    const post = forwarded('/one', { ...from, 'x-forwarded-method': 'POST' });
    const get = forwarded('/one', from);
    expect(statusesOf(await repeat(3, () => running.get(PATH, get)))).toEqual([200, 200, 200]);
    expect(statusesOf(await repeat(2, () => running.get(PATH, post)))).toEqual([200, 429]);
  });

  it('rules match the host that the proxy sends', async () => {
    const from = { 'x-forwarded-for': freshClient() };
    const send = (host: string) =>
      running.get(PATH, forwarded('/host', { ...from, 'x-forwarded-host': host }));
    const hosts = ['Limited.example:443', 'limited.example', 'limited.example..', 'other.example'];
    const responses = [];
    for (const host of hosts) responses.push(await send(host));
    expect(statusesOf(responses)).toEqual([200, 429, 429, 200]);
  });

  it('forward-auth accepts cross-site requests of browsers', async () => {
    const browser = {
      origin: 'https://elsewhere.example',
      'sec-fetch-site': 'cross-site',
      'x-forwarded-for': freshClient(),
    };
    expect((await running.get(PATH, forwarded('/few/x', browser))).status).toBe(200);
  });

  it('forward-auth rules match every spelling of a path', async () => {
    const from = { 'x-forwarded-for': freshClient() };
    const uris = ['/few/a', '//few/a', '/x/../few/a?', '/%66ew/a', '/FEW/a', '/few', '/few/?x'];
    const responses = await Promise.all(uris.map((uri) => running.get(PATH, forwarded(uri, from))));
    expect(statusesOf(responses).filter((status) => status === 200)).toHaveLength(2);
  });

  it.each(['/few/%', '/few/%00', '/few/%zz', '/few/\u00e9', '*', '/', '/?'])(
    'forward-auth allows a request with the unusual URI %j',
    async (uri) => {
      const response = await running.get(
        PATH,
        forwarded(uri, { 'x-forwarded-for': freshClient() }),
      );
      expect(response.status).toBe(200);
    },
  );

  it('paths beside the forward-auth endpoint respond 404', async () => {
    for (const path of [`${PATH}/`, `${PATH}/few`, `${PATH}/ext-authz`, `${PATH}x`]) {
      expect((await running.get(path, forwarded('/few/x'))).status).toBe(404);
    }
  });

  describe('ext_authz of Envoy', () => {
    const send = (method: string, path: string, headers: Record<string, string>) =>
      running.request(method, `${PATH}/ext-authz${path}`, undefined, headers);

    it('ext_authz rules match the method and the path after the prefix', async () => {
      const from = { 'x-forwarded-for': freshClient() };
      const posts = await repeat(2, () => send('POST', '/one', from));
      expect(statusesOf(posts)).toEqual([200, 429]);
      expect((await send('GET', '/one', from)).status).toBe(200);
      expect((await send('GET', '/', from)).status).toBe(200);
    });

    it('ext_authz ignores forwarding headers of the client', async () => {
      const forged = forwarded('/other', {
        'x-forwarded-for': freshClient(),
        'x-forwarded-method': 'GET',
        'x-original-uri': '/another',
      });
      const posts = await repeat(2, () => send('POST', '/one', forged));
      expect(statusesOf(posts)).toEqual([200, 429]);
    });

    it('ext_authz ignores the query of the client', async () => {
      const from = { 'x-forwarded-for': freshClient() };
      const posts = await repeat(2, () => send('POST', '/one?deny=403', from));
      expect(statusesOf(posts)).toEqual([200, 429]);
      expect((await send('GET', '/x?deny=999&y', from)).status).toBe(200);
    });

    it('dot segments do not leave the prefix of ext_authz', async () => {
      const from = { 'x-forwarded-for': freshClient() };
      const { port } = running.service.http;
      const text = await raw(port, [
        line('GET', `${PATH}/ext-authz/../../../few/x`, from),
        line('GET', `${PATH}/ext-authz/..%2f..%2f`, from),
      ]);
      expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
      expect(text).toContain('RateLimit: "few";r=1');
    });
  });

  it('forward-auth ignores a request body and keeps the connection open', async () => {
    const { port } = running.service.http;
    const headers = forwarded('/few/x', { 'x-forwarded-for': freshClient() });
    const body = 'x'.repeat(300_000);
    const chunked = `${(1000).toString(16)}\r\n${'y'.repeat(1000)}\r\n0\r\n\r\n`;
    const text = await raw(port, [
      `${line('POST', PATH, { ...headers, 'content-length': String(body.length) })}${body}`,
      `${line('PUT', PATH, { ...headers, 'transfer-encoding': 'chunked' })}${chunked}`,
      line('HEAD', PATH, headers),
      line('GET', PATH, { ...headers, connection: 'close' }),
    ]);
    const statuses = ['200', '200', '429', '429'].map((status) => `HTTP/1.1 ${status}`);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(statuses);
  });

  it('pipelined forward-auth requests are allowed exactly up to the limit', async () => {
    const headers = forwarded('/few/x', { 'x-forwarded-for': freshClient() });
    const text = await raw(
      running.service.http.port,
      Array.from({ length: 60 }, () => line('GET', PATH, headers)),
    );
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(text.match(/HTTP\/1\.1 429/g)).toHaveLength(58);
  });
});

const line = (method: string, path: string, headers: Readonly<Record<string, string>>): string => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\nHost: sluice\r\n${lines.join('')}\r\n`;
};

/** Sends all requests over one connection and reads all responses. */
async function raw(port: number, requests: readonly string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  socket.setEncoding('latin1');
  socket.write(requests.join(''));
  while ((text.match(/HTTP\/1\.1 /g)?.length ?? 0) < requests.length) {
    const [data] = await once(socket, 'data');
    text += data;
  }
  socket.destroy();
  return text;
}

describe('rate-limit headers of forward-auth', () => {
  it.each([
    ['draft-7', 'ratelimit', 'limit=1, remaining=0, reset=60'],
    ['draft-6', 'ratelimit-remaining', '0'],
    ['legacy', 'x-ratelimit-limit', '1'],
    ['none', 'ratelimit', null],
  ])('with headers: %s, the forward-auth header %s is %s', async (headers, name, value) => {
    const config = { policies: [policy('p', 1, '1m')], rules: [rule('/**', [limit('p')])] };
    const running = await startRunning({ config, settings: { headers } });
    const [first, second] = await repeat(2, () => running.get(PATH, forwarded('/')));
    expect([first.status, first.headers.get(name)]).toEqual([200, value]);
    expect(second.status).toBe(429);
    expect(second.headers.has('retry-after')).toBe(headers !== 'none');
    await running.close();
  });

  it('forward-auth headers contain enforced limits, but no shadow limits', async () => {
    const policies = [
      policy('a', 5, '1m'),
      policy('b', 3, '1h'),
      policy('s', 1, '1m', { shadow: true }),
    ];
    const limits = [limit('a'), limit('b', 'path'), limit('s')];
    const config = { policies, rules: [rule('/x', limits), rule('/s', [limit('s')])] };
    const running = await startRunning({ config });
    const responses = await repeat(4, () => running.get(PATH, forwarded('/x')));
    expect(statusesOf(responses)).toEqual([200, 200, 200, 429]);
    expect(responses[0].headers.get('ratelimit-policy')).toBe('"a";q=5;w=60, "b";q=3;w=3600');
    expect(responses[3].json['violated-policies']).toEqual(['b']);
    const watched = await repeat(3, () => running.get(PATH, forwarded('/s')));
    expect(statusesOf(watched)).toEqual([200, 200, 200]);
    expect(watched[2].headers.has('ratelimit')).toBe(false);
    await running.close();
  });
});
