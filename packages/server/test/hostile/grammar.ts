/**
 * Generates messages by a grammar and mutates them: parts of a valid request are replaced,
 * repeated, omitted or moved. Most pass the first validation and fail at a later one.
 */
import { randomOf } from '../seeded-random.ts';

const TEXTS = [
  ...['', '*', '__proto__', 'constructor', 'few', 'many', 'bucket', 'a', '0', 'null', '\u0000'],
  ...['\ud800', '😀', 'ä', '..', '/', '\\', '%00', '%ff', '\r\n', 'a'.repeat(1025), ' '],
];
const NUMBERS = [
  ...[0, -0, 1, -1, 0.5, 64, 65, 1e3, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 53 + 2, 1e308, -1e308],
  ...[Number.NaN, Number.POSITIVE_INFINITY, 1e-300],
];
const FIELD_NAMES = [
  'policy',
  'key',
  'cost',
  'limits',
  'checks',
  'id',
  'receipt',
  'domain',
  'shadow',
];

type Tree = unknown;

export class Grammar {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomOf(seed);
  }

  below(most: number): number {
    return Math.floor(this.#random() * most);
  }

  one<T>(of: readonly T[]): T {
    return of[this.below(of.length)];
  }

  chance(share: number): boolean {
    return this.#random() < share;
  }

  /** Returns a random JSON value. */
  value(depth = 0): Tree {
    const kind = this.below(depth > 3 ? 4 : 6);
    if (kind === 0) return this.one(TEXTS);
    if (kind === 1) return this.one(NUMBERS);
    if (kind === 2) return this.one([true, false, null]);
    if (kind === 3) return `k${this.below(500)}`;
    const count = this.below(4);
    const inner = Array.from({ length: count }, () => this.value(depth + 1));
    if (kind === 4) return inner;
    return Object.fromEntries(inner.map((each) => [this.one([...FIELD_NAMES, ...TEXTS]), each]));
  }

  /** Returns the value with a few random changes. */
  mutated(tree: Tree, share = 0.15): Tree {
    if (this.chance(share)) return this.#changed(tree);
    if (Array.isArray(tree)) return tree.map((each) => this.mutated(each, share));
    if (typeof tree !== 'object' || tree === null) return tree;
    const entries = Object.entries(tree).flatMap(([name, value]) => {
      const drawn = this.below(40);
      if (drawn === 0) return [];
      if (drawn === 1) return [[this.one([...FIELD_NAMES, ...TEXTS]), value]];
      if (drawn === 2)
        return [
          [name, value],
          [this.one(FIELD_NAMES), this.value(2)],
        ];
      return [[name, this.mutated(value, share)]];
    });
    return Object.fromEntries(entries as [string, Tree][]);
  }

  #changed(tree: Tree): Tree {
    const kind = this.below(6);
    if (kind === 0) return [tree];
    if (kind === 1) return { value: tree };
    if (kind === 2 && Array.isArray(tree)) return tree.flatMap((each) => [each, each]);
    if (kind === 3 && typeof tree === 'string') return tree.repeat(this.below(5));
    if (kind === 4 && typeof tree === 'number') return tree * this.one([-1, 2, 1e9, 0.1]);
    return this.value();
  }

  /** Returns the bytes with a few changes: flipped, omitted, repeated, cut or extreme values. */
  mutatedBytes(bytes: Buffer, changes = 1 + this.below(4)): Buffer {
    let changed = Buffer.from(bytes);
    for (let change = 0; change < changes && changed.length > 0; change++) {
      const at = this.below(changed.length);
      const length = 1 + this.below(Math.min(16, changed.length - at));
      const [before, part, after] = [
        changed.subarray(0, at),
        changed.subarray(at, at + length),
        changed.subarray(at + length),
      ];
      const kind = this.below(6);
      if (kind === 0) changed[at] ^= 1 << this.below(8);
      else if (kind === 1) changed = Buffer.concat([before, after]);
      else if (kind === 2) changed = Buffer.concat([before, part, part, after]);
      else if (kind === 3) changed[at] = this.one([0, 1, 0x7f, 0x80, 0xff]);
      else if (kind === 4) changed = Buffer.from(before);
      else changed = Buffer.concat([before, this.bytes(length), after]);
    }
    return changed;
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)));
  }
}

/** Parts of valid bodies. */
const policy = (grammar: Grammar): string => grammar.one(['few', 'many', 'bucket']);
const limit = (grammar: Grammar) => ({ policy: policy(grammar), key: `k${grammar.below(500)}` });
const charge = (grammar: Grammar) => ({ ...limit(grammar), cost: 1, atMs: 1_900_000_000_000 });

export const ROUTES: readonly (readonly [
  method: string,
  path: string,
  body: ((grammar: Grammar) => Tree) | undefined,
])[] = [
  ['POST', '/v1/check', (g) => ({ ...limit(g), cost: 1, id: `i${g.below(100)}` })],
  ['POST', '/v1/check', (g) => ({ limits: [limit(g), limit(g)], onFailure: 'deny' })],
  ['POST', '/v1/check?enforce', (g) => ({ checks: [limit(g), { limits: [limit(g)] }] })],
  ['POST', '/v1/peek', (g) => limit(g)],
  ['POST', '/v1/refund', (g) => ({ receipt: { id: 'r', charges: [charge(g)] } })],
  ['POST', '/v1/settle', (g) => ({ receipt: { id: 'r', charges: [charge(g)] }, cost: 2 })],
  ['POST', '/v1/reset', (g) => limit(g)],
  ['POST', '/v1/overrides', (g) => ({ ...limit(g), limit: 5, expiresInMs: 100, reason: 'r' })],
  ['PUT', '/v1/overrides/few/k', () => ({ limit: 5, expiresInMs: 100 })],
  ['DELETE', '/v1/overrides/few/k', undefined],
  ['PATCH', '/v1/policies/few', () => ({ shadow: null })],
  [
    'POST',
    '/json',
    (g) => ({
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'user', value: `u${g.below(9)}` }] }],
    }),
  ],
  ['GET', '/v1/forward-auth', undefined],
  ['GET', '/v1/keys/few/k', undefined],
  ['GET', '/v1/top?policy=few&by=denied&count=5', undefined],
  ['GET', '/v1/series?seconds=60', undefined],
  ['GET', '/v1/policies', undefined],
  ['GET', '/v1/overrides', undefined],
  ['GET', '/healthz', undefined],
];

