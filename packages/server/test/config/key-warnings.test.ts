/** Warnings about keys that clients can make up. */
import { describe, expect, it } from 'vitest';
import { problemText } from '../../src/config/model.ts';
import { readConfig } from '../../src/config/read.ts';

const POLICIES = 'policies: { p: 5/1m, q: 9/1m }\n';

const warningsOf = (text: string): readonly string[] =>
  readConfig([{ path: 'f.yaml', text: POLICIES + text }]).warnings.map(problemText);

describe('warnings about keys of limits', () => {
  it.each([
    'header:x-api-key | address',
    'header:x-api-key',
    'cookie:session',
    'query:api_key',
    '[address, header:x-api-key]',
    '[path, cookie:session | address]',
  ])('the key %s without a limit by address causes a warning at the key', (key) => {
    const [first, ...others] = warningsOf(
      `rules:\n  - limits: [{ policy: p, key: ${`"${key}"`.replace(/^"\[(.*)\]"$/, '[$1]')} }]\n`,
    );
    expect(first).toMatch(
      /^f\.yaml:3:\d+: Expected also a limit with key `address` for the requests of `key` of /,
    );
    expect(others).toEqual([]);
  });

  it.each(['address', '[address, path]', 'path', 'host', 'text:all', '[method, address]'])(
    'a limit with the key %s causes no warning',
    (key) => {
      expect(warningsOf(`rules:\n  - limits: [{ policy: p, key: ${key} }]\n`)).toEqual([]);
    },
  );

  const KEYED = '{ policy: p, key: header:x | address }';

  it.each([
    ['in the same rule', `  - limits: [{ policy: q }, ${KEYED}]\n`],
    [
      'in an earlier rule for all requests',
      `  - { limits: [{ policy: q }], continue: true }\n  - limits: [${KEYED}]\n`,
    ],
    [
      'in a later rule for all requests',
      `  - { limits: [${KEYED}], continue: true }\n  - limits: [{ policy: q }]\n`,
    ],
  ])('a key of clients causes no warning if there is a limit by address %s', (_, rules) => {
    expect(warningsOf(`rules:\n${rules}`)).toEqual([]);
  });

  it.each([
    [
      'in an earlier rule without continue',
      `  - limits: [{ policy: q }]\n  - limits: [${KEYED}]\n`,
    ],
    [
      'in a rule for a path',
      `  - {match: {path: /a}, limits: [{ policy: q }], continue: true}\n  - limits: [${KEYED}]`,
    ],
    ['in a rule that is never reached', `  - limits: [${KEYED}]\n  - limits: [{ policy: q }]\n`],
    [
      'combined with a value that clients choose',
      `  - limits: [{ policy: q, key: [address, query:y] }, ${KEYED}]\n`,
    ],
  ])('a key of clients causes a warning if the only limit by address is %s', (_, rules) => {
    expect(warningsOf(`rules:\n${rules}`).length).toBeGreaterThan(0);
  });

  it('keys of descriptors cause no warning', () => {
    const match = 'match: { domain: d, descriptor: { user: "*" } }';
    expect(warningsOf(`rules:\n  - { ${match}, limits: [{ policy: p }] }\n`)).toEqual([]);
  });
});

describe('warnings about keys of overrides', () => {
  const overridden = (key: string, rules = '  - limits: [{ policy: p }]\n'): readonly string[] =>
    warningsOf(`rules:\n${rules}overrides: [{ policy: p, key: "${key}", limit: 9 }]\n`);

  it.each(['192.0.2.1', '192.0.2.*', '10.*', '2001\\\\:db8\\\\:\\\\:/64', '::1'])(
    'an override for the bare address %s causes a warning',
    (key) => {
      expect(overridden(key)).toEqual([
        expect.stringMatching(/Expected `address:.*begin with their/),
      ]);
    },
  );

  it.each(['address:192.0.2.1', 'header:x-user:ada', 'ada', '*', 'team:7'])(
    'an override for the key %s causes no warning',
    (key) => {
      expect(overridden(key)).toEqual([]);
    },
  );

  it('an override causes no warning if no rule counts by address', () => {
    expect(overridden('192.0.2.1', '  - limits: [{ policy: q }]\n')).toEqual([]);
  });
});
