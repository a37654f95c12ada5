/** The limits of a request, for all spellings of its path. */
import { keyText } from 'sluice/engine';
import { describe, expect, it } from 'vitest';
import type { KeyPart, RuleConfig } from '../../src/config/model.ts';
import { RequestRules } from '../../src/rules/request-rules.ts';
import {
  ADDRESS,
  attributesOf,
  type Match,
  part,
  rule,
  type TestRequest,
} from './request-builder.ts';

/** Returns the names of the policies that apply to a request. */
const policiesFor = (
  rules: readonly RuleConfig[],
  request: TestRequest,
): readonly string[] | undefined =>
  new RequestRules(rules).limitsFor(attributesOf(request))?.map(({ policy }) => policy);

describe('RequestRules', () => {
  it('the first request rule that matches applies', () => {
    const rules = [
      rule('login', { path: ['/login'] }),
      rule('writes', { method: ['POST', 'PUT'] }),
      rule('rest', {}),
    ];
    expect(policiesFor(rules, { path: '/login', method: 'POST' })).toEqual(['login']);
    expect(policiesFor(rules, { path: '/other', method: 'POST' })).toEqual(['writes']);
    expect(policiesFor(rules, { path: '/other' })).toEqual(['rest']);
  });

  it('limitsFor returns undefined without a rule, and [] without limits', () => {
    const rules = [rule('health', { path: ['/health'] }, { limits: [] })];
    expect(policiesFor(rules, { path: '/health' })).toEqual([]);
    expect(policiesFor(rules, { path: '/other' })).toBeUndefined();
    expect(policiesFor([], {})).toBeUndefined();
  });

  it('several rules with continue apply together', () => {
    const rules = [
      rule('all', {}, { goOn: true }),
      rule('api', { path: ['/api/**'] }, { goOn: true }),
      rule('posts', { path: ['/api/posts'] }),
      rule('never', {}),
    ];
    expect(policiesFor(rules, { path: '/api/posts' })).toEqual(['all', 'api', 'posts']);
    expect(policiesFor(rules, { path: '/api/users' })).toEqual(['all', 'api', 'never']);
    expect(policiesFor(rules.slice(0, 2), { path: '/other' })).toEqual(['all']);
  });

  it('a repeated limit of one key applies once, with the cost of the first rule', () => {
    const limit = { policy: 'shared', key: [ADDRESS] };
    const rules = [
      rule('a', {}, { goOn: true, limits: [{ ...limit, cost: 3 }] }),
      rule('b', {}, { limits: [limit, { policy: 'shared', key: [part({ from: 'path' })] }] }),
    ];
    expect(new RequestRules(rules).limitsFor(attributesOf({}))).toEqual([
      { policy: 'shared', key: 'address:192.0.2.1', cost: 3 },
      { policy: 'shared', key: 'path:/' },
    ]);
  });

  it('keys of one part differ from keys of several parts', () => {
    const keys: readonly KeyPart[][] = [
      [part({ from: 'text', text: 'a:b' })],
      [part({ from: 'text', text: 'a' }), part({ from: 'text', text: 'b' })],
      [part({ from: 'text', text: 'a\\b' })],
      [part({ from: 'text', text: 'ab' })],
      [part({ from: 'text', text: 'ab' })],
    ];
    const limits = keys.map((key) => ({ policy: 'shared', key }));
    const found = new RequestRules([rule('r', {}, { limits })]).limitsFor(attributesOf({}))!;
    expect(found.map(({ key }) => keyText(key))).toEqual([
      ...['text:a\\:b', 'text:a:text:b', 'text:a\\\\b', 'text:ab'],
    ]);
  });

  it('a request with more than 64 limits is rejected', () => {
    const limits = Array.from({ length: 40 }, (_, at) => ({ policy: `p${at}`, key: [ADDRESS] }));
    const others = limits.map(({ policy, key }) => ({ policy: `q${policy}`, key }));
    const rules = [rule('a', {}, { limits, goOn: true }), rule('b', {}, { limits: others })];
    expect(() => policiesFor(rules, {})).toThrow('Expected rules with at most 64 limits, got more');
    expect(policiesFor([rules[0]], {})).toHaveLength(40);
  });

  it('rules for descriptors do not apply to requests', () => {
    const match = { kind: 'descriptor', domain: 'd', entries: {} } as const;
    expect(policiesFor([{ ...rule('d', {}), match }], {})).toBeUndefined();
  });

  it('rules with exact paths, patterns and no path apply in order', () => {
    const rules = [
      rule('pattern', { path: ['/a/*/c'], method: ['POST'] }),
      rule('exact', { path: ['/a/b/c', '/x'] }),
      rule('any', { host: ['other.example'] }),
      rule('below', { path: ['/a/**'] }),
      rule('end', { path: ['/**/c'] }),
    ];
    expect(policiesFor(rules, { path: '/a/b/c', method: 'POST' })).toEqual(['pattern']);
    expect(policiesFor(rules, { path: '/a/b/c' })).toEqual(['exact']);
    expect(policiesFor(rules, { path: '/a/d/c' })).toEqual(['below']);
    expect(policiesFor(rules, { path: '/a', host: 'other.example' })).toEqual(['any']);
    expect(policiesFor(rules, { path: '/a' })).toEqual(['below']);
    expect(policiesFor(rules, { path: '/x/y/c' })).toEqual(['end']);
    expect(policiesFor(rules, { path: '/c' })).toEqual(['end']);
    expect(policiesFor(rules, { path: '/ab' })).toBeUndefined();
  });

  it('limitsFor returns the costs and operations of limits', () => {
    const limits = [
      { policy: 'a', key: [ADDRESS], cost: 5 },
      { policy: 'b', key: [ADDRESS], operation: 'search' },
    ];
    const found = new RequestRules([rule('r', {}, { limits })]).limitsFor(attributesOf({}))!;
    expect(found[0]).toMatchObject({ cost: 5 });
    expect(found[1]).toMatchObject({ operation: 'search' });
    expect(found[1].cost).toBeUndefined();
  });
});

