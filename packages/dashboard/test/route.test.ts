import { describe, expect, test } from 'vitest';
import { hrefTo, parseRoute, routeText } from '../src/route.ts';

const HOSTILE = [
  'user:7',
  'a/b',
  'a?b=c#d',
  '..',
  '.',
  '%2F',
  '%',
  '<script>alert(1)</script>',
  '"onmouseover="alert(1)',
  'javascript:alert(1)',
  '__proto__',
  'ключ 🔑',
  ' spaces\tand\nlines ',
  'a'.repeat(1024),
  '\u0000\u202e',
];

describe('an address', () => {
  test.each(HOSTILE)('an address round-trips the key %j', (key) => {
    const route = { page: 'key', names: [key, key], query: { filter: key } } as const;
    expect(parseRoute(routeText(route))).toEqual(route);
  });

  test('an address keeps every key within one segment of the fragment', () => {
    for (const key of HOSTILE) {
      expect(hrefTo('key', ['perMinute', key])).toMatch(/^#\/key\/perMinute\/[^/#?\s<>"]+$/);
    }
  });

  test('an address replaces a lone surrogate', () => {
    const route = parseRoute(hrefTo('key', ['p', 'a\ud83d']));
    expect(route.names).toEqual(['p', 'a\ufffd']);
  });

  test.each(['', '#', '#/', '#/nowhere/x', '#main', '#/__proto__', '#/constructor'])(
    'the address %j is the overview',
    (hash) => {
      expect(parseRoute(hash)).toEqual({ page: 'overview', names: [], query: {} });
    },
  );

  test('an address keeps invalid escapes as text', () => {
    expect(parseRoute('#/policy/100%/x%zz')).toEqual({
      ...{ page: 'policy', names: ['100%', 'x%zz'], query: {} },
    });
  });

  test('an address contains the sort order and filters', () => {
    const route = parseRoute('#/overview?sort=-denied&filter=a%26b&range=10');
    expect(route.query).toEqual({ sort: '-denied', filter: 'a&b', range: '10' });
  });

  test('an address accepts query names that exist on Object.prototype', () => {
    const { query } = parseRoute('#/overview?__proto__=x&toString=y');
    expect(Object.entries(query)).toEqual([
      ['__proto__', 'x'],
      ['toString', 'y'],
    ]);
    expect(Object.getPrototypeOf(query)).toBe(Object.prototype);
  });
});
