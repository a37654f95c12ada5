import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../running.ts';
import { checkText, exchange, headOf, isWhole, open, statusOf } from './raw.ts';

let running: Running;
let port: number;
beforeAll(async () => {
  running = await startRunning({ config: { policies: [policy('many', 1_000_000, '1h')] } });
  ({ port } = running.service.http);
});
afterAll(() => running.close());

const CHECK = { policy: 'many', key: 'a' };
const close = 'Connection: close';
const untilWhole = { until: isWhole };
const codeOf = (text: string): string => /"code":"(\w+)"/.exec(text)?.[1] ?? '';
const chunked = (...chunks: readonly string[]): string =>
  [...chunks, ''].map((each) => `${Buffer.byteLength(each).toString(16)}\r\n${each}\r\n`).join('');

describe('request bodies', () => {
  test('the HTTP server accepts a chunked body, and a body sent byte by byte', async () => {
    const text = JSON.stringify(CHECK);
    const head = headOf('POST', '/v1/check', 'Transfer-Encoding: chunked', close);
    expect((await exchange(port, [head + chunked(text.slice(0, 5), text.slice(5))])).status).toBe(
      200,
    );
    const whole = checkText({ ...CHECK, key: '😀ü' }, close);
    const bytes = [...Buffer.from(whole)].map((byte) => Buffer.from([byte]));
    const { status, text: response } = await exchange(port, bytes);
    expect(status).toBe(200);
    expect(Buffer.from(response, 'latin1').toString()).toContain('"key":"😀ü"');
  });

  test('POST /v1/check rejects a body that is not UTF-8, not JSON, or empty', async () => {
    const bodies = [
      Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]),
      Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
      Buffer.from('\ufeff{}'),
      Buffer.from('{"policy":NaN}'),
      Buffer.from("{'policy':1}"),
      Buffer.from('{"policy":"many","key":"a"}{}'),
      Buffer.from(''),
    ];
    for (const body of bodies) {
      const head = headOf('POST', '/v1/check', `Content-Length: ${body.length}`, close);
      const { status, text } = await exchange(port, [head, body]);
      expect([body.toString(), status, codeOf(text)]).toEqual([
        ...[body.toString(), 400, 'ERR_INVALID_BODY'],
      ]);
    }
  });

  test('the problem detail of invalid JSON contains the error of the parser', async () => {
    const { text } = await exchange(port, [checkText('{"policy":NaN}', close)]);
    expect(text).toContain('"detail":"Expected the body to be JSON, got an error: Unexpected ');
  });

  test('a body nested more than 16 levels is rejected, not counting quoted brackets', async () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const deepest = await exchange(port, [checkText(nested(16), close)]);
    expect(codeOf(deepest.text)).toBe('ERR_INVALID_CHECK');
    const deeper = await exchange(port, [checkText(nested(17), close)]);
    expect([deeper.status, codeOf(deeper.text)]).toEqual([400, 'ERR_BODY_TOO_DEEP']);
    const brackets = { policy: 'many', key: '\\"[{'.repeat(100) };
    expect((await exchange(port, [checkText(brackets, close)])).status).toBe(200);
    const endless = await exchange(port, [checkText('['.repeat(2 ** 20), close)]);
    expect([endless.status, codeOf(endless.text)]).toEqual([400, 'ERR_BODY_TOO_DEEP']);
  });

  test('POST /v1/check accepts a body of 1 MiB and rejects a larger one', async () => {
    const filled = (bytes: number) => {
      const text = JSON.stringify(CHECK);
      return text + ' '.repeat(bytes - text.length);
    };
    expect((await exchange(port, [checkText(filled(2 ** 20), close)])).status).toBe(200);
    const more = await exchange(port, [checkText(filled(2 ** 20 + 1), close)], untilWhole);
    expect([more.status, codeOf(more.text)]).toEqual([413, 'ERR_BODY_TOO_LARGE']);
  });

  test('a body that is too large is rejected before it is read', async () => {
    const megabyte = 'x'.repeat(2 ** 20);
    const announced = headOf('POST', '/v1/check', `Content-Length: ${3 * 2 ** 20}`);
    const atOnce = await exchange(port, [announced], untilWhole);
    expect([atOnce.status, codeOf(atOnce.text)]).toEqual([413, 'ERR_BODY_TOO_LARGE']);
    const sent = await exchange(port, [announced, megabyte, megabyte, megabyte]);
    expect([sent.status, sent.closed]).toEqual([413, true]);
    const head = headOf('POST', '/v1/check', 'Transfer-Encoding: chunked');
    const chunk = `100000\r\n${megabyte}\r\n`;
    const endless = await exchange(port, [head, ...Array(64).fill(chunk)]);
    expect([endless.status, endless.closed]).toEqual([413, true]);
  });

  test('the HTTP server sends 100 Continue only if the body is accepted', async () => {
    const expects = 'Expect: 100-continue';
    const text = JSON.stringify(CHECK);
    const head = headOf('POST', '/v1/check', `Content-Length: ${text.length}`, expects, close);
    const { text: response } = await exchange(port, [head, text]);
    expect(response).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/);
    const large = headOf('POST', '/v1/check', `Content-Length: ${2 ** 30}`, expects);
    expect((await exchange(port, [large], untilWhole)).status).toBe(413);
    const odd = headOf('POST', '/v1/check', 'Expect: miracles', close);
    expect((await exchange(port, [odd])).status).toBe(417);
  });

  test('an ignored HTTP body does not affect the next request', async () => {
    const body = 'GET /evil HTTP/1.1\r\n\r\n';
    const stray = headOf('POST', '/none', `Content-Length: ${body.length}`) + body;
    const { text } = await exchange(port, [stray, headOf('GET', '/healthz', close)]);
    expect(text.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 200']);
  });

  test('an incomplete HTTP body does not affect other requests', async () => {
    const socket = await open(port);
    socket.write(checkText(CHECK).slice(0, -5));
    socket.destroy();
    expect((await running.post('/v1/check', CHECK)).status).toBe(200);
  });
});

