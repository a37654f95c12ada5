/** Parsing of configuration files of envoyproxy/ratelimit. */
import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/model.ts';
import { readConfig } from '../../src/config/read.ts';
import { namesIn, read, textOf } from './fixtures.ts';

const names = namesIn('envoy');
const load = (name: string): Config => read(textOf(`envoy/${name}.yaml`));
const DAY_MS = 86_400_000;

describe('files of envoyproxy/ratelimit', () => {
  it.each(names)('the file %s of envoyproxy/ratelimit is accepted unchanged', (name) => {
    const config = load(name);
    expect(config.domains).toHaveLength(1);
    expect([config.rules, config.overrides, config.settings]).toEqual([[], [], {}]);
  });

  it('files of envoyproxy/ratelimit load together with a file of Sluice', () => {
    const files = names.map((name) => ({ path: name, text: textOf(`envoy/${name}.yaml`) }));
    const config = readConfig([...files, { path: 'own', text: 'policies: { own: 1/1s }' }]);
    expect(config.domains).toHaveLength(names.length);
    expect(config.files).toEqual([...names, 'own']);
    expect(config.policies.at(-1)?.name).toBe('own');
  });

  it('each limit of a domain becomes a policy named by the path of the descriptor', () => {
    const { policies } = load('example-02-nested');
    expect(policies).toEqual([
      {
        name: 'post.kind_advertisement.number',
        options: { limit: 2, window: DAY_MS },
        shadow: false,
      },
      { name: 'post.number', options: { limit: 6, window: DAY_MS }, shadow: false },
    ]);
  });

  it('descriptors become a tree in the order of the file', () => {
    expect(load('example-02-nested').domains).toEqual([
      {
        domain: 'post',
        descriptors: [
          {
            key: 'kind',
            value: 'advertisement',
            descriptors: [
              {
                key: 'number',
                limit: {
                  unlimited: false,
                  policy: 'post.kind_advertisement.number',
                  replaces: [],
                },
                descriptors: [],
              },
            ],
          },
          {
            key: 'number',
            limit: { unlimited: false, policy: 'post.number', replaces: [] },
            descriptors: [],
          },
        ],
      },
    ]);
  });

  it('requests_per_unit 0 becomes a blocked descriptor without a policy', () => {
    const { policies, domains } = load('example-03-blocked-value');
    expect(policies.map(({ name }) => name)).toEqual(['edge.remote_address']);
    expect(domains[0].descriptors[1].limit).toEqual({
      unlimited: false,
      blocked: true,
      policy: 'edge.remote_address_192.0.2.5',
      windowMs: 1000,
      shadow: false,
      replaces: [],
    });
  });

  it('unlimited, shadow_mode and replaces of a descriptor are parsed', () => {
    expect(load('example-05-unlimited').domains[0].descriptors[0].limit).toEqual({
      unlimited: true,
      replaces: [],
    });
    expect(load('example-06-shadow-mode').policies.map(({ shadow }) => shadow)).toEqual([
      true,
      false,
    ]);
    const limits = load('example-07-replaces').domains[0].descriptors.map(
      ({ descriptors }) => descriptors[0].limit,
    );
    expect(limits).toMatchObject([{ name: 'usual', replaces: [] }, { replaces: ['usual'] }]);
    expect(limits[1]).not.toHaveProperty('name');
  });

  it('share_threshold, quota_mode and metadata of a descriptor are parsed', () => {
    const [shared, apart] = load('example-11a-share-threshold').domains[0].descriptors;
    expect([shared.shared, apart.shared]).toEqual([true, undefined]);
    expect(load('quota-mode').domains[0].descriptors[0].limit).toMatchObject({ quota: true });
    expect(load('metadata').domains[0].descriptors[0].metadata).toEqual({
      backend: { name: 'first', zones: ['a', 'b'] },
    });
  });

  it('units of time are accepted in any letter case, and values are kept as written', () => {
    const { policies, domains } = load('every-unit');
    const days = policies.map(({ options }) => Number(options.window) / DAY_MS);
    expect(days).toEqual([1 / 86_400, 1 / 1440, 1 / 24, 1, 7, 30, 365]);
    const values = domains[0].descriptors.map(({ value }) => value);
    expect(values).toEqual(['1', '2', '3', '4', '5', '6', '007', 'true']);
  });

  it('window, limit, algorithm and on_failure are accepted in a rate_limit', () => {
    expect(load('additions').policies.map(({ options }) => options)).toEqual([
      { limit: 20, window: '5m', algorithm: 'sliding-counter', onFailure: 'deny' },
      { limit: 10, window: '1s', algorithm: 'token-bucket', burst: 30 },
      { limit: 500, window: DAY_MS, algorithm: 'sliding-buckets', buckets: 24 },
    ]);
  });

  it('a field of a domain without a value is treated as missing', () => {
    const text = 'domain: a\ndescriptors:\n  - { key: b, value: "", rate_limit: , descriptors: }';
    expect(read(text).domains[0].descriptors).toEqual([{ key: 'b', descriptors: [] }]);
    expect(read('domain: a\ndescriptors:\n').domains).toEqual([{ domain: 'a', descriptors: [] }]);
  });
});

describe('policy names from descriptor paths', () => {
  const nameOf = (domain: string, key: string): string => {
    const rateLimit = '{ unit: second, requests_per_unit: 1 }';
    const descriptor = `{ key: ${JSON.stringify(key)}, rate_limit: ${rateLimit} }`;
    return read(`domain: ${domain}\ndescriptors: [${descriptor}]`).policies[0].name;
  };

  it('the policy name of a long descriptor path is cut and ends in a hash of the path', () => {
    const name = nameOf('edge', 'x'.repeat(500));
    expect(name).toMatch(/^edge\.x{95}~[\da-f]{16}$/);
    expect(nameOf('edge', `${'x'.repeat(499)}y`)).not.toBe(name);
    expect(nameOf('edge', 'x'.repeat(123))).toBe(`edge.${'x'.repeat(123)}`);
  });

  it('a policy name replaces unprintable characters and the prefix `sluice.` of a path', () => {
    expect(nameOf('edge', 'a\nb')).toMatch(/^edge\.a\?b~[\da-f]{16}$/);
    expect(nameOf('sluice', 'a')).toMatch(/^sluice~a~[\da-f]{16}$/);
  });
});
