/** Normalized paths, and patterns that match in bounded time. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalPath, PathPattern } from '../../src/rules/request-path.ts';

describe('normalPath', () => {
  it.each([
    ['/login', '/login'],
    ['/LogIn', '/login'],
    ['/%6Cogin', '/login'],
    ['/l%6fgin', '/login'],
    ['//login', '/login'],
    ['///a///login//', '/a/login'],
    ['/./login', '/login'],
    ['/a/../login', '/login'],
    ['/a/%2e%2E/login', '/login'],
    ['/../../login', '/login'],
    ['/a//../login', '/login'],
    ['/login/', '/login'],
    ['/login/.', '/login'],
    ['/login?', '/login'],
    ['/login?a=/b', '/login'],
    ['/login#x', '/login'],
    ['login', '/login'],
    ['', '/'],
    ['/', '/'],
    ['/..', '/'],
    ['/%40me', '/@me'],
    ['/a%2Fb', '/a%2fb'],
    ['/a%5Cb', '/a\\b'],
    ['/a%20b', '/a%20b'],
    ['/a b', '/a%20b'],
    ['/%00', '/%00'],
    ['/a\0b', '/a%00b'],
    ['/%3f%23%25', '/%3f%23%25'],
    ['/%252e%252e/x', '/%252e%252e/x'],
    ['/%C3%A9', '/%c3%a9'],
    ['/\u00c3\u00a9', '/%c3%a9'],
    ['/%', '/%'],
    ['/%zz%4', '/%zz%4'],
    ['/.well-known/x', '/.well-known/x'],
    ['/...', '/...'],
  ])('normalPath(%j) returns %j', (path, normal) => {
    expect(normalPath(path)).toBe(normal);
  });

  it('a normalized path has no dot segments and no repeated slashes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        const normal = normalPath(text);
        expect(normal).toMatch(/^\/(?:[!-.0-~]+(?:\/[!-.0-~]+)*)?$/);
        expect(normal.split('/')).not.toContain('..');
        expect(normal.split('/')).not.toContain('.');
      }),
    );
  });

  it('all spellings of unreserved characters and slashes are normalized', () => {
    const segment = fc.stringMatching(/^[a-z0-9_~-]{1,8}$/);
    const spelling = fc.infiniteStream(fc.constantFrom(0, 1, 2, 3));
    fc.assert(
      fc.property(fc.array(segment, { minLength: 1, maxLength: 4 }), spelling, (segments, how) => {
        const spell = (character: string): string => {
          const code = character.charCodeAt(0).toString(16).padStart(2, '0');
          const ways = [character, `%${code}`, `%${code.toUpperCase()}`, character.toUpperCase()];
          return ways[how.next().value];
        };
        const slash = (): string => ['/', '//', '/./', '/x/../'][how.next().value];
        const spelt = segments.map((each) => slash() + [...each].map(spell).join('')).join('');
        expect(normalPath(spelt)).toBe(`/${segments.join('/')}`);
      }),
    );
  });
});

describe('PathPattern', () => {
  it.each([
    ['/login', '/login', true],
    ['/login', '/login/x', false],
    ['/Login/', '/login', true],
    ['/caf\u00e9', '/caf%C3%A9', true],
    ['/a/*', '/a/b', true],
    ['/a/*', '/a/b/c', false],
    ['/a/*', '/a', false],
    ['/a/*/c', '/a/b/c', true],
    ['/a/*/c', '/a/b/b/c', false],
    ['/a/x*z', '/a/xyz', true],
    ['/a/x*z', '/a/x/z', false],
    ['/*.php', '/index.php', true],
    ['*.php', '/index.php', true],
    ['*.php', '/a/index.php', false],
    ['**.php', '/a/index.php', true],
    ['/a/**', '/a/b/c', true],
    ['/a/**', '/a', true],
    ['/a/**', '/ab', false],
    ['/a/**/c', '/a/c', true],
    ['/a/**/c', '/a/b/b/c', true],
    ['/a/**/c', '/a/bc', false],
    ['/a**', '/ab/c', true],
    ['/**', '/', true],
    ['**', '/a/b', true],
    ['/a/**/b/*/c', '/a/x/b/y/b/z/c', true],
    ['/a/**/b/*/c', '/a/x/b/y/z/c', false],
  ])('matching the pattern %s with %s returns %s', (pattern, path, expected) => {
    expect(new PathPattern(pattern).matches(normalPath(path))).toBe(expected);
  });

  /** Returns the regular expression that is equivalent to a pattern. */
  const oracle = (pattern: string): RegExp => {
    const meaning = pattern
      .split(/(\/\*\*(?=\/|$)|\*\*|\*)/)
      .map((piece) => {
        if (piece === '/**') return '(?:/.*)?';
        return piece === '**' ? '.*' : piece === '*' ? '[^/]*' : piece;
      })
      .join('');
    return new RegExp(`^${meaning}$`);
  };

  it('a pattern matches the same paths as the equivalent regular expression', () => {
    const piece = fc.constantFrom('a', 'b', 'ab', '/', '/', '*', '**', '/**');
    const pattern = fc
      .array(piece, { minLength: 1, maxLength: 8 })
      .map((pieces) => normalPath(`/${pieces.join('')}`).replace(/\*{3,}/g, '**'));
    const path = fc
      .array(fc.constantFrom('a', 'b', '/'), { maxLength: 10 })
      .map((characters) => normalPath(`/${characters.join('')}`));
    let fitted = 0;
    fc.assert(
      fc.property(pattern, path, (each, text) => {
        const expected = oracle(each).test(text);
        if (expected) fitted++;
        expect(new PathPattern(each).matches(text)).toBe(expected);
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 1000) },
    );
    expect(fitted).toBeGreaterThan(100);
  });

  it('a path that nearly matches in many ways takes bounded time', () => {
    // A matcher with backtracking would take exponential time.
    const pattern = new PathPattern(`/**${'*a'.repeat(20)}**b/**${'*a'.repeat(20)}/*c`);
    expect(pattern.matches(`/${'a'.repeat(8000)}`)).toBe(false);
    expect(pattern.matches(`/${'a'.repeat(4000)}b/${'a'.repeat(4000)}/c`)).toBe(true);
  });
});
