/** Which limits a request has, however it spells what it asks for. */
import fc from 'fast-check';
import { keyText } from 'sluice/engine';
import { describe, expect, it } from 'vitest';
import { AmbiguousRequest } from '../../src/ambiguous-request.ts';
import type { KeyPart, KeySource, RequestMatch, RuleConfig } from '../../src/config/model.ts';
import type { RequestAttributes } from '../../src/rules/request-attributes.ts';
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

const factsOf = ({ headers = {}, ...asked }: Asked): RequestAttributes => ({
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

/** The key that a request has: a string, or its parts. */
function keyFor(parts: readonly KeyPart[], asked: Asked): string | readonly string[] {
  const rules = [rule('all', {}, { limits: [{ policy: 'all', key: parts }] })];
  const { key } = new RequestRules(rules).limitsFor(factsOf(asked))![0];
  return key as string | readonly string[];
}

describe('RequestRules', () => {
  it('applies the first rule that matches', () => {
    const rules = [
      rule('login', { path: ['/login'] }),
      rule('writes', { method: ['POST', 'PUT'] }),
      rule('rest', {}),
    ];
    expect(policiesFor(rules, { path: '/login', method: 'POST' })).toEqual(['login']);
    expect(policiesFor(rules, { path: '/other', method: 'POST' })).toEqual(['writes']);
    expect(policiesFor(rules, { path: '/other' })).toEqual(['rest']);
  });

  it('returns undefined if no rule matches, and [] for a rule without limits', () => {
    const rules = [rule('health', { path: ['/health'] }, { limits: [] })];
    expect(policiesFor(rules, { path: '/health' })).toEqual([]);
    expect(policiesFor(rules, { path: '/other' })).toBeUndefined();
    expect(policiesFor([], {})).toBeUndefined();
  });

  it('applies several rules with continue', () => {
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

  it('returns the same limit for the same key once, with the cost of the first rule', () => {
    const limit = { policy: 'shared', key: [ADDRESS] };
    const rules = [
      rule('a', {}, { goOn: true, limits: [{ ...limit, cost: 3 }] }),
      rule('b', {}, { limits: [limit, { policy: 'shared', key: [part({ from: 'path' })] }] }),
    ];
    expect(new RequestRules(rules).limitsFor(factsOf({}))).toEqual([
      { policy: 'shared', key: 'address:192.0.2.1', cost: 3 },
      { policy: 'shared', key: 'path:/' },
    ]);
  });

  it('distinguishes keys of one part from keys of several parts', () => {
    const keys: readonly KeyPart[][] = [
      [part({ from: 'text', text: 'a:b' })],
      [part({ from: 'text', text: 'a' }), part({ from: 'text', text: 'b' })],
      [part({ from: 'text', text: 'a\\b' })],
      [part({ from: 'text', text: 'ab' })],
      [part({ from: 'text', text: 'ab' })],
    ];
    const limits = keys.map((key) => ({ policy: 'shared', key }));
    const found = new RequestRules([rule('r', {}, { limits })]).limitsFor(factsOf({}))!;
    expect(found.map(({ key }) => keyText(key))).toEqual([
      ...['text:a\\:b', 'text:a:text:b', 'text:a\\\\b', 'text:ab'],
    ]);
  });

  it('rejects a request with more limits than a check can have, and drops none', () => {
    const limits = Array.from({ length: 40 }, (_, at) => ({ policy: `p${at}`, key: [ADDRESS] }));
    const others = limits.map(({ policy, key }) => ({ policy: `q${policy}`, key }));
    const rules = [rule('a', {}, { limits, goOn: true }), rule('b', {}, { limits: others })];
    expect(() => policiesFor(rules, {})).toThrow('Expected rules with at most 64 limits, got more');
    expect(policiesFor([rules[0]], {})).toHaveLength(40);
  });

  it('ignores rules for descriptors', () => {
    const match = { kind: 'descriptor', domain: 'd', entries: {} } as const;
    expect(policiesFor([{ ...rule('d', {}), match }], {})).toBeUndefined();
  });

  it('keeps the order of rules with exact paths, patterns and no path', () => {
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

  it('returns costs and operations of limits', () => {
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

describe('a rule with caseSensitive', () => {
  const rules = [
    rule('free', { path: ['/health', '/Public/**'], caseSensitive: true }, { limits: [] }),
    rule('rest', {}),
  ];

  it.each(['/health', '/health/', '/he%61lth', '/Public/x', '/Public'])('matches %s', (path) => {
    expect(policiesFor(rules, { path })).toEqual([]);
  });

  it.each(['/HEALTH', '/he%41lth', '/public/x', '/x/../HEALTH', '//Health', '/x%2f..%2fhealth'])(
    'leaves %s to the next rule',
    (path) => {
      expect(policiesFor(rules, { path })).toEqual(['rest']);
    },
  );

  it('does not change what rules without it match', () => {
    const both = [rule('login', { path: ['/login'] }), ...rules];
    const found = ['/LOGIN', '/x/..%2fLogin', '/login'].map((path) => policiesFor(both, { path }));
    for (const each of found) expect(each).toContain('login');
  });
});

describe('the match of a rule', () => {
  const matches = (match: Match, asked: Asked): boolean =>
    policiesFor([rule('r', match)], asked) !== undefined;

  it('compares methods in any case, and GET also matches HEAD', () => {
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
  ])('compares the host pattern %s with %s', (pattern, host, expected) => {
    expect(matches({ host: [pattern] }, { host })).toBe(expected);
  });

  it('requires all headers to match', () => {
    const headers = { 'x-plan': 'free*', 'x-beta': '*' };
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2', 'x-beta': '' } })).toBe(true);
    expect(matches({ headers }, { headers: { 'x-plan': 'free-2' } })).toBe(false);
    expect(matches({ headers }, { headers: { 'x-plan': 'paid', 'x-beta': '1' } })).toBe(false);
    expect(matches({ headers: { 'X-Plan': 'a' } }, { headers: { 'x-plan': 'a' } })).toBe(true);
  });
});

describe('the key of a request', () => {
  /** The key as the store has it. */
  const textFor = (parts: readonly KeyPart[], asked: Asked): string =>
    keyText(keyFor(parts, asked));

  it('has its parts in order, each with its source first', () => {
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
      path: '/A/b',
      search: 'p=1&q=x%20y',
      headers: { 'x-api-key': 'k', cookie: 'a=1; session="s=2"' },
    };
    const values = [
      ...['text:v1', 'method:POST', 'host:example.com', 'path:/a/b', 'address:192.0.2.1'],
      ...['header:x-api-key:k', 'cookie:session:s=2', 'query:q:x+y'],
    ];
    expect(textFor(parts, asked)).toBe(values.join(':'));
  });

  it('has the first source with a value', () => {
    const sources: KeySource[] = [
      { from: 'header', name: 'x-user' },
      { from: 'cookie', name: 'user' },
      { from: 'descriptor', name: 'user' },
      { from: 'address' },
    ];
    const key = (headers: Record<string, string>) => textFor([part(...sources)], { headers });
    expect(key({ 'x-user': 'ada', cookie: 'user=bob' })).toBe('header:x-user:ada');
    expect(key({ 'x-user': '', cookie: 'user=bob' })).toBe('cookie:user:bob');
    expect(key({ cookie: 'user=; users=x' })).toBe('address:192.0.2.1');
  });

  it('differs for equal values of different sources', () => {
    const keys = (value: string): readonly string[] => [
      textFor([part({ from: 'header', name: 'x-user' })], { headers: { 'x-user': value } }),
      textFor([part({ from: 'header', name: 'x' })], { headers: { x: `user:${value}` } }),
      textFor([part({ from: 'query', name: 'x-user' })], { search: `x-user=${value}` }),
      textFor([part({ from: 'cookie', name: 'x-user' })], {
        headers: { cookie: `x-user=${value}` },
      }),
      textFor([part({ from: 'text', text: value })], {}),
      textFor([ADDRESS], { address: () => value }),
      textFor([part({ from: 'path' })], { path: value }),
    ];
    for (const value of ['192.0.2.1', '2001:db8::/64', 'address:192.0.2.1', '/', 'a\\']) {
      expect([value, new Set(keys(value)).size]).toEqual([value, 7]);
    }
  });

  it('has an empty value if no source has one', () => {
    const user = part({ from: 'header', name: 'x-user' });
    const query = part({ from: 'header', name: 'x' }, { from: 'query', name: 'q' });
    expect(textFor([user, query], { search: 'x=1' })).toBe('header:x-user::query:q:');
    expect(textFor([ADDRESS, user], {})).toBe('address:192.0.2.1:header:x-user:');
    expect(textFor([user], {})).toBe('header:x-user:');
    expect(textFor([user], { headers: { 'x-user': ':' } })).toBe('header:x-user:\\:');
    expect(textFor([], {})).toBe(':');
  });

  it('is the same whether the address is the only source or the last', () => {
    const either = part({ from: 'header', name: 'x' }, { from: 'address' });
    for (const address of ['192.0.2.1', '2001:db8::/64']) {
      const limits = [ADDRESS, either].map((each) => ({ policy: 'p', key: [each] }));
      const rules = new RequestRules([rule('r', {}, { limits })]);
      expect(rules.limitsFor(factsOf({ address: () => address }))).toHaveLength(1);
    }
  });

  it('does not read the address if no rule needs it', () => {
    const address = () => {
      throw new Error('asked');
    };
    expect(textFor([part({ from: 'text', text: 'all' })], { address })).toBe('text:all');
    expect(() => keyFor([ADDRESS], { address })).toThrow('asked');
  });

  const session = part({ from: 'cookie', name: 'session' });

  it.each([...['', ';', '=', 'session', '=;=', '"', 'x="session=1', 'sessions=1', 'x=session']])(
    'has no cookie from %j',
    (cookie) => {
      expect(textFor([session], { headers: { cookie } })).toBe('cookie:session:');
    },
  );

  it.each([
    ['session=a', 'a'],
    ['x=1;session=a ; y', 'a'],
    ['session="a"', 'a'],
    ['session=%61', 'a'],
    ['session=%zz', '%zz'],
    ['session=a=b', 'a=b'],
    ['x=1, 2; session=a', 'a'],
  ])('has the cookie from %j', (cookie, value) => {
    expect(textFor([session], { headers: { cookie } })).toBe(`cookie:session:${value}`);
  });

  it.each([
    ...['session=1; session=2', 'session; session=2', 'session=1; Session=2', 'Session=1'],
    ...['session=1, session=2', 'session=1,2', 'sessio%6e=1', 'x=1, session=2', 'session[]=1'],
  ])('rejects the cookies %j, of which applications read different ones', (cookie) => {
    expect(() => textFor([session], { headers: { cookie } })).toThrow(AmbiguousRequest);
  });

  const apiKey = part({ from: 'query', name: 'api_key' });

  it.each(['%', '%zz', 'api_key', 'x=%C3', '&&=&', 'api_keys=1', 'x=api_key', 'x;y=1'])(
    'has no parameter from %j',
    (search) => {
      expect(textFor([apiKey], { search })).toBe('query:api_key:');
    },
  );

  it.each([
    ['api_key=a', 'a'],
    ['x=1;2&api_key=a&', 'a'],
    ['api%5Fkey=%61', 'a'],
    ['api_key=a+b', 'a+b'],
    ['api_key=a%20b', 'a+b'],
    ['api_key=a%2Bb', 'a+b'],
    ['api_key=%20a+', 'a'],
  ])('has the parameter from %j', (search, value) => {
    expect(textFor([apiKey], { search })).toBe(`query:api_key:${value}`);
  });

  it.each([
    ...['api_key=1&api_key=2', 'api_key=1&api_key=1', 'api_key&api_key=2', 'api_key=1&api%5fkey=2'],
    ...['api_key=1;api_key=2', 'api_key=1;x', 'x;api_key=2', 'API_KEY=1', 'api_key=1&API_KEY=2'],
    ...['api_key[]=1', 'api_key=1&api_key[]=2', 'api.key=1', 'api%20key=1', '%20api_key=1'],
    ...['api_key%00x=1', 'api_key[a]=1&api_key=2'],
  ])('rejects the query %j, of which applications read different parameters', (search) => {
    expect(() => textFor([apiKey], { search })).toThrow(AmbiguousRequest);
  });

  it('reads a parameter with brackets in its name as it is', () => {
    const filter = part({ from: 'query', name: 'filter[user]' });
    const search = 'filter[name]=1&filter[user]=ada';
    expect(textFor([filter], { search })).toBe('query:filter[user]:ada');
  });

  it('ignores case of the scheme and spaces in credentials', () => {
    const credentials = part({ from: 'header', name: 'authorization' });
    const key = (authorization: string) => textFor([credentials], { headers: { authorization } });
    expect(key('Bearer Abc')).toBe('header:authorization:bearer Abc');
    expect(key('bEARER  \tAbc')).toBe(key('Bearer Abc'));
    expect(key('Bearer abc')).not.toBe(key('Bearer Abc'));
    expect(key('Abc')).toBe('header:authorization:Abc');
  });

  it('has hashes of values that are too long together', () => {
    const user = part({ from: 'header', name: 'x-user' });
    const key = (value: string) => keyFor([ADDRESS, user], { headers: { 'x-user': value } });
    const start = ['address', '192.0.2.1', 'header', 'x-user'];
    expect(key('a'.repeat(900))).toEqual([...start, 'a'.repeat(900)]);
    const hash = key('a'.repeat(5000)).at(-1);
    expect(hash).toMatch(/^[\w-]{43}$/);
    expect(key('a'.repeat(5000))).toEqual([...start, hash]);
    expect(key('a'.repeat(5001))).not.toEqual([...start, hash]);
    expect(key(':'.repeat(600)).at(-1)).toMatch(/^[\w-]{43}$/);
  });

  it('is always accepted by the library', () => {
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
