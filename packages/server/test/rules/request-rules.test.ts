/** Which limits a request has, however it spells what it asks for. */
import fc from 'fast-check';
import { keyText } from 'sluice/engine';
import { describe, expect, it } from 'vitest';
import type { KeyPart, KeySource, RequestMatch, RuleConfig } from '../../src/config/model.ts';
import type { RequestFacts } from '../../src/rules/request-facts.ts';
import { RequestRules } from '../../src/rules/request-rules.ts';

const part = (...sources: readonly KeySource[]): KeyPart => ({ sources });
const ADDRESS = part({ from: 'address' });

type Match = Omit<RequestMatch, 'kind'>;

const rule = (name: string, match: Match, more: Partial<RuleConfig> = {}): RuleConfig => ({
  name,
  match: { kind: 'request', ...match },
  limits: [{ policy: name, key: [ADDRESS] }],
  goOn: false,
  ...more,
});

interface Asked {
  readonly method?: string;
  readonly path?: string;
  readonly search?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly address?: () => string;
}

const factsOf = ({ headers = {}, ...asked }: Asked): RequestFacts => ({
  method: 'GET',
  path: '/',
  search: '',
  host: 'example.com',
  address: () => '192.0.2.1',
  header: (name) => headers[name],
  ...asked,
});

/** The names of the policies that a request is held to. */
const policiesFor = (rules: readonly RuleConfig[], asked: Asked): readonly string[] | undefined =>
  new RequestRules(rules).limitsFor(factsOf(asked))?.map(({ policy }) => policy);

/** The parts of the key that a request has. */
function keyFor(parts: readonly KeyPart[], asked: Asked): readonly string[] {
  const rules = [rule('all', {}, { limits: [{ policy: 'all', key: parts }] })];
  const { key } = new RequestRules(rules).limitsFor(factsOf(asked))![0];
  return typeof key === 'string' ? [key] : (key as readonly string[]);
}

