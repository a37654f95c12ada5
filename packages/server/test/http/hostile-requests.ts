/** Generates invalid requests of many kinds by a seed. */
import { randomOf } from '../seeded-random.ts';
import { headOf } from './raw.ts';

export interface HostileRequest {
  readonly kind: string;
  readonly pieces: readonly (string | Buffer)[];
  /** Whether it is incomplete, so that no response is expected. */
  readonly isCut?: boolean;
}

const MEGABYTE = 2 ** 20;

/** JSON values, and texts that are not JSON. */
const VALUES = [
  ...['0', '-0', '1', '-1', '1.5', '1e308', '1e400', '-1e400', '9007199254740992', '1e-400'],
  ...['NaN', 'Infinity', 'undefined', '0x10', '01', '+1', '1_000', '.5', '1.'],
  ...['true', 'false', 'null', '{}', '[]', '""', '"1"', '[[]]', '[null]', '[[["a"]]]'],
  ...['"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"😀"', '"\\"', '"\\x"', '"\u2028"'],
  ...['"__proto__"', '"constructor"', '"toString"', '{"__proto__":{"allowed":true}}'],
  ...['"few"', '"many"', '"bucket"', '"*"', '"sluice.receipts"', '"a"', '["a",1]', '"\\n"'],
];
const NAMES = [
  ...['policy', 'key', 'cost', 'operation', 'id', 'onFailure', 'limits', 'checks', 'receipt'],
  ...['charges', 'atMs', 'costs', 'limit', 'expiresAt', 'expiresInMs', 'reason', 'domain'],
  ...[
    'descriptors',
    'entries',
    'shadow',
    'value',
    '__proto__',
    'constructor',
    'hasOwnProperty',
    '',
    'é',
  ],
];
const PATHS = [
  ...['/v1/check', '/v1/check', '/v1/check?enforce', '/v1/peek', '/v1/refund', '/v1/settle'],
  ...['/v1/reset', '/v1/overrides', '/v1/overrides/few/a', '/v1/keys/few/a', '/v1/policies'],
  ...['/v1/policies/few', '/v1/openapi.json', '/v1/top', '/v1/forward-auth', '/json'],
  ...['/v1/forward-auth/ext-authz/a', '/healthz', '/readyz', '/metrics', '/', '/v1'],
  ...['/v1/series', '/v1/series?seconds=600', '/dashboard', '/dashboard/', '/dashboard/assets/x'],
];
/** Paths whose body is sent with another method than POST. */
const BODY_METHODS = [
  ['/v1/overrides/', 'PUT'],
  ['/v1/policies/', 'PATCH'],
] as const;
const QUERIES = [
  ...['', '?', '?enforce=', '?enforce=maybe', '?enforce=1&enforce=0', '?ENFORCE', '?%', '?%ff=%00'],
  ...[
    '?policy=few',
    '?policy=%ed%a0%80',
    '?count=-1',
    '?count=1e9',
    '?by=x',
    '?deny=500',
    '?a[b]=c',
  ],
  `?${'a&'.repeat(2000)}`,
];
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND'];
const FIELDS = [
  ...['Origin: https://evil.example', 'Sec-Fetch-Site: cross-site', 'Authorization: Bearer x'],
  ...['X-Forwarded-For: 1.2.3.4, ::1, x', 'X-Forwarded-Uri: /%ff?a', 'X-Original-URI: ://'],
  ...['X-Forwarded-For: ,,,,', 'Cookie: a=b; =; c', 'Content-Type: text/plain', 'Expect: x'],
  ...['Content-Encoding: gzip', 'Connection: close', 'Connection: upgrade', 'Upgrade: h2c'],
  ...['X-Forwarded-Method: \xff', 'X-Forwarded-Host: [::', 'Range: bytes=0-', 'If-Match: *'],
];
const BROKEN_HEADS = [
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}',
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}',
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n',
  `POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${'f'.repeat(40)}\r\n`,
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}',
  'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0x2\r\n\r\n{}',
  'POST /v1/check HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}',
  'GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /healthz HTTP/1.1\nHost: x\n\n',
  'GET /heal\x00thz HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /healthz\r\n\r\n',
  'GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: x\r\nBad Name: x\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: x\r\nX\x00: x\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n',
  'GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n',
  'CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
];

