import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLimiter, joinKey, ManualClock } from '../src/index.ts';

/** Parts that are rich in the two characters that mean something in a key. */
const part = fc.string({ unit: fc.constantFrom(':', '\\', 'a', 'b'), maxLength: 6 });
const parts = fc.array(part, { minLength: 1, maxLength: 5 });

const same = (left: readonly unknown[], right: readonly unknown[]): boolean =>
  left.length === right.length && left.every((each, place) => each === right[place]);

/** Splits a key into its parts, which is possible only if different lists have different keys. */
function splitKey(key: string): string[] {
  const found = [''];
  for (const [character] of key.matchAll(/\\.|[^\\]/gsu)) {
    if (character === ':') found.push('');
    else found[found.length - 1] += character.replace('\\', '');
  }
  return found;
}

describe('joinKey', () => {
  it('joinKey makes different keys of different lists of parts', () => {
    fc.assert(
      fc.property(parts, parts, (left, right) => {
        expect(joinKey(...left) === joinKey(...right)).toBe(same(left, right));
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 500) },
    );
  });

  it('joinKey distinguishes lists that differ only in separators', () => {
    const cuts = fc.array(fc.nat({ max: 8 }), { maxLength: 4 });
    const text = fc.string({ unit: fc.constantFrom(':', '\\', 'a'), minLength: 8, maxLength: 8 });
    const cut = (characters: string, places: readonly number[]): string[] => {
      const ends = [...places].sort((a, b) => a - b);
      return [...ends, characters.length].map((end, place) =>
        characters.slice(ends[place - 1] ?? 0, end),
      );
    };
    fc.assert(
      fc.property(text, cuts, cuts, (characters, some, others) => {
        const left = cut(characters, some);
        const right = cut(characters, others);
        expect(joinKey(...left) === joinKey(...right)).toBe(same(left, right));
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 500) },
    );
  });

  it('joined keys can be split into their parts again', () => {
    fc.assert(
      fc.property(
        fc.oneof(parts, fc.array(fc.string({ unit: 'binary' }), { minLength: 1 })),
        (list) => {
          expect(splitKey(joinKey(...list))).toEqual(list);
        },
      ),
    );
  });

  it.each([
    [['a'], 'a'],
    [['a', 'b'], 'a:b'],
    [['a:b'], 'a\\:b'],
    [['a:b', 'c'], 'a\\:b:c'],
    [['a', 'b:c'], 'a:b\\:c'],
    [['a', '', 'b'], 'a::b'],
    [['', ''], ':'],
    [[':'], '\\:'],
    [['\\', ''], '\\\\:'],
    [['\\:'], '\\\\\\:'],
    [['user', 42], 'user:42'],
    [[0.5, -1], '0.5:-1'],
    [['__proto__', '\u0000', '\ud800'], '__proto__:\u0000:\ud800'],
  ])('joinKey(%j) returns %j', (list, key) => {
    expect(joinKey(...list)).toBe(key);
  });

  it.each([
    [Number.NaN, '`NaN`'],
    [Number.POSITIVE_INFINITY, '`Infinity`'],
    [null, '`null`'],
    [undefined, '`undefined`'],
    [true, '`true`'],
    [5n, '`5`'],
    [{}, 'an object'],
    [['a'], 'an array of 1'],
    [() => 'a', 'a function'],
    [Symbol('a'), '`Symbol(a)`'],
  ])('joinKey rejects the part %o and names the expected types', (wrong, got) => {
    const message = `Expected the parts of the key to be strings or numbers, got ${got}`;
    expect(() => joinKey('a', wrong as string)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_KEY', message }),
    );
  });
});

describe('a key in parts', () => {
  const limiter = createLimiter({ policies: { p: '1/1s' }, clock: new ManualClock(1_000) });

  it('a key given as parts equals the joined key', () => {
    expect(limiter.checkSync('p', ['tenant:1', 'user']).key).toBe(joinKey('tenant:1', 'user'));
    expect(limiter.checkSync('p', joinKey('tenant:1', 'user')).allowed).toBe(false);
    expect(limiter.checkSync('p', ['tenant', '1:user']).allowed).toBe(true);
  });

  it('separators and escapes count towards the 1,024 characters of a key', () => {
    expect(limiter.checkSync('p', ['a'.repeat(511), 'b'.repeat(512)]).key).toHaveLength(1_024);
    expect(limiter.checkSync('p', [':'.repeat(512)]).key).toHaveLength(1_024);
    const message = 'Expected the key to be a string of 1 to 1024 characters, got an array of ';
    expect(() => limiter.checkSync('p', ['a'.repeat(512), 'b'.repeat(512)])).toThrow(`${message}2`);
    expect(() => limiter.checkSync('p', [':'.repeat(513)])).toThrow(`${message}1`);
  });

  it('a key without parts and a key of one empty part are rejected', () => {
    const message = 'Expected the key to be a string of 1 to 1024 characters, got an array of ';
    expect(() => limiter.checkSync('p', [])).toThrow(`${message}0`);
    expect(() => limiter.checkSync('p', [''])).toThrow(`${message}1`);
  });
});

describe('a plain key', () => {
  const long = (last: string) => 'k'.repeat(1_023) + last;
  const oneOf = (...keys: (string | string[])[]) => keys;
  const keys = [
    oneOf('__proto__', 'constructor', 'toString', 'hasOwnProperty', 'undefined', 'null'),
    oneOf('0', '-0', '-1', '1', '01', '1.0', ' ', '  ', 'a', 'A', 'a ', 'a\n'),
    oneOf('a:b', ['a', 'b:c'], ['a:b', 'c'], ['a', 'b', 'c'], 'a\\:b', ['a', ''], ['', 'a']),
    oneOf('\u0000', '\u0000\u0000', '\u0000'.repeat(4), '\u0000'.repeat(260), 'a\u0000'),
    oneOf('\ud800', '\ud801', '\udc00', '\udc00\ud800', '\ufffd', '😀', '😁', '👩‍🚀', '👩'),
    oneOf('é', 'e\u0301', 'ÿ', 'Ā', 'aÿ', 'aĀ', 'abcd', '\u6261\u6463', 'ab\u0000\u0000', '\u6261'),
    oneOf(long('a'), long('b'), long('ÿ'), long('Ā'), long('ā'), 'k'.repeat(1_023)),
    oneOf(`a${long('')}`, `Ā${long('')}`, `ā${long('')}`, 'k'.repeat(256), 'k'.repeat(512)),
  ].flat();

  it('keys of any characters have separate counters', async () => {
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock: new ManualClock(1_000) });
    for (const key of keys) {
      const decision = limiter.checkSync('p', key);
      expect(decision, JSON.stringify(key)).toMatchObject({ allowed: true, remaining: 0 });
      expect(decision.key).toBe(typeof key === 'string' ? key : joinKey(...key));
      expect((await limiter.check('p', key)).allowed, JSON.stringify(key)).toBe(false);
    }
    expect(limiter.size).toBe(keys.length);
    for (const key of keys) limiter.resetSync('p', key);
    expect(limiter.size).toBe(0);
  });

  it('a check may have 64 keys', () => {
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock: new ManualClock(1_000) });
    const limits = Array.from(
      { length: 64 },
      (_, place) => ({ policy: 'p', key: [place] }) as const,
    );
    expect(limiter.checkSync(limits)).toMatchObject({ allowed: true, remaining: 0 });
    expect(limiter.size).toBe(64);
    expect(limiter.checkSync(limits).limits.filter(({ allowed }) => allowed)).toEqual([]);
  });
});
