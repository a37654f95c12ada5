import { describe, expect, it } from 'vitest';
import { namesIn, problemsOfText, read, textOf } from './fixtures.ts';

const one = (sources: object): object => ({ sources: [sources] });
const address = one({ from: 'address' });

describe('configuration files of Sluice', () => {
  const config = read(textOf('good/everything.yaml'));
  const policy = (name: string) => config.policies.find((each) => each.name === name);

  it.each(namesIn('good').filter((name) => name !== 'settings-only'))(
    'the configuration file %s is accepted',
    (name) => {
      expect(read(textOf(`good/${name}.yaml`)).policies.length).toBeGreaterThan(0);
    },
  );

  it('settings are parsed by name, with values as written', () => {
    expect(config.settings).toEqual({
      listen: '0.0.0.0:8080',
      grpc: 8081,
      store: 'redis://127.0.0.1:6379/3',
      prefix: 'gate:',
      maxKeys: 50_000,
      deadlineMs: '10ms',
      onFailure: 'deny',
      localShare: 0.25,
      adminToken: 'correct-horse-battery',
      tlsCert: 'cert.pem',
      tlsKey: 'key.pem',
      trustProxy: ['10.0.0.0/8', '192.168.1.1'],
      forwardedHeader: 'forwarded',
      ipv6Prefix: 56,
      headers: 'draft-6',
      workers: 4,
      overridesFile: 'overrides.json',
      logLevel: 'warn',
      logDenials: 0,
      drainMs: '30s',
    });
  });

  it('policies are parsed in order, those of domains last', () => {
    expect(config.policies.map(({ name }) => name)).toEqual([
      ...['short', 'inWords', 'inMilliseconds', 'counter', 'buckets', 'tokens', 'fixed', 'costly'],
      ...['with spaces, ünïcode and 100 %', '42', 'blocked', 'blockedLonger', 'held'],
      ...['heldLonger', 'inside.directory_main'],
    ]);
  });

  it('the block of a policy is parsed from a duration or a map', () => {
    const block = { for: '1m', factor: 2, max: '1h', forget: '12h' };
    expect(policy('blocked')?.options).toEqual({ limit: 5, window: '1m', block: '15m' });
    expect(policy('blockedLonger')?.options).toEqual({ limit: 5, window: '1m', block });
  });

  it('a concurrency policy has its lease, costs, action and shadow mode', () => {
    expect(policy('held')?.options).toEqual({ concurrency: 20 });
    expect(policy('heldLonger')).toEqual({
      name: 'heldLonger',
      options: { concurrency: 5, lease: '2m', costs: { export: 2 }, onFailure: 'deny' },
      shadow: true,
    });
  });

  it.each([
    ['20/min', 'min'],
    ['20/minute', 'minute'],
    ['20 per day', 'day'],
    ['20/2week', '2week'],
  ])('the short policy %s has the window %s', (short, window) => {
    const { policies } = read(`policies:\n  a: ${short}\n  b: { limit: 20, window: ${window} }\n`);
    expect(policies.map(({ options }) => options)).toEqual([
      { limit: 20, window },
      { limit: 20, window },
    ]);
  });

  it('policies have only the options that are set', () => {
    expect(policy('short')).toEqual({
      name: 'short',
      options: { limit: 100, window: '1m' },
      shadow: false,
    });
    expect(policy('inWords')?.options).toEqual({ limit: 5, window: '10s' });
    expect(policy('inMilliseconds')?.options).toEqual({ limit: 5, window: 1500 });
    expect(policy('buckets')?.options).toEqual({
      ...{ limit: 60, window: '1h', algorithm: 'sliding-buckets', buckets: 12 },
    });
    expect(policy('tokens')).toEqual({
      name: 'tokens',
      options: { limit: 10, window: '1s', algorithm: 'token-bucket', burst: 50 },
      shadow: true,
    });
    expect(policy('counter')?.options.onFailure).toBe('allow');
  });

  it('an operation may be named __proto__', () => {
    const costs = policy('costly')?.options.costs ?? {};
    expect(Object.entries(costs)).toEqual([
      ['list', 1],
      ['search.list', 100],
      ['__proto__', 7],
    ]);
    expect(Object.getPrototypeOf(costs)).toBe(Object.prototype);
  });

  it('rules for requests are parsed', () => {
    expect(config.rules[0]).toEqual({
      name: 'uploads',
      match: {
        kind: 'request',
        path: ['/upload', '/files/**'],
        method: ['POST', 'PUT'],
        host: ['*.example.com'],
        headers: { 'x-plan': 'free*', 'x-trial': '*', 'x-version': '2' },
      },
      limits: [
        { policy: 'short', key: [address] },
        {
          policy: 'costly',
          key: [
            {
              sources: [
                { from: 'header', name: 'x-api-key' },
                { from: 'cookie', name: 'session' },
                { from: 'address' },
              ],
            },
            one({ from: 'path' }),
            one({ from: 'text', text: 'upload' }),
          ],
          operation: 'search.list',
          weight: 100,
        },
        { policy: 'counter', key: [one({ from: 'query', name: 'user id' })], cost: 20 },
      ],
      goOn: true,
    });
  });

  it('rules for descriptors have the whole descriptor as default key', () => {
    expect(config.rules[1]).toEqual({
      name: 'rule 2',
      match: { kind: 'descriptor', domain: 'edge', entries: { user: '*', plan: 'gold' } },
      limits: [
        {
          policy: 'buckets',
          key: [
            one({ from: 'descriptor', name: 'user' }),
            one({ from: 'descriptor', name: 'plan' }),
          ],
        },
        {
          policy: 'costly',
          key: [
            {
              sources: [
                { from: 'descriptor', name: 'user' },
                { from: 'text', text: 'anonymous' },
              ],
            },
          ],
        },
      ],
      goOn: false,
    });
  });

  it('rules without limits and rules for all requests are parsed', () => {
    expect(config.rules[2].limits).toEqual([]);
    expect(config.rules[3]).toEqual({
      name: 'rule 4',
      match: { kind: 'request' },
      limits: [{ policy: 'counter', key: [one({ from: 'method' }), one({ from: 'host' })] }],
      goOn: false,
    });
  });

  it('overrides are parsed, also expired ones and those of domain policies', () => {
    expect(config.overrides).toEqual([
      { policy: 'short', key: 'user:*', limit: 500 },
      {
        policy: 'short',
        key: '42',
        limit: 1,
        expiresAtMs: Date.parse('2031-02-28T22:59:59.500Z'),
        reason: 'test',
      },
      {
        policy: 'inside.directory_main',
        key: 'anyone',
        limit: 9,
        expiresAtMs: Date.parse('2001-01-01T00:00:00Z'),
      },
      {
        policy: 'costly',
        key: 'a',
        limit: 2_147_483_647,
        expiresAtMs: Date.parse('2031-01-01T10:00:00Z'),
      },
    ]);
  });

  it('domains of a configuration file are parsed, also empty ones', () => {
    expect(config.domains).toEqual([
      {
        domain: 'inside',
        descriptors: [
          {
            key: 'directory',
            value: 'main',
            limit: { unlimited: false, policy: 'inside.directory_main', replaces: [] },
            descriptors: [],
          },
        ],
      },
      { domain: 'nothing yet', descriptors: [] },
    ]);
  });
});