export class HostileRequests {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomOf(seed);
  }

  #below(most: number): number {
    return Math.floor(this.#random() * most);
  }

  #one<T>(of: readonly T[]): T {
    return of[this.#below(of.length)];
  }

  next(): HostileRequest {
    const drawn = this.#random();
    if (drawn < 0.45) return this.#json();
    if (drawn < 0.6) return this.#path();
    if (drawn < 0.7)
      return { kind: 'head', pieces: [Buffer.from(this.#one(BROKEN_HEADS), 'latin1')] };
    if (drawn < 0.78) return this.#bytes();
    if (drawn < 0.84) return this.#pipeline();
    if (drawn < 0.9) return this.#cut();
    if (drawn < 0.94) return this.#chunks();
    if (drawn < 0.97) return this.#fields();
    return drawn < 0.985 ? this.#deep() : this.#huge();
  }

  /** Returns a value. Most fields of objects have valid names, and few have valid values. */
  #value(depth: number): string {
    const drawn = this.#random();
    if (depth > 3 || drawn < 0.6) return this.#one(VALUES);
    const count = this.#below(4);
    const inner = Array.from({ length: count }, () => this.#value(depth + 1));
    if (drawn < 0.75) return `[${inner.join(',')}]`;
    return `{${inner.map((each) => `${JSON.stringify(this.#one(NAMES))}:${each}`).join(',')}}`;
  }

  #body(): string {
    const drawn = this.#random();
    if (drawn < 0.1) return this.#value(0);
    const wrong = (): string => (this.#random() < 0.5 ? this.#one(VALUES) : this.#value(1));
    const key = this.#random() < 0.5 ? `"k${this.#below(500)}"` : wrong();
    const policy = this.#random() < 0.7 ? this.#one(['"few"', '"many"', '"bucket"']) : wrong();
    const more = this.#random() < 0.7 ? `,${JSON.stringify(this.#one(NAMES))}:${wrong()}` : '';
    const one = `{"policy":${policy},"key":${key}${more}}`;
    if (drawn < 0.5) return one;
    if (drawn < 0.6) return `{"limits":[${Array(this.#one([0, 1, 2, 64, 65])).fill(one)}]}`;
    if (drawn < 0.65) return `{"checks":[${Array(this.#one([0, 1, 10, 1000, 1001])).fill(one)}]}`;
    if (drawn < 0.75) return `{"receipt":{"id":${wrong()},"charges":[${one}]},"cost":${wrong()}}`;
    if (drawn < 0.85) return `{"policy":${policy},"key":${key},"limit":${wrong()}${more}}`;
    return `{"domain":${wrong()},"descriptors":[{"entries":[{"key":${key},"value":${wrong()}}]}]}`;
  }

  #request(method: string, path: string, body: string | Buffer, ...fields: string[]): Buffer {
    const head = headOf(method, path, `Content-Length: ${Buffer.byteLength(body)}`, ...fields);
    return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]);
  }

  #json(): HostileRequest {
    const path = this.#one(PATHS);
    const method = BODY_METHODS.find(([start]) => path.startsWith(start))?.[1] ?? 'POST';
    return { kind: 'json', pieces: [this.#request(method, path, this.#body())] };
  }

  #path(): HostileRequest {
    const text = String.fromCharCode(...Array.from({ length: 8 }, () => 33 + this.#below(94)));
    const odd = [`/v1/keys/few/${text}`, `/v1/keys/${text}/a`, `/${text}`, '/v1/keys/few/%ff'];
    odd.push(
      '/v1/keys/few/',
      '/v1/keys/../policies',
      '/..//../etc/passwd',
      `/${'a/'.repeat(3000)}`,
    );
    odd.push(`/v1/overrides/few/${'%F0%9F%98%80'.repeat(500)}`, 'http://x/v1/check', '*');
    const path = this.#random() < 0.5 ? this.#one(odd) : this.#one(PATHS);
    const target = (path + this.#one(QUERIES)).replaceAll(' ', '');
    return { kind: 'path', pieces: [headOf(this.#one(METHODS), target)] };
  }

  #bytes(): HostileRequest {
    const bytes = Buffer.from(Array.from({ length: this.#below(300) }, () => this.#below(256)));
    if (this.#random() < 0.3) return { kind: 'noise', pieces: [bytes, '\r\n\r\n\r\n\r\n'] };
    return { kind: 'bytes', pieces: [this.#request('POST', this.#one(PATHS), bytes)] };
  }

  /** Returns valid and invalid requests in one packet. */
  #pipeline(): HostileRequest {
    const valid = this.#request('POST', '/v1/check', '{"policy":"few","key":"p"}');
    const requests = Array.from({ length: 1 + this.#below(20) }, () =>
      this.#random() < 0.8 ? valid : this.#request('POST', '/v1/check', this.#body()),
    );
    const end = Buffer.from(
      this.#one(['', 'garbage', '\0\0\0\0\r\n\r\n', 'GET /none HTTP/1.1\r\n']),
    );
    return { kind: 'pipeline', pieces: [Buffer.concat([...requests, end])], isCut: true };
  }

  #cut(): HostileRequest {
    const whole = this.#request('POST', this.#one(PATHS), this.#body());
    const at = this.#below(whole.length);
    const pieces = [whole.subarray(0, at >> 1), whole.subarray(at >> 1, at)];
    return { kind: 'cut', pieces, isCut: true };
  }

  #chunks(): HostileRequest {
    const body = this.#body();
    const size = 1 + this.#below(20);
    const pieces = [headOf('POST', this.#one(PATHS), 'Transfer-Encoding: chunked')];
    for (let at = 0; at < body.length && at < 20 * size; at += size) {
      const chunk = Buffer.from(body.slice(at, at + size));
      const length = this.#random() < 0.02 ? chunk.length + 1 : chunk.length;
      pieces.push(`${length.toString(16)};x=y\r\n${chunk.toString('latin1')}\r\n`);
    }
    pieces.push('0\r\nTrailer: x\r\n\r\n');
    return { kind: 'chunks', pieces: [Buffer.from(pieces.join(''), 'latin1')], isCut: true };
  }

  #fields(): HostileRequest {
    const fields = Array.from({ length: this.#below(6) }, () => this.#one(FIELDS));
    if (this.#random() < 0.2) fields.push(`X: ${'x'.repeat(this.#below(70_000))}`);
    if (this.#random() < 0.2) fields.push(...Array(this.#below(5000)).fill('A: b'));
    if (this.#random() < 0.2) fields.push('Expect: 100-continue');
    const request = this.#request('POST', this.#one(PATHS), this.#body(), ...fields);
    return { kind: 'fields', pieces: [request] };
  }

  #deep(): HostileRequest {
    const depth = 2 + this.#below(100_000);
    const [open, close] = this.#one([
      ['[', ']'],
      ['{"a":', '}'],
      ['{"key":[', ']}'],
    ]);
    const body = `${open.repeat(depth)}1${this.#random() < 0.5 ? close.repeat(depth) : ''}`;
    return { kind: 'deep', pieces: [this.#request('POST', this.#one(PATHS), body)] };
  }

  #huge(): HostileRequest {
    const size = this.#one([MEGABYTE - 100, MEGABYTE + 1, 3 * MEGABYTE]);
    const filler = this.#one([' ', '[', '"', '1', '{"a":1},']);
    const body = filler.repeat(Math.ceil(size / filler.length));
    if (this.#random() < 0.5) {
      return { kind: 'huge', pieces: [this.#request('POST', this.#one(PATHS), body)] };
    }
    const head = headOf('POST', this.#one(PATHS), 'Transfer-Encoding: chunked');
    const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    return { kind: 'huge', pieces: [head, chunk] };
  }
}
