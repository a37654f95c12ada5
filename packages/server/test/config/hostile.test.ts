/** Hostile files: all are rejected, in bounded time. */
import { describe, expect, it } from 'vitest';
import { problemsOfText, read } from './fixtures.ts';

const LEVELS = 'sluice.yaml:1:1: Expected at most 200 levels, got more';
const VALUES = 'sluice.yaml:1:1: Expected at most 1000000 values, aliases counted, got more';
const TOKENS =
  'sluice.yaml:1:1: Expected at most 1000000 names, values and punctuation marks, got more';
const MEGABYTE = 2 ** 20;
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const POLICIES = isFull ? 100_000 : 10_000;
/** Bytes of a file that is rejected by other rules than the number of tokens. */
const BYTES = isFull ? MEGABYTE : MEGABYTE / 8;

describe('deep nesting', () => {
  it.each(['[', '{', '{a: ', '- ', '? ', '[{a: '])(
    'deep nesting of %j in a configuration file is rejected',
    (opening) => {
      expect(problemsOfText(opening.repeat(BYTES / opening.length))).toBe(LEVELS);
    },
  );

  it('deep nesting by indented lines in a configuration file is rejected', () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `${' '.repeat(index)}a:`);
    expect(problemsOfText(lines.join('\n'))).toContain('Expected at most 200 levels, got more');
  });

  it('up to 100 levels of descriptors are accepted', () => {
    const nested = (depth: number): string =>
      `domain: a\ndescriptors: ${'[{ key: a, descriptors: '.repeat(depth)}[]${'}]'.repeat(depth)}`;
    expect(problemsOfText(nested(90))).toBe('');
    expect(problemsOfText(nested(101))).toBe(LEVELS);
  });

  it('brackets in text and comments of a file do not count as levels', () => {
    const lines = Array.from({ length: 500 }, (_, index) => `  p${index}: 1/1s # [[[{{{ - -`);
    expect(read(`policies:\n${lines.join('\n')}`).policies).toHaveLength(500);
    const descriptors = Array.from({ length: 500 }, (_, index) => `- { key: "[{${index}" }`);
    const [domain] = read(`domain: a\ndescriptors:\n${descriptors.join('\n')}`).domains;
    expect(domain.descriptors).toHaveLength(500);
  });
});

describe('aliases', () => {
  const layers = (first: string, layer: (index: number) => string, count: number): string =>
    [first, ...Array.from({ length: count }, (_, index) => layer(index + 1))].join('\n');
  const nine = (name: string): string => Array(9).fill(`*${name}`).join(', ');

  it('aliases to aliases that expand to more than 1,000,000 values are rejected', () => {
    const text = layers(
      'domain: a\ndescriptors:\n- { key: k0, metadata: { m: &m0 [x, x, x, x, x, x, x, x, x] } }',
      (index) => `- { key: k${index}, metadata: { m: &m${index} [${nine(`m${index - 1}`)}] } }`,
      12,
    );
    expect(problemsOfText(text)).toBe(VALUES);
  });

  it('merged aliases that expand to more than 1,000,000 values are rejected', () => {
    const text = layers(
      'policies:\n  p0: &p0 { limit: 1, window: 1s }',
      (index) => `  p${index}: &p${index} { <<: [${nine(`p${index - 1}`)}] }`,
      12,
    );
    expect(problemsOfText(text)).toBe(VALUES);
  });

  it.each([
    ['policies: &p { a: *p }', /to have|Expected only|to be/],
    ['policies: &p\n  <<: *p\n', /levels/],
    ['domain: &d a\ndescriptors: &x\n  - { key: a, metadata: { again: *x } }', /levels/],
    ['rules: &r [{ limits: *r }]\npolicies: { a: 1/1s }', /Expected only/],
  ])('a configuration file with the circular aliases %j is rejected', (text, problem) => {
    expect(problemsOfText(text)).toMatch(problem);
  });
});

