import { describe, expect, test } from 'vitest';
import { readRoute, routeText, to } from '../src/route.ts';

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
  test.each(HOSTILE)('names a key such as %j, and nothing else', (key) => {
    const route = { page: 'key', names: [key, key], query: { filter: key } } as const;
    expect(readRoute(routeText(route))).toEqual(route);
  });

  test('never leaves the part that is sent nowhere', () => {
    for (const key of HOSTILE) {
      expect(to('key', ['perMinute', key])).toMatch(/^#\/key\/perMinute\/[^/#?\s<>"]+$/);
    }
  });

  test('has a sign in the place of half a character', () => {
    const route = readRoute(to('key', ['p', 'a\ud83d']));
    expect(route.names).toEqual(['p', 'a\ufffd']);
  });

  test.each(['', '#', '#/', '#/nowhere/x', '#main', '#/__proto__', '#/constructor'])(
    'that is %j is the overview',
    (hash) => {
      expect(readRoute(hash)).toEqual({ page: 'overview', names: [], query: {} });
    },
  );

  test('that somebody has mangled is read as it stands', () => {
    expect(readRoute('#/policy/100%/x%zz')).toEqual({
      ...{ page: 'policy', names: ['100%', 'x%zz'], query: {} },
    });
  });

  test('has the sorting and the filters', () => {
    const route = readRoute('#/overview?sort=-denied&filter=a%26b&range=10');
    expect(route.query).toEqual({ sort: '-denied', filter: 'a&b', range: '10' });
  });

  test('may have a field that objects have already', () => {
    const { query } = readRoute('#/overview?__proto__=x&toString=y');
    expect(Object.entries(query)).toEqual([
      ['__proto__', 'x'],
      ['toString', 'y'],
    ]);
    expect(Object.getPrototypeOf(query)).toBe(Object.prototype);
  });
});
