import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { setHeaders, settleOnEnd } from '../../src/http/node-server.ts';
import type { RequestDecision } from '../../src/http/request-decision.ts';
import { responseTo } from './respond.ts';

const LIMITED = {
  headers: [
    ['RateLimit-Policy', '"a";q=9;w=60'],
    ['RateLimit', '"a";r=8;t=60'],
  ],
} as unknown as RequestDecision<never>;

describe('settleOnEnd', () => {
  type Respond = (response: ServerResponse) => void;
  it.each<[string, number | undefined, Respond]>([
    ['set with setHeader', 5, (response) => response.setHeader('content-length', 5).end('hello')],
    [
      'set with writeHead after the rate-limit headers',
      5,
      (response) => {
        setHeaders(response, LIMITED);
        response.writeHead(200, { 'content-length': 5 }).end('hello');
      },
    ],
    ['that Node adds by itself', undefined, (response) => response.end('hello')],
  ])('settleOnEnd reports for a Content-Length %s the size %s', async (_, bytes, respond) => {
    const outcomes: unknown[] = [];
    await responseTo((response) => {
      settleOnEnd('mine', response, (outcome) => void outcomes.push(outcome));
      respond(response);
    });
    expect(outcomes).toEqual([{ request: 'mine', status: 200, finished: true, bytes }]);
  });
});

describe('setHeaders', () => {
  const own = { 'x-own': 'yes', 'set-cookie': ['a=1', 'b=2'] };
  it.each<[string, (response: ServerResponse) => void]>([
    ['writeHead with an object', (response) => response.writeHead(201, own)],
    ['writeHead with a list', (response) => response.writeHead(201, Object.entries(own).flat())],
    ['writeHead with a reason', (response) => response.writeHead(201, 'Made', own)],
    [
      'flushHeaders',
      (response) => {
        response.statusCode = 201;
        for (const [name, value] of Object.entries(own)) response.setHeader(name, value);
        response.flushHeaders();
      },
    ],
  ])('setHeaders keeps the headers of %s', async (_, write) => {
    const { status, headers } = await responseTo((response) => {
      setHeaders(response, LIMITED);
      write(response);
      response.end('hello');
    });
    expect([status, headers.get('x-own')]).toEqual([201, 'yes']);
    expect(headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(headers.get('ratelimit-policy')).toBe('"a";q=9;w=60');
    expect(headers.get('ratelimit')).toBe('"a";r=8;t=60');
  });

  it('setHeaders appends to the list of an earlier limiter', async () => {
    const { headers } = await responseTo((response) => {
      response.setHeader('RateLimit-Policy', '"first";q=2;w=1');
      response.setHeader('RateLimit', '"first";r=1;t=1');
      setHeaders(response, LIMITED);
      response.end('hello');
    });
    expect(headers.get('ratelimit-policy')).toBe('"first";q=2;w=1, "a";q=9;w=60');
    expect(headers.get('ratelimit')).toBe('"first";r=1;t=1, "a";r=8;t=60');
  });

  it('setHeaders replaces Retry-After, which is not a list', async () => {
    const denied = (wait: string) => ({ headers: [['Retry-After', wait]] }) as never;
    const { headers } = await responseTo((response) => {
      setHeaders(response, denied('1'));
      setHeaders(response, denied('2'));
      response.end('hello');
    });
    expect(headers.get('retry-after')).toBe('2');
  });

  it('setHeaders does nothing after the headers have been sent', async () => {
    const { status, headers } = await responseTo((response) => {
      response.writeHead(200);
      response.write('hel');
      setHeaders(response, LIMITED);
      response.end('lo');
    });
    expect([status, headers.get('ratelimit')]).toEqual([200, null]);
  });
});
