/** The keys of a request, made of its address, headers, cookies and parameters. */
import fc from 'fast-check';
import { keyText } from 'sluice/engine';
import { describe, expect, it } from 'vitest';
import { AmbiguousRequest } from '../../src/ambiguous-request.ts';
import type { KeyPart, KeySource } from '../../src/config/model.ts';
import { RequestRules } from '../../src/rules/request-rules.ts';
import { ADDRESS, attributesOf, part, rule, type TestRequest } from './request-builder.ts';

/** Returns the key of a request: a string, or its parts. */
function keyFor(parts: readonly KeyPart[], request: TestRequest): string | readonly string[] {
  const rules = [rule('all', {}, { limits: [{ policy: 'all', key: parts }] })];
  const { key } = new RequestRules(rules).limitsFor(attributesOf(request))![0];
  return key as string | readonly string[];
}

describe('keys of requests', () => {
  /** Returns the key as the store contains it. */
  const textFor = (parts: readonly KeyPart[], request: TestRequest): string =>
    keyText(keyFor(parts, request));

  it('a key contains its parts in order, each with its source first', () => {
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
    const request = {
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
    expect(textFor(parts, request)).toBe(values.join(':'));
  });

  it('a key contains the first source with a value', () => {
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

  it('equal values of different sources have different keys', () => {
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

  it('a key has an empty value if no source has one', () => {
    const user = part({ from: 'header', name: 'x-user' });
    const query = part({ from: 'header', name: 'x' }, { from: 'query', name: 'q' });
    expect(textFor([user, query], { search: 'x=1' })).toBe('header:x-user::query:q:');
    expect(textFor([ADDRESS, user], {})).toBe('address:192.0.2.1:header:x-user:');
    expect(textFor([user], {})).toBe('header:x-user:');
    expect(textFor([user], { headers: { 'x-user': ':' } })).toBe('header:x-user:\\:');
    expect(textFor([], {})).toBe(':');
  });

  it('the key of an address is the same if it is the only source or the last one', () => {
    const either = part({ from: 'header', name: 'x' }, { from: 'address' });
    for (const address of ['192.0.2.1', '2001:db8::/64']) {
      const limits = [ADDRESS, either].map((each) => ({ policy: 'p', key: [each] }));
      const rules = new RequestRules([rule('r', {}, { limits })]);
      expect(rules.limitsFor(attributesOf({ address: () => address }))).toHaveLength(1);
    }
  });

  it('the client address is not read if no key needs it', () => {
    const address = () => {
      throw new Error('address read');
    };
    expect(textFor([part({ from: 'text', text: 'all' })], { address })).toBe('text:all');
    expect(() => keyFor([ADDRESS], { address })).toThrow('address read');
  });

  const session = part({ from: 'cookie', name: 'session' });

  it.each([...['', ';', '=', 'session', '=;=', '"', 'x="session=1', 'sessions=1', 'x=session']])(
    'the cookie header %j has no session',
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
  ])('the cookie header %j has the session %j', (cookie, value) => {
    expect(textFor([session], { headers: { cookie } })).toBe(`cookie:session:${value}`);
  });

  it.each([
    ...['session=1; session=2', 'session; session=2', 'session=1; Session=2', 'Session=1'],
    ...['session=1, session=2', 'session=1,2', 'sessio%6e=1', 'x=1, session=2', 'session[]=1'],
  ])('the ambiguous cookies %j are rejected', (cookie) => {
    expect(() => textFor([session], { headers: { cookie } })).toThrow(AmbiguousRequest);
  });

  const apiKey = part({ from: 'query', name: 'api_key' });

  it.each(['%', '%zz', 'api_key', 'x=%C3', '&&=&', 'api_keys=1', 'x=api_key', 'x;y=1'])(
    'the query %j has no api_key',
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
  ])('the query %j has the api_key %j', (search, value) => {
    expect(textFor([apiKey], { search })).toBe(`query:api_key:${value}`);
  });

  it.each([
    ...['api_key=1&api_key=2', 'api_key=1&api_key=1', 'api_key&api_key=2', 'api_key=1&api%5fkey=2'],
    ...['api_key=1;api_key=2', 'api_key=1;x', 'x;api_key=2', 'API_KEY=1', 'api_key=1&API_KEY=2'],
    ...['api_key[]=1', 'api_key=1&api_key[]=2', 'api.key=1', 'api%20key=1', '%20api_key=1'],
    ...['api_key%00x=1', 'api_key[a]=1&api_key=2'],
  ])('the ambiguous query %j is rejected', (search) => {
    expect(() => textFor([apiKey], { search })).toThrow(AmbiguousRequest);
  });

  it('a parameter with brackets in its name is read unchanged', () => {
    const filter = part({ from: 'query', name: 'filter[user]' });
    const search = 'filter[name]=1&filter[user]=ada';
    expect(textFor([filter], { search })).toBe('query:filter[user]:ada');
  });

  it('in a key, the case of the scheme and spaces in credentials are ignored', () => {
    const credentials = part({ from: 'header', name: 'authorization' });
    const key = (authorization: string) => textFor([credentials], { headers: { authorization } });
    expect(key('Bearer Abc')).toBe('header:authorization:bearer Abc');
    expect(key('bEARER  \tAbc')).toBe(key('Bearer Abc'));
    expect(key('Bearer abc')).not.toBe(key('Bearer Abc'));
    expect(key('Abc')).toBe('header:authorization:Abc');
  });

  it('long values in a key are replaced by their hashes', () => {
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

  it('the library accepts the key of any request', () => {
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
