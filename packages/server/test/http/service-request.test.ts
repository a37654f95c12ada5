import { once } from 'node:events';
import { createServer, IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServiceRequest } from '../../src/http/service-request.ts';
import { randomOf } from '../seeded-random.ts';
import { exchange, isWhole } from './raw.ts';

const { get: nodeHeaders } = Object.getOwnPropertyDescriptor(IncomingMessage.prototype, 'headers')!;

const NAMES = [
  ...['age', 'authorization', 'content-type', 'etag', 'expires', 'from', 'if-modified-since'],
  ...['if-unmodified-since', 'last-modified', 'location', 'max-forwards', 'proxy-authorization'],
  ...['referer', 'retry-after', 'server', 'user-agent', 'cookie', 'set-cookie', 'accept', 'date'],
  ...['x-forwarded-for', 'x-api-key', 'constructor', '__proto__', 'origin', `x-${'a'.repeat(80)}`],
];

/** Returns `text` with each letter in either case. */
const respelled = (text: string, next: () => number): string =>
  [...text].map((letter) => (next() < 0.5 ? letter.toUpperCase() : letter)).join('');

describe('ServiceRequest', () => {
  let server: Server;
  let port = 0;
  let received: ServiceRequest | undefined;

  beforeAll(async () => {
    server = createServer({ IncomingMessage: ServiceRequest }, (request, response) => {
      received = request as ServiceRequest;
      response.setHeader('content-length', 0).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });

  afterAll(() => server.close());

  const send = async (lines: readonly string[]): Promise<number> => {
    const text = ['GET / HTTP/1.1', ...lines, '', ''].join('\r\n');
    return (await exchange(port, [text], { until: isWhole })).status;
  };

  it('ServiceRequest has the same headers as IncomingMessage if headers repeat', async () => {
    const next = randomOf(17);
    const random = (below: number): number => Math.floor(next() * below);
    for (let turn = 0; turn < 200; turn++) {
      const lines = Array.from({ length: random(40) }, (_, at) => {
        const name = respelled(NAMES[random(NAMES.length)], next);
        return `${name}: value ${at}`;
      });
      expect(await send(['Host: a', ...lines])).toBe(200);
      expect(received?.headers).toEqual(nodeHeaders?.call(received));
      expect(Object.keys(received!.headers)).toEqual(Object.keys(nodeHeaders?.call(received)));
    }
  });

  it('ServiceRequest has correct header names for more names than its cache holds', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const lines = Array.from({ length: 500 }, (_, at) => `X-Name-${turn}-${at}: ${at}`);
      await send(['Host: a', ...lines]);
      expect(Object.keys(received!.headers)).toHaveLength(501);
      expect(received!.headers[`x-name-${turn}-499`]).toBe('499');
    }
  });

  it('Node rejects a request without Host', async () => {
    expect(await send(['x: y'])).toBe(400);
  });
});
