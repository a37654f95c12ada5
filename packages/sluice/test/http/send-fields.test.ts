/** Fields that go out with the head of an answer, however somebody writes that. */
import type { ServerResponse } from 'node:http';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/request-limiter.ts';
import { announce, sendFields } from '../../src/http/send-fields.ts';
import { heard } from './answers.ts';

const FIELDS: readonly Field[] = [
  ['RateLimit-Policy', '"a";q=9;w=60'],
  ['RateLimit', '"a";r=8;t=60'],
];
const told = (fields: readonly Field[], lines?: string) => ({ fields, lines });
const LINES = FIELDS.map(([name, value]) => `${name}: ${value}\r\n`).join('');

const COOKIES = ['a=1', 'b=2'];

/** An answer whose head somebody else makes, so that the fields can only be added to it. */
function madeElsewhere(response: ServerResponse): void {
  const { _storeHeader } = response as unknown as { _storeHeader: (...all: unknown[]) => void };
  const own = function (this: ServerResponse, ...all: unknown[]): void {
    _storeHeader.apply(this, all);
  };
  Object.assign(response, { _storeHeader: own });
}

// The first answer of all shows how heads are made here; those after it go the fast way.
beforeAll(async () => {
  const { headers } = await heard((response) => {
    expect(announce(response, told(FIELDS))).toBe(false);
    sendFields(response, told(FIELDS));
    response.end('hello');
  });
  expect(headers.get('ratelimit')).toBe('"a";r=8;t=60');
});

type Kind = [name: string, prepare: (response: ServerResponse) => void, lines?: string];
const kinds: Kind[] = [
  ['as text with a head', () => {}],
  ['as text made before with a head', () => {}, LINES],
  ['in a head', madeElsewhere],
  ['in a head, text or not,', madeElsewhere, LINES],
];

describe.each(kinds)('fields are sent %s that is written', (_kind, prepare, lines) => {
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
      prepare(response);
      sendFields(response, told(FIELDS, lines));
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
    sendFields(response, told(FIELDS, LINES));
    sendFields(response, told([['RateLimit', '"b";r=7;t=60']], 'RateLimit: "b";r=7;t=60\r\n'));
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end('hello');
  });
  expect(headers.get('ratelimit')).toBe('"a";r=8;t=60, "b";r=7;t=60');
  expect(headers.get('ratelimit-policy')).toBe('"a";q=9;w=60');
});

it('what somebody has set before is told as well', async () => {
  const { headers } = await heard((response) => {
    response.setHeader('RateLimit', '"first";r=1;t=1');
    sendFields(response, told(FIELDS));
    response.end('hello');
  });
  expect(headers.get('ratelimit')).toBe('"first";r=1;t=1, "a";r=8;t=60');
});

it('a field that cannot be a list is the one of the last limit', async () => {
  const { headers } = await heard((response) => {
    sendFields(response, told([['Retry-After', '1']]));
    sendFields(response, told([['Retry-After', '2']]));
    response.writeHead(200);
    response.end('hello');
  });
  expect(headers.get('retry-after')).toBe('2');
});

it('an answer that has begun stays as it is', async () => {
  const { status, headers } = await heard((response) => {
    response.writeHead(200);
    response.write('hel');
    sendFields(response, told(FIELDS));
    response.end('lo');
  });
  expect([status, headers.get('ratelimit')]).toEqual([200, null]);
});

it('the object that a head was given as is not changed', async () => {
  const own = { 'x-own': 'yes' };
  await heard((response) => {
    sendFields(response, told(FIELDS));
    response.writeHead(200, own);
    response.end('hello');
  });
  expect(own).toEqual({ 'x-own': 'yes' });
});

it.each([
  ['as text', () => {}, {}],
  ['to the head', madeElsewhere, Object.fromEntries(FIELDS)],
])('whoever has listened for the head gets an object; fields %s', async (_, prepare, added) => {
  const seen: unknown[] = [];
  const { headers } = await heard((response) => {
    prepare(response);
    const { writeHead } = response;
    response.writeHead = function (this: ServerResponse, status: number, head: object) {
      seen.push(head);
      return writeHead.call(this, status, { ...head, 'x-frame-options': 'DENY' });
    } as never;
    sendFields(response, told(FIELDS));
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end('hello');
  });
  expect(seen).toEqual([{ 'content-type': 'text/plain', ...added }]);
  expect(headers.get('content-type')).toBe('text/plain');
  expect(headers.get('x-frame-options')).toBe('DENY');
  expect(headers.get('ratelimit')).toBe('"a";r=8;t=60');
});

describe.each([
  ['as text', undefined],
  ['as text made before', LINES],
])('an answer is asked for fields that are yet to be sent %s', (_, lines) => {
  it('and has them under any spelling of their names', async () => {
    await heard((response) => {
      announce(response, told(FIELDS, lines));
      response.setHeader('x-own', 'yes');
      expect(response.getHeader('RATELIMIT')).toBe('"a";r=8;t=60');
      expect(response.getHeader('x-own')).toBe('yes');
      expect([response.hasHeader('ratelimit-policy'), response.hasHeader('x-other')]).toEqual([
        true,
        false,
      ]);
      expect({ ...response.getHeaders() }).toEqual({
        'x-own': 'yes',
        'ratelimit-policy': '"a";q=9;w=60',
        ratelimit: '"a";r=8;t=60',
      });
      response.end('hello');
    });
  });

  it('and sends none that was taken away', async () => {
    const { headers } = await heard((response) => {
      announce(response, told(FIELDS, lines));
      response.removeHeader('RateLimit-policy');
      expect(response.hasHeader('ratelimit-policy')).toBe(false);
      response.end('hello');
    });
    expect([headers.get('ratelimit-policy'), headers.get('ratelimit')]).toEqual([
      null,
      '"a";r=8;t=60',
    ]);
  });

  it('and sends under their own names what is left of them', async () => {
    const refused: readonly Field[] = [...FIELDS, ['Retry-After', '7']];
    await heard((response) => {
      announce(response, told(FIELDS, lines));
      response.end('hello');
    });
    const { headers } = await heard((response) => {
      announce(response, told(refused));
      response.removeHeader('ratelimit');
      response.end('hello');
    });
    const names = ['ratelimit-policy', 'ratelimit', 'retry-after'];
    expect(names.map((name) => headers.get(name))).toEqual(['"a";q=9;w=60', null, '7']);
  });

  it.each([
    ['set', (response: ServerResponse) => response.setHeader('ratelimit', '"own";r=1;t=1')],
    [
      'written with the head',
      (response: ServerResponse) => response.writeHead(200, { ratelimit: '"own";r=1;t=1' }),
    ],
    [
      'written as a list',
      (response: ServerResponse) => response.writeHead(200, ['RateLimit', '"own";r=1;t=1']),
    ],
  ])('and what the app has %s itself is told beside them, once', async (_, write) => {
    const { headers } = await heard((response) => {
      announce(response, told(FIELDS, lines));
      write(response);
      response.end('hello');
    });
    const values = headers.get('ratelimit')?.split(', ').sort();
    expect(values).toEqual(['"a";r=8;t=60', '"own";r=1;t=1']);
    expect(headers.get('ratelimit-policy')).toBe('"a";q=9;w=60');
  });
});

it('an answer without a body is told as well', async () => {
  const { status, headers } = await heard((response) => {
    sendFields(response, told(FIELDS));
    response.writeHead(204).end();
  });
  expect([status, headers.get('ratelimit')]).toEqual([204, '"a";r=8;t=60']);
});