describe('large invalid files', () => {
  it.each([
    ['zeros', '\0'],
    ['spaces', ' '],
    ['tabs', '\t'],
    ['colons', ':'],
    ['words', 'a '],
    ['single quotes', "'"],
    ['strings without end', '"\\'],
    ['block scalars', '|\n'],
    ['documents', '---\n'],
    ['ends of documents', '...\n'],
  ])('a large configuration file of %s is rejected in bounded time', (_name, piece) => {
    expect(problemsOfText(piece.repeat(BYTES / piece.length))).toMatch(
      /^sluice\.yaml:\d+:\d+: Expected/,
    );
  });

  it.each([
    ['lines', '\n'],
    ['comments', '#\n'],
    ['commas', ','],
  ])(
    'a configuration file of two megabytes of %s is rejected by its number of tokens',
    (_name, piece) => {
      expect(problemsOfText(`[${piece.repeat((2 * MEGABYTE) / piece.length)}`)).toBe(TOKENS);
    },
  );

  it(`a configuration file of ${BYTES} bytes of random text is rejected`, () => {
    let state = 42;
    const noise = (): string => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return String.fromCharCode(state % 7 === 0 ? 10 : 32 + (state % 95));
    };
    const text = Array.from({ length: BYTES }, noise).join('');
    expect(problemsOfText(text)).toMatch(/^sluice\.yaml:\d+:\d+: Expected/);
  });

  it(`a configuration file with ${POLICIES} policies is parsed in linear time`, () => {
    const parse = (count: number): number => {
      const keys = Array.from({ length: count }, (_, index) => `  p${index}: 1/1s`);
      const start = process.cpuUsage();
      expect(read(`policies:\n${keys.join('\n')}`).policies).toHaveLength(count);
      return process.cpuUsage(start).user;
    };
    // Quadratic time would be 100 times as long.
    expect(parse(POLICIES) / parse(POLICIES / 10)).toBeLessThan(50);
  });
});

describe('names of Object.prototype', () => {
  it('names of Object.prototype are accepted as policy names', () => {
    const text = 'policies: { __proto__: 1/1s, constructor: 2/1s, toString: 3/1s }';
    const names = read(text).policies.map(({ name }) => name);
    expect(names).toEqual(['__proto__', 'constructor', 'toString']);
    expect(({} as Record<string, unknown>).limit).toBeUndefined();
  });

  it('names of Object.prototype are unknown if the file does not declare them', () => {
    expect(
      problemsOfText('policies: { a: 1/1s }\nrules: [{ limits: [{ policy: toString }] }]'),
    ).toBe(
      'sluice.yaml:2:30: Expected `policy` of limit 1 of rule 1 to be a policy, one of a, ' +
        'got `"toString"`',
    );
    expect(
      problemsOfText(
        'domain: a\ndescriptors: [{ key: b, rate_limit: { unit: toString, limit: 1 } }]',
      ),
    ).toContain('to be one of second, minute');
  });

  it('names of Object.prototype are accepted in descriptors and headers', () => {
    const text = [
      'policies: { a: 1/1s }',
      'rules:',
      '  - match: { domain: d, descriptor: { __proto__: x } }',
      '    limits: [{ policy: a }]',
      '  - match: { headers: { __proto__: x } }',
      '    limits: [{ policy: a }]',
    ];
    const [first, second] = read(text.join('\n')).rules;
    const expected = Object.fromEntries([['__proto__', 'x']]);
    expect(first.match).toEqual({ kind: 'descriptor', domain: 'd', entries: expected });
    expect(first.limits[0].key).toEqual([{ sources: [{ from: 'descriptor', name: '__proto__' }] }]);
    expect(second.match).toEqual({ kind: 'request', headers: expected });
  });
});

describe('YAML 1.1', () => {
  it('a file with a YAML 1.1 directive is parsed as YAML 1.2', () => {
    const text = '%YAML 1.1\n---\npolicies: { a: { limit: 010, window: 1s } }\n';
    expect(read(text).policies[0].options.limit).toBe(10);
    expect(problemsOfText('policies: { a: { limit: 1, window: 1s, shadow: on } }')).toContain(
      'to be true or false, got `"on"`',
    );
  });

  it.each(['!!binary aGk=', '!!set { a }', '!!omap [a: 1]', '!!js/function "x"', '!<tag:x> 1'])(
    'a configuration file with the YAML tag in %s is rejected',
    (value) => {
      expect(problemsOfText(`policies: { a: ${value} }`)).toMatch(/^sluice\.yaml:1:16: .*tag/);
    },
  );
});
