/** Warnings about keys that clients can make up. */
import { describe, expect, it } from 'vitest';
import { problemText } from '../../src/config/model.ts';
import { readConfig } from '../../src/config/read.ts';

const POLICIES = 'policies: { p: 5/1m, q: 9/1m }\n';

const warningsOf = (text: string): readonly string[] =>
  readConfig([{ path: 'f.yaml', text: POLICIES + text }]).warnings.map(problemText);

describe('a warning about a limit', () => {
  it.each([
    'header:x-api-key | address',
    'header:x-api-key',
    'cookie:session',
    'query:api_key',
    '[address, header:x-api-key]',
    '[path, cookie:session | address]',
  ])('is given for the key %s without others, at its position', (key) => {
    const [first, ...others] = warningsOf(
      `rules:\n  - limits: [{ policy: p, key: ${`"${key}"`.replace(/^"\[(.*)\]"$/, '[$1]')} }]\n`,
    );
    expect(first).toMatch(/^f\.yaml:3:\d+: Expected a limit with key `address` beside `key` of /);
    expect(others).toEqual([]);
  });

  it.each(['address', '[address, path]', 'path', 'host', 'text:all', '[method, address]'])(
    'is not given for the key %s',
    (key) => {
      expect(warningsOf(`rules:\n  - limits: [{ policy: p, key: ${key} }]\n`)).toEqual([]);
    },
  );

  const KEYED = '{ policy: p, key: header:x | address }';

  it.each([
    ['in the same rule', `  - limits: [{ policy: q }, ${KEYED}]\n`],
    [
      'in a rule for all before it',
      `  - { limits: [{ policy: q }], continue: true }\n  - limits: [${KEYED}]\n`,
    ],
    [
      'in a rule for all after it',
      `  - { limits: [${KEYED}], continue: true }\n  - limits: [{ policy: q }]\n`,
    ],
  ])('is not given with a limit by address %s', (_, rules) => {
    expect(warningsOf(`rules:\n${rules}`)).toEqual([]);
  });

  it.each([
    ['in a rule that ends the search', `  - limits: [{ policy: q }]\n  - limits: [${KEYED}]\n`],
    [
      'in a rule for a path',
      `  - {match: {path: /a}, limits: [{ policy: q }], continue: true}\n  - limits: [${KEYED}]`,
    ],
    ['that is not reached', `  - limits: [${KEYED}]\n  - limits: [{ policy: q }]\n`],
    [
      'with a part that clients choose',
      `  - limits: [{ policy: q, key: [address, query:y] }, ${KEYED}]\n`,
    ],
  ])('is given with a limit by address %s', (_, rules) => {
    expect(warningsOf(`rules:\n${rules}`).length).toBeGreaterThan(0);
  });

  it('is not given for descriptors', () => {
    const match = 'match: { domain: d, descriptor: { user: "*" } }';
    expect(warningsOf(`rules:\n  - { ${match}, limits: [{ policy: p }] }\n`)).toEqual([]);
  });
});

describe('a warning about an override', () => {
  const overridden = (key: string, rules = '  - limits: [{ policy: p }]\n'): readonly string[] =>
    warningsOf(`rules:\n${rules}overrides: [{ policy: p, key: "${key}", limit: 9 }]\n`);

  it.each(['192.0.2.1', '192.0.2.*', '10.*', '2001\\\\:db8\\\\:\\\\:/64', '::1'])(
    'is given for the bare address %s',
    (key) => {
      expect(overridden(key)).toEqual([
        expect.stringMatching(/Expected `address:.*begin with their/),
      ]);
    },
  );

  it.each(['address:192.0.2.1', 'header:x-user:ada', 'ada', '*', 'team:7'])(
    'is not given for %s',
    (key) => {
      expect(overridden(key)).toEqual([]);
    },
  );

  it('is not given if no rule counts by address', () => {
    expect(overridden('192.0.2.1', '  - limits: [{ policy: q }]\n')).toEqual([]);
  });
});
