import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config/read.ts';

const POLICIES = Array.from({ length: 70 }, (_, at) => `  p${at}: 5/1m`).join('\n');

/** Returns the problems of rules with one limit each. All but the last have `continue`. */
function problemsOf(...matches: readonly string[]): string {
  const rules = matches.map((match, at) => {
    const goOn = at < matches.length - 1 ? 'continue: true, ' : '';
    return `  - { ${goOn}match: ${match}, limits: [{ policy: p${at}, key: KEY }] }`;
  });
  const isDescriptor = matches[0].includes('descriptor');
  const text = rules.join('\n').replaceAll('KEY', isDescriptor ? 'descriptor:user' : 'address');
  try {
    readConfig([{ path: 'a.yaml', text: `policies:\n${POLICIES}\nrules:\n${text}\n` }]);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

const METHODS = ['GET', 'POST', 'PUT', 'DELETE'];

const times = (count: number, match: (at: number) => string): readonly string[] =>
  Array.from({ length: count }, (_, at) => match(at));

const TOO_MANY = /^a\.yaml:\d+:5: Expected at most 64 limits for one request, got more with this/;

describe('more than 64 limits for one request', () => {
  test.each([
    ['all requests', () => '{}'],
    ['one path', () => '{ path: /a }'],
    ['paths below each other', (at: number) => `{ path: "/a${'/b'.repeat(at % 3)}/**" }`],
    [
      'one path by several patterns',
      (at: number) => (at % 2 ? '{ path: /a/b }' : '{ path: "/a/*" }'),
    ],
    ['different headers', (at: number) => `{ headers: { x-${at}: "*" } }`],
    [
      'paths, methods and hosts',
      (at: number) => ['{ path: /a }', '{ method: GET }', '{ host: h }'][at % 3],
    ],
    ['a descriptor', () => '{ domain: d, descriptor: { user: "a*" } }'],
  ])('65 rules with continue that match %s are rejected', (_description, match) => {
    expect(problemsOf(...times(65, match))).toMatch(TOO_MANY);
    expect(problemsOf(...times(64, match))).toBe('');
  });

  test.each([
    ['different paths', (at: number) => `{ path: "/a${at}/**" }`],
    ['different methods', (at: number) => `{ method: ${METHODS[at % METHODS.length]} }`],
    ['different hosts', (at: number) => `{ host: h${at} }`],
    ['different values of a header', (at: number) => `{ headers: { x: "${at}" } }`],
    ['different descriptors', (at: number) => `{ domain: d, descriptor: { user: u${at} } }`],
  ])('70 rules with continue that match %s are accepted', (_description, match) => {
    expect(problemsOf(...times(70, match))).toBe('');
  });

  test('the rule that exceeds the maximum of 64 limits is reported', () => {
    const place = 2 + 70 + 65;
    expect(problemsOf(...times(70, () => '{}'))).toMatch(new RegExp(`^a\\.yaml:${place}:5: `));
  });
});