describe('rules with caseSensitive', () => {
  const rules = [
    rule('free', { path: ['/health', '/Public/**'], caseSensitive: true }, { limits: [] }),
    rule('rest', {}),
  ];

  it.each(['/health', '/health/', '/he%61lth', '/Public/x', '/Public'])(
    'a case-sensitive rule matches %s',
    (path) => {
      expect(policiesFor(rules, { path })).toEqual([]);
    },
  );

  it.each(['/HEALTH', '/he%41lth', '/public/x', '/x/../HEALTH', '//Health', '/x%2f..%2fhealth'])(
    'a case-sensitive rule does not match %s',
    (path) => {
      expect(policiesFor(rules, { path })).toEqual(['rest']);
    },
  );

  it('other rules stay case-insensitive beside a case-sensitive rule', () => {
    const both = [rule('login', { path: ['/login'] }), ...rules];
    const found = ['/LOGIN', '/x/..%2fLogin', '/login'].map((path) => policiesFor(both, { path }));
    for (const each of found) expect(each).toContain('login');
  });
});

describe('matching of methods, hosts and headers', () => {
  const matches = (match: Match, request: TestRequest): boolean =>
    policiesFor([rule('r', match)], request) !== undefined;

  it('rules match methods in any case, and GET also matches HEAD', () => {
    expect(matches({ method: ['post'] }, { method: 'POST' })).toBe(true);
    expect(matches({ method: ['POST'] }, { method: 'post' })).toBe(true);
    expect(matches({ method: ['POST'] }, { method: 'GET' })).toBe(false);
    expect(matches({ method: ['GET'] }, { method: 'HEAD' })).toBe(true);
    expect(matches({ method: ['HEAD'] }, { method: 'GET' })).toBe(false);
    expect(matches({ method: ['*'] }, { method: 'PURGE' })).toBe(true);
  });

  it.each([
    ['example.com', 'example.com', true],
    ['example.com', 'EXAMPLE.com:8443', true],
    ['example.com', 'example.com.', true],
    ['Example.com', 'example.com', true],
    ['example.com', 'api.example.com', false],
    ['*.example.com', 'a.b.example.com:80', true],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'example.com.evil', false],
    ['[::1]', '[::1]:8080', true],
    ['example.com', '', false],
  ])('matching the host pattern %s with %j returns %s', (pattern, host, expected) => {
    expect(matches({ host: [pattern] }, { host })).toBe(expected);
  });

  it('a rule matches only if all its headers match', () => {
    const headers = { 'x-plan': 'free*', 'x-beta': '*' };
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2', 'x-beta': '' } })).toBe(true);
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2' } })).toBe(false);
    expect(matches({ headers }, { headers: { 'x-plan': 'paid', 'x-beta': '1' } })).toBe(false);
    expect(matches({ headers: { 'X-Plan': 'a' } }, { headers: { 'x-plan': 'a' } })).toBe(true);
  });
});