describe('which rule', () => {
  it('is the first that matches', () => {
    const rules = [
      rule('login', { path: ['/login'] }),
      rule('writes', { method: ['POST', 'PUT'] }),
      rule('rest', {}),
    ];
    expect(policiesFor(rules, { path: '/login', method: 'POST' })).toEqual(['login']);
    expect(policiesFor(rules, { path: '/other', method: 'POST' })).toEqual(['writes']);
    expect(policiesFor(rules, { path: '/other' })).toEqual(['rest']);
  });

  it('is none if none matches, which is something else than no limits', () => {
    const rules = [rule('health', { path: ['/health'] }, { limits: [] })];
    expect(policiesFor(rules, { path: '/health' })).toEqual([]);
    expect(policiesFor(rules, { path: '/other' })).toBeUndefined();
    expect(policiesFor([], {})).toBeUndefined();
  });

  it('is several if one says to go on', () => {
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

  it('has the same limit for the same key once, as the first rule has it', () => {
    const limit = { policy: 'shared', key: [ADDRESS] };
    const rules = [
      rule('a', {}, { goOn: true, limits: [{ ...limit, cost: 3 }] }),
      rule('b', {}, { limits: [limit, { policy: 'shared', key: [part({ from: 'path' })] }] }),
    ];
    expect(new RequestRules(rules).limitsFor(factsOf({}))).toEqual([
      { policy: 'shared', key: '192.0.2.1', cost: 3 },
      { policy: 'shared', key: '/' },
    ]);
  });

  it('tells keys of one part and of several apart, whatever is in them', () => {
    const keys: readonly KeyPart[][] = [
      [part({ from: 'text', text: 'a:b' })],
      [part({ from: 'text', text: 'a' }), part({ from: 'text', text: 'b' })],
      [part({ from: 'text', text: 'a\\b' })],
      [part({ from: 'text', text: 'ab' })],
      [part({ from: 'text', text: 'ab' })],
    ];
    const limits = keys.map((key) => ({ policy: 'shared', key }));
    const found = new RequestRules([rule('r', {}, { limits })]).limitsFor(factsOf({}))!;
    expect(found.map(({ key }) => keyText(key))).toEqual(['a\\:b', 'a:b', 'a\\\\b', 'ab']);
  });

  it('has at most as many limits as a check can have', () => {
    const limits = Array.from({ length: 40 }, (_, at) => ({ policy: `p${at}`, key: [ADDRESS] }));
    const others = limits.map(({ policy, key }) => ({ policy: `q${policy}`, key }));
    const rules = [rule('a', {}, { limits, goOn: true }), rule('b', {}, { limits: others })];
    expect(policiesFor(rules, {})).toHaveLength(64);
  });

  it('is never one about descriptors', () => {
    const match = { kind: 'descriptor', domain: 'd', entries: {} } as const;
    expect(policiesFor([{ ...rule('d', {}), match }], {})).toBeUndefined();
  });

  it('keeps its order where whole paths, patterns and rules without a path are mixed', () => {
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

  it('passes on costs and operations', () => {
    const limits = [
      { policy: 'a', key: [ADDRESS], cost: 5 },
      { policy: 'b', key: [ADDRESS], operation: 'search' },
    ];
    const found = new RequestRules([rule('r', {}, { limits })]).limitsFor(factsOf({}))!;
    expect(found[0]).toMatchObject({ cost: 5 });
    expect(found[1]).toMatchObject({ operation: 'search' });
    expect(found[1].cost).toBeUndefined();
  });
});

describe('what a rule asks for', () => {
  const matches = (match: Match, asked: Asked): boolean =>
    policiesFor([rule('r', match)], asked) !== undefined;

  it('is a method, in any case; what is said of GET holds for HEAD', () => {
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
  ])('is a host: %s and %s', (pattern, host, expected) => {
    expect(matches({ host: [pattern] }, { host })).toBe(expected);
  });

  it('is headers, all of them', () => {
    const headers = { 'x-plan': 'free*', 'x-beta': '*' };
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2', 'x-beta': '' } })).toBe(true);
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2' } })).toBe(false);
    expect(matches({ headers }, { headers: { 'x-plan': 'paid', 'x-beta': '1' } })).toBe(false);
    expect(matches({ headers: { 'X-Plan': 'a' } }, { headers: { 'x-plan': 'a' } })).toBe(true);
  });
});

describe('the key', () => {
  it('has a part for each that is asked for', () => {
    const parts = [
      part({ from: 'text', text: 'v1' }),
      part({ from: 'method' }),
      part({ from: 'host' }),
      part({ from: 'path' }),
      ADDRESS,
      part({ from: 'header', name: 'X-Api-Key' }),
      part({ from: 'cookie', name: 'session' }),
      part({ from: 'query', name: 'q' }),
    ];
    const asked = {
      method: 'post',
      host: 'Example.com:80',
      path: '/A//b',
      search: 'p=1&q=x%20y&q=2',
      headers: { 'x-api-key': 'k', cookie: 'a=1; session="s=2"; session=3' },
    };
    expect(keyFor(parts, asked)).toEqual([
      ...['v1', 'POST', 'example.com', '/a/b', '192.0.2.1', 'k', 's=2', 'x y'],
    ]);
  });

  it('has the first source that has something', () => {
    const sources: KeySource[] = [
      { from: 'header', name: 'x-user' },
      { from: 'cookie', name: 'user' },
      { from: 'descriptor', name: 'user' },
      { from: 'address' },
    ];
    const key = (headers: Record<string, string>) => keyFor([part(...sources)], { headers });
    expect(key({ 'x-user': 'ada', cookie: 'user=bob' })).toEqual(['ada']);
    expect(key({ 'x-user': '', cookie: 'user=bob' })).toEqual(['bob']);
    expect(key({ cookie: 'user=; users=x' })).toEqual(['192.0.2.1']);
  });

  it('is never the address of another client that a header names', () => {
    const either = part({ from: 'header', name: 'x-api-key' }, { from: 'address' });
    const key = (value: string) => keyFor([either], { headers: { 'x-api-key': value } });
    for (const pretence of ['192.0.2.1', '2001:db8::/64', '::1', '2001:DB8:1:2:3:4:5:6']) {
      expect(key(pretence)).toEqual([`header=${pretence}`]);
    }
    expect(key('192.0.2.1x')).toEqual(['192.0.2.1x']);
    expect(key('cafe')).toEqual(['cafe']);
    expect(key('')).toEqual(['192.0.2.1']);
  });

  it('has an empty part for what is missing, and is never empty itself', () => {
    const user = part({ from: 'header', name: 'x-user' });
    expect(keyFor([user, part({ from: 'query', name: 'q' })], { search: 'x=1' })).toEqual(['', '']);
    expect(keyFor([ADDRESS, user], {})).toEqual(['192.0.2.1', '']);
    // One that is missing and nothing else: all who lack it share a key that nobody can have.
    expect(keyText(keyFor([user], {}))).toBe(':');
    expect(keyText(keyFor([user], { headers: { 'x-user': ':' } }))).toBe('\\:');
    expect(keyText(keyFor([], {}))).toBe(':');
  });

  it('does not ask for an address that no rule needs', () => {
    const address = () => {
      throw new Error('asked');
    };
    expect(keyFor([part({ from: 'text', text: 'all' })], { address })).toEqual(['all']);
    expect(() => keyFor([ADDRESS], { address })).toThrow('asked');
  });

  it.each(['', ';', '=', 'session', '=;=', 'session=%zz', '"', 'x="session=1'])(
    'takes the cookies %j',
    (cookie) => {
      const [key] = keyFor([part({ from: 'cookie', name: 'session' })], { headers: { cookie } });
      expect(key).toBe(cookie === 'session=%zz' ? '%zz' : '');
    },
  );

  it.each(['%', '%zz', 'q=%C3', '&&=&', 'q=%00'])('takes the query %j', (search) => {
    const [key] = keyFor([part({ from: 'query', name: 'q' })], { search });
    expect(typeof key).toBe('string');
  });

  it('has hashes for parts that are too long together, always the same ones', () => {
    const user = part({ from: 'header', name: 'x-user' });
    const key = (value: string) => keyFor([ADDRESS, user], { headers: { 'x-user': value } });
    expect(key('a'.repeat(1000))).toEqual(['192.0.2.1', 'a'.repeat(1000)]);
    const [address, hash] = key('a'.repeat(5000));
    expect(address).toBe('192.0.2.1');
    expect(hash).toMatch(/^[\w-]{43}$/);
    expect(key('a'.repeat(5000))).toEqual([address, hash]);
    expect(key('a'.repeat(5001))).not.toEqual([address, hash]);
    // Escaping makes it longer than it looks.
    expect(key(':'.repeat(600))[1]).toMatch(/^[\w-]{43}$/);
  });

  it('is always one that the engine takes', () => {
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 20 }),
      fc.tuple(fc.constantFrom(':', 'a', '\\'), fc.nat(2000)).map(([a, n]) => a.repeat(n)),
    );
    fc.assert(
      fc.property(fc.array(value, { maxLength: 40 }), (values) => {
        const headers = Object.fromEntries(values.map((each, at) => [`h${at}`, each]));
        const parts = values.map((_, at) => part({ from: 'header', name: `h${at}` }));
        expect(() => keyText(keyFor(parts, { headers }))).not.toThrow();
      }),
    );
  });
});