describe('anchors, aliases and merges', () => {
  const config = read(textOf('good/anchors.yaml'));
  const options = (name: string) => config.policies.find((each) => each.name === name)?.options;
  const costs = { small: 1, large: 10 };

  it('aliases in a configuration file are replaced by their targets', () => {
    expect(options('again')).toEqual({ limit: 100, window: '1m', costs });
    expect(options('shorter')).toEqual({ limit: 5, window: '1s' });
    expect(config.rules[1].limits).toEqual(config.rules[0].limits.slice(0, 1));
  });

  it('own fields have precedence over merged ones, and the first merged map over others', () => {
    expect(options('write')).toEqual({ limit: 10, window: '1m', costs });
    expect(options('import')).toEqual({ limit: 100, window: '1h', costs });
  });

  it('an alias refers to the last preceding anchor of the same name', () => {
    const { policies } = read('policies: { a: &x 1/1s, b: *x, c: &x 2/1s, d: *x }');
    expect(policies.map(({ options }) => options.limit)).toEqual([1, 1, 2, 2]);
  });

  it('problems of an aliased value are reported at the position of its target', () => {
    expect(problemsOfText('policies:\n  a: &x { limit: 1 }\n  b: { <<: *x, window: 1s }\n')).toBe(
      'sluice.yaml:2:3: Expected `window` of policy `a` to be a duration such as ' +
        '10s, 1m or 1d, got nothing',
    );
    expect(problemsOfText('policies:\n  a: &x { limit: 0, window: 1s }\n  b: *x\n')).toBe(
      [
        'sluice.yaml:2:18: Expected `limit` of policy `a` to be an integer >= 1, got `0`',
        'sluice.yaml:2:18: Expected `limit` of policy `b` to be an integer >= 1, got `0`',
      ].join('\n'),
    );
  });
});
