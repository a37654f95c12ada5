/** Fields that go out with the head of an answer, however somebody writes that. */
import { createServer, type ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { sendFields, whenOver } from '../../src/http/node-server.ts';
import type { Field } from '../../src/http/request-limiter.ts';

const FIELDS: readonly Field[] = [
  ['RateLimit-Policy', '"a";q=9;w=60'],
  ['RateLimit', '"a";r=8;t=60'],
];
const verdict = (fields: readonly Field[]) => ({ fields }) as never;

/** What a client hears of an answer. */
async function heard(answer: (response: ServerResponse) => void): Promise<Response> {
  const server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as { port: number };
    const response = await fetch(`http://127.0.0.1:${port}/`);
    await response.text();
    return response;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const COOKIES = ['a=1', 'b=2'];

describe('fields are sent with a head that is written', () => {
  const ways: Record<string, (response: ServerResponse) => void> = {
    'as an object': (response) =>
      response.writeHead(201, { 'x-own': 'yes', 'set-cookie': COOKIES }),
    'as a list': (response) => response.writeHead(201, ['x-own', 'yes', 'set-cookie', COOKIES]),
    'as pairs': (response) =>
      response.writeHead(201, [
        ['x-own', 'yes'],
        ['set-cookie', COOKIES],
      ] as never),
    'after a text': (response) =>
      response.writeHead(201, 'Made', { 'x-own': 'yes', 'set-cookie': COOKIES }),
    'after no text': (response) =>
      response.writeHead(201, undefined, { 'x-own': 'yes', 'set-cookie': COOKIES }),
    'over fields that were set before': (response) =>
      response.setHeader('x-own', 'yes').writeHead(201, { 'set-cookie': COOKIES }),
    'by its status alone': (response) =>
      response.setHeader('x-own', 'yes').setHeader('set-cookie', COOKIES).writeHead(201),
    'when it is flushed': (response) => {
      response.statusCode = 201;
      response.setHeader('x-own', 'yes').setHeader('set-cookie', COOKIES).flushHeaders();
    },
    'by nobody but the end': (response) => {
      response.statusCode = 201;
      response.setHeader('x-own', 'yes').setHeader('set-cookie', COOKIES);
    },
  };

  it.each(Object.entries(ways))('%s', async (_, write) => {
    const { status, headers } = await heard((response) => {
      sendFields(response, verdict(FIELDS));
      write(response);
      response.end('hello');
    });
    expect([status, headers.get('x-own'), headers.getSetCookie()]).toEqual([201, 'yes', COOKIES]);
    expect(headers.get('ratelimit-policy')).toBe('"a";q=9;w=60');
    expect(headers.get('ratelimit')).toBe('"a";r=8;t=60');
  });
});

it('limits in a row are told in one list, in their order', async () => {
  const { headers } = await heard((response) => {
    sendFields(response, verdict(FIELDS));
    sendFields(response, verdict([['RateLimit', '"b";r=7;t=60']]));
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end('hello');
  });
  expect(headers.get('ratelimit')).toBe('"a";r=8;t=60, "b";r=7;t=60');
  expect(headers.get('ratelimit-policy')).toBe('"a";q=9;w=60');
});

it('what somebody has set before is told as well', async () => {
  const { headers } = await heard((response) => {
    response.setHeader('RateLimit', '"first";r=1;t=1');
    sendFields(response, verdict(FIELDS));
    response.end('hello');
  });
  expect(headers.get('ratelimit')).toBe('"first";r=1;t=1, "a";r=8;t=60');
});

it('a field that cannot be a list is the one of the last limit', async () => {
  const { headers } = await heard((response) => {
    sendFields(response, verdict([['Retry-After', '1']]));
    sendFields(response, verdict([['Retry-After', '2']]));
    response.writeHead(200);
    response.end('hello');
  });
  expect(headers.get('retry-after')).toBe('2');
});

it('an answer that has begun stays as it is', async () => {
  const { status, headers } = await heard((response) => {
    response.writeHead(200);
    response.write('hel');
    sendFields(response, verdict(FIELDS));
    response.end('lo');
  });
  expect([status, headers.get('ratelimit')]).toEqual([200, null]);
});

it('the object that a head was given as is not changed', async () => {
  const own = { 'x-own': 'yes' };
  await heard((response) => {
    sendFields(response, verdict(FIELDS));
    response.writeHead(200, own);
    response.end('hello');
  });
  expect(own).toEqual({ 'x-own': 'yes' });
});

it('whoever has listened for the head before gets it as it was given', async () => {
  const seen: unknown[] = [];
  const { headers } = await heard((response) => {
    const { writeHead } = response;
    response.writeHead = function (this: ServerResponse, status: number, head: object) {
      seen.push(head);
      return writeHead.call(this, status, { ...head, 'x-frame-options': 'DENY' });
    } as never;
    sendFields(response, verdict(FIELDS));
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end('hello');
  });
  expect(seen).toEqual([{ 'content-type': 'text/plain', ...Object.fromEntries(FIELDS) }]);
  expect(headers.get('content-type')).toBe('text/plain');
  expect(headers.get('x-frame-options')).toBe('DENY');
  expect(headers.get('ratelimit')).toBe('"a";r=8;t=60');
});

it.each([
  ['that is written at once', (response: ServerResponse) => response.end('hello')],
  [
    'that says so with its head',
    (response: ServerResponse) => response.writeHead(200, { 'content-length': 5 }).end('hello'),
  ],
  [
    'that has it as a field',
    (response: ServerResponse) => response.setHeader('content-length', 5).end('hello'),
  ],
])('the length of an answer is known of one %s', async (_, answer) => {
  const ends: unknown[] = [];
  await heard((response) => {
    whenOver('mine', response, (end) => void ends.push(end));
    answer(response);
  });
  expect(ends).toEqual([{ request: 'mine', status: 200, finished: true, bytes: 5 }]);
});