const FIELDS = [
  ...[
    'Content-Type: application/json',
    'X-Api-Key: a',
    'X-Forwarded-For: 192.0.2.1',
    'Cookie: a=b',
  ],
  ...[
    'Authorization: Bearer x',
    'X-Original-URI: /a',
    'X-Original-Method: GET',
    'Forwarded: for=x',
  ],
  ...['Connection: keep-alive', 'Accept: */*', 'User-Agent: hostile', 'Origin: http://127.0.0.1'],
];
/** Characters that could end a line of a head. */
const UNPRINTABLE = /[^\x20-\x7e]/g;

export interface Request {
  readonly bytes: Buffer;
  /** Whether the framing is valid, so that exactly one response is expected. */
  readonly isFramed: boolean;
}

/** Returns an HTTP request. One in eight has invalid framing. */
export function httpRequest(grammar: Grammar): Request {
  const [method, path, bodyOf] = grammar.one(ROUTES);
  const body = bodyOf === undefined ? undefined : bodyText(grammar, bodyOf(grammar));
  const target = grammar.chance(0.2) ? mutatedText(grammar, path).replaceAll(' ', '') : path;
  const fields = FIELDS.filter(() => grammar.chance(0.2)).map((field) => {
    if (!grammar.chance(0.2)) return field;
    const [name, value] = field.split(': ');
    return `${name}: ${mutatedText(grammar, value)}`;
  });
  if (grammar.chance(0.1)) fields.push(...fields);
  const length = body === undefined ? [] : [`Content-Length: ${body.length}`];
  const start = `${method} ${target.startsWith('/') ? target : `/${target}`} HTTP/1.1`;
  const head = [start, 'Host: 127.0.0.1', ...fields, ...length, '', ''].join('\r\n');
  const bytes = Buffer.concat([Buffer.from(head, 'latin1'), body ?? Buffer.alloc(0)]);
  if (grammar.chance(0.875)) return { bytes, isFramed: true };
  return { bytes: grammar.mutatedBytes(bytes), isFramed: false };
}

function bodyText(grammar: Grammar, tree: Tree): Buffer {
  const text = JSON.stringify(grammar.mutated(tree)) ?? '';
  const bytes = Buffer.from(text);
  return grammar.chance(0.1) ? grammar.mutatedBytes(bytes) : bytes;
}

const mutatedText = (grammar: Grammar, text: string): string =>
  grammar.mutatedBytes(Buffer.from(text)).toString('latin1').replaceAll(UNPRINTABLE, '%');

/** Returns a length-delimited protobuf field. */
const field = (number: number, inner: Buffer): Buffer =>
  Buffer.concat([Buffer.from([(number << 3) | 2, inner.length & 0x7f]), inner]);

const pair = (key: string, value: string): Buffer =>
  Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))]);

/** Returns a mutated message of the rate limit service, framed for gRPC. */
export function grpcMessage(grammar: Grammar): Buffer {
  const entries = Array.from({ length: 1 + grammar.below(3) }, () =>
    field(1, pair('user', `u${grammar.below(20)}`)),
  );
  const descriptors = Array.from({ length: 1 + grammar.below(3) }, () =>
    field(2, Buffer.concat(entries).subarray(0, 100)),
  );
  const whole = Buffer.concat([field(1, Buffer.from('shop')), ...descriptors]);
  const message = grammar.chance(0.8) ? grammar.mutatedBytes(whole) : whole;
  const prefix = Buffer.from([0, 0, 0, message.length >> 8, message.length & 0xff]);
  const framed = Buffer.concat([prefix, message]);
  return grammar.chance(0.1) ? grammar.mutatedBytes(framed, 1) : framed;
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

/** Returns a connection preface and HTTP/2 frames, most of them invalid. */
export function http2Bytes(grammar: Grammar): Buffer {
  const frames = Array.from({ length: 1 + grammar.below(8) }, () => {
    const payload = grammar.bytes(grammar.one([0, 4, 5, 6, 8, 9, 40, 300]));
    const length = grammar.chance(0.9) ? payload.length : grammar.one([0, 1, 0x4000, 0xffffff]);
    const head = Buffer.alloc(9);
    head.writeUIntBE(length, 0, 3);
    head[3] = grammar.below(12);
    head[4] = grammar.one([0, 1, 4, 5, 8, 0x20, 0xff]);
    head.writeUInt32BE(grammar.one([0, 0, 1, 1, 3, 2, 2 ** 31 - 1, 2 ** 32 - 1]), 5);
    return Buffer.concat([head, payload]);
  });
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const start = grammar.chance(0.9) ? PREFACE : grammar.mutatedBytes(PREFACE);
  return Buffer.concat([start, settings, ...frames]);
}