describe('HTTP requests', () => {
  test('the HTTP server accepts HTTP/1.0 and absolute URLs', async () => {
    expect((await exchange(port, ['GET /healthz HTTP/1.0\r\n\r\n'])).status).toBe(200);
    for (const target of ['http://127.0.0.1/healthz', 'HTTPS://x:1/healthz?']) {
      const head = `GET ${target} HTTP/1.1\r\nHost: x\r\n${close}\r\n\r\n`;
      expect((await exchange(port, [head])).status).toBe(200);
    }
    for (const target of ['http://127.0.0.1', 'http://x?/healthz']) {
      const head = `GET ${target} HTTP/1.1\r\nHost: x\r\n${close}\r\n\r\n`;
      expect((await exchange(port, [head])).text).toContain('"openapi":"/v1/openapi.json"');
    }
    for (const target of ['*', 'ftp://x/healthz']) {
      const head = `GET ${target} HTTP/1.1\r\nHost: x\r\n${close}\r\n\r\n`;
      expect((await exchange(port, [head])).status).toBe(404);
    }
  });

  test('the HTTP server responds to pipelined requests in order', async () => {
    const bodies = Array.from({ length: 50 }, (_, at) =>
      checkText({ policy: 'many', key: `p${at}` }),
    );
    const last = headOf('GET', '/healthz', close);
    const { text } = await exchange(port, [bodies.join('') + last]);
    const keys = [...text.matchAll(/"allowed":true,"policy":"many","key":"(p\d+)","cost"/g)];
    expect(new Set(keys.map(([, key]) => key)).size).toBe(50);
    expect(text.indexOf('"key":"p3"')).toBeLessThan(text.indexOf('"key":"p4"'));
    expect(text).toContain('"alive":true');
  });

  test('the HTTP server rejects ambiguous and malformed requests', async () => {
    const text = JSON.stringify(CHECK);
    const length = `Content-Length: ${text.length}`;
    const ambiguous = [
      headOf('POST', '/v1/check', length, 'Transfer-Encoding: chunked') + chunked(text),
      headOf('POST', '/v1/check', length, `Content-Length: ${text.length + 1}`) + text,
      headOf('POST', '/v1/check', length, length) + text,
      headOf('POST', '/v1/check', 'Content-Length: +5') + text,
      headOf('POST', '/v1/check', 'Content-Length: 5 5') + text,
      headOf('POST', '/v1/check', 'Content-Length: -1') + text,
      headOf('POST', '/v1/check', 'Transfer-Encoding: chunked, identity') + chunked(text),
      headOf('POST', '/v1/check', 'Transfer-Encoding : chunked') + chunked(text),
      `${headOf('POST', '/v1/check', 'Transfer-Encoding: chunked')}zz\r\n${text}\r\n0\r\n\r\n`,
      headOf('POST', '/v1/check', 'X: a\r\n b', length) + text,
      headOf('POST', '/v1/check', 'X: a\nContent-Length: 0', length) + text,
      'GET /healthz HTTP/1.1\r\n\r\n',
      'GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n',
      'garbage\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    ];
    for (const request of ambiguous) {
      const { status, closed } = await exchange(port, [request]);
      expect([request, status, closed]).toEqual([request, 400, true]);
    }
  });

  test('the HTTP server rejects headers above the size limit', async () => {
    const long = headOf('GET', '/healthz', `X: ${'x'.repeat(64 * 1024)}`);
    expect((await exchange(port, [long])).status).toBe(431);
    const many = headOf('GET', '/healthz', ...Array(3000).fill('X: xxxxxxxxxxxx'));
    expect((await exchange(port, [many])).status).toBe(431);
    const path = headOf('GET', `/${'x'.repeat(64 * 1024)}`, close);
    expect([414, 431]).toContain((await exchange(port, [path])).status);
  });

  test('the HTTP server rejects 1,000 headers or more', async () => {
    const fields = (count: number) => [...Array(count - 2).fill('X: y'), close];
    const few = await exchange(port, [headOf('GET', '/healthz', ...fields(999))]);
    expect(few.status).toBe(200);
    // The largest is close to the maximum size of a head.
    for (const count of [1000, 1001, 2500, 5000, 16_000]) {
      const many = await exchange(port, [headOf('GET', '/v1/forward-auth', ...fields(count))]);
      expect([count, many.status, codeOf(many.text)]).toEqual([count, 431, 'ERR_TOO_MANY_FIELDS']);
    }
  });

  test('the HTTP server responds 404 or 405 and keeps the connection open', async () => {
    const socket = await open(port);
    const replies: string[] = [];
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    for (const [method, path] of [
      ['GET', '/none'],
      ['GET', '/v1/check'],
      ['DELETE', '/v1/policies'],
      ['GET', '/v1/check/'],
      ['GET', '//v1/policies'],
      ['GET', '/v1/%70olicies'],
      ['GET', '/healthz'],
    ]) {
      text = '';
      socket.write(headOf(method, path));
      while (!isWhole(text)) await new Promise((resolve) => setTimeout(resolve, 1));
      const [, allow = ''] = /\r\nallow: (.*)\r\n/i.exec(text) ?? [];
      replies.push(`${statusOf(text)} ${codeOf(text)} ${allow}`.trim());
    }
    socket.destroy();
    expect(replies).toEqual([
      '404 ERR_NOT_FOUND',
      '405 ERR_METHOD_NOT_ALLOWED POST',
      '405 ERR_METHOD_NOT_ALLOWED GET',
      '404 ERR_NOT_FOUND',
      '404 ERR_NOT_FOUND',
      '404 ERR_NOT_FOUND',
      '200',
    ]);
  });

  test('CONNECT is rejected, and upgrade requests are ignored', async () => {
    const { text } = await exchange(port, ['CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n']);
    expect(text).toBe('');
    const upgrade = headOf('GET', '/healthz', 'Connection: Upgrade', 'Upgrade: websocket');
    expect((await exchange(port, [upgrade], untilWhole)).status).toBe(200);
  });
});

test('JSON responses other than decisions have X-Content-Type-Options: nosniff', async () => {
  const nosniffHeader = async (method: string, path: string, body?: unknown) =>
    (await running.request(method, path, body)).headers.get('x-content-type-options');
  for (const path of ['/v1/policies', '/v1/openapi.json', '/v1/keys/many/a', '/v1/nowhere']) {
    expect([path, await nosniffHeader('GET', path)]).toEqual([path, 'nosniff']);
  }
  expect(await nosniffHeader('POST', '/v1/check', { policy: 'none' })).toBe('nosniff');
  expect(await nosniffHeader('POST', '/v1/check', { ...CHECK, key: 'x'.repeat(2 ** 20) })).toBe(
    'nosniff',
  );
  expect(await nosniffHeader('POST', '/v1/check', CHECK)).toBeNull();
});
