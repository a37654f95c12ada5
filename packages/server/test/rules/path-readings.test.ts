/** All paths that an application may read from a request's path. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AmbiguousRequest } from '../../src/ambiguous-request.ts';
import { hasOneReading, isPlain, MAX_READINGS, readingsOf } from '../../src/rules/path-readings.ts';
import { normalPath } from '../../src/rules/request-path.ts';

describe('readingsOf', () => {
  it.each([
    '/',
    '/login',
    '/api/v1/users/42',
    '/a.b/c-d_e~f',
    '/Login/',
    '/.well-known/x',
    '/a:b@c,d',
  ])('the path %j has one reading', (path) => {
    expect(hasOneReading(path)).toBe(true);
    expect(readingsOf(path)).toEqual([normalPath(path)]);
  });

  it.each([
    ['/caf%C3%A9', ['/caf%c3%a9']],
    ['/%6Cogin', ['/login']],
    ['/a%20b', ['/a%20b']],
    ['//a//b', ['/a/b', '/b', '/']],
    ['/x/../login', ['/x/../login', '/login']],
    ['/x\\..\\login', ['/x\\..\\login', '/x/../login', '/login']],
    ['/%2flogin', ['/%2flogin', '/login', '/']],
    ['/x/..%2flogin', ['/x/..%2flogin', '/x/../login', '/login']],
    ['/x/..%252flogin', ['/x/..%252flogin', '/x/..%2flogin', '/x/../login', '/login']],
    ['/free//../login', ['/free/../login', '/free/login', '/login']],
    ['//host/login', ['/host/login', '/login']],
    ['/login;a=1', ['/login;a=1', '/login']],
    ['/x/..;/login', ['/x/..;/login', '/x/../login', '/login']],
    ['/login.', ['/login.', '/login']],
    ['/login%20%20', ['/login%20%20', '/login']],
    ['/x/..%20/login', ['/x/..%20/login', '/x/../login', '/login']],
    ['/login%3fx', ['/login%3fx', '/login']],
    ['/login%00.css', ['/login%00.css', '/login']],
    ['/%c0%aflogin', ['/%c0%aflogin', '/%2flogin', '/login', '/']],
    ['/logi%u006e', ['/logi%u006e', '/login']],
  ])('the path %j has the readings %j', (path, expected) => {
    expect([...readingsOf(path)].sort()).toEqual([...expected].sort());
  });

  it('readings distinguish a backslash from an encoded one, as URL parsers do', () => {
    expect(readingsOf('/free%5cx\\../login')).toContain('/login');
    expect(readingsOf('/free%5cx\\..\\login')).toContain('/login');
  });

  it('readings distinguish a dot segment from an encoded one', () => {
    const readings = readingsOf('/a/b/%2e%2e/../login');
    expect(readings).toEqual(expect.arrayContaining(['/login', '/a/b/login']));
  });

  it('readings include decoding before and after dot segments are removed', () => {
    const readings = readingsOf('/p/q%2fr/../..%2flogin');
    expect(readings).toEqual(expect.arrayContaining(['/login', '/p/login', '/p/..%2flogin']));
  });

  it.each([
    '/a%2fb;c.//../%3fd\\..%252fe;%20.//x',
    `/${'a%2f'.repeat(9000)}`,
    `/${'%252e%252e%252f'.repeat(2000)}`,
    `/%${'25'.repeat(40)}2f`,
  ])('the path %j with too many readings is rejected', (path) => {
    expect(() => readingsOf(path)).toThrow(AmbiguousRequest);
  });

  const PIECES = [
    ...['/', '//', '\\', '%2f', '%5c', '%252f', '.', '..', '%2e', '%252e', ';', ';x=1', 'a', 'B'],
    ...[
      '%20',
      '%00',
      '%3f',
      '%23',
      '%25',
      '%',
      '%zz',
      '%c0%af',
      '%u002f',
      '%c3%a9',
      '\xe9',
      '?',
      '#',
    ],
  ];
  const path = fc
    .array(fc.constantFrom(...PIECES), { maxLength: 12 })
    .map((pieces) => `/${pieces.join('')}`);

  it('the only reading of a plain path is the path itself', () => {
    const plain = ['/', '/login', '/api/v1/users/42', '/a.b/c-d_e~f', '/a:b@c,d'];
    for (const each of plain) expect([isPlain(each), readingsOf(each)]).toEqual([true, [each]]);
    fc.assert(
      fc.property(path, (text) => {
        if (isPlain(text)) expect(readingsOf(text)).toEqual([text]);
      }),
    );
  });

  it('path readings are bounded, distinct, absolute and in lower case', () => {
    fc.assert(
      fc.property(path, (text) => {
        let readings: readonly string[];
        try {
          readings = readingsOf(text);
        } catch (error) {
          expect(error).toBeInstanceOf(AmbiguousRequest);
          return;
        }
        expect(readings.length).toBeLessThanOrEqual(MAX_READINGS);
        expect(new Set(readings).size).toBe(readings.length);
        for (const each of readings) expect(each).toMatch(/^\/(?:[!-@[-~]*[!-.0-@[-~])?$/);
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 1000) },
    );
  });

  it('path readings are computed in linear time', () => {
    // Quadratic steps would take minutes.
    const pieces = [...PIECES, '%20x', '.x', ';/', '/.', 'x%20', '%20.'];
    for (const piece of pieces) {
      for (const end of ['', 'x', '/']) {
        const text = `/${piece.repeat(Math.floor(30_000 / piece.length))}${end}`;
        try {
          readingsOf(text);
        } catch (error) {
          expect(error).toBeInstanceOf(AmbiguousRequest);
        }
      }
    }
  });
});
