import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config, DescriptorConfig } from '../../src/config/model.ts';
import { ConfigParts, slicesOf } from '../../src/config/slices.ts';
import { configOf, policy } from '../running.ts';
import { pathOf } from './fixtures.ts';

/** Returns the configuration as another process receives it. */
function received(config: Config): Config {
  const parts = new ConfigParts();
  for (const slice of slicesOf(config)) parts.add(JSON.parse(JSON.stringify(slice)));
  return parts.config;
}

describe('slicesOf', () => {
  test('a configuration is unchanged after it is sent in slices', async () => {
    const example = fileURLToPath(new URL('../../config/example.yaml', import.meta.url));
    for (const paths of [[example], [pathOf('good/settings-only.yaml'), pathOf('envoy')]]) {
      const config = await loadConfig(paths);
      expect(received(config)).toEqual(config);
    }
  });

  test('slices of a configuration keep the order of entries and the depth of trees', () => {
    const tree = (depth: number, width: number): readonly DescriptorConfig[] =>
      Array.from({ length: depth === 0 ? 0 : width }, (_, at) => ({
        key: `k${depth}`,
        value: `v${at}`,
        descriptors: tree(depth - 1, width),
      }));
    const config = configOf({
      files: ['a.yaml'],
      settings: { workers: 2 },
      policies: Array.from({ length: 3333 }, (_, at) => policy(`p${at}`, at + 1, '1m')),
      overrides: Array.from({ length: 250 }, (_, at) => ({ policy: 'p0', key: `${at}`, limit: 1 })),
      domains: [
        { domain: 'deep', descriptors: tree(4, 6) },
        { domain: 'empty', descriptors: [] },
        { domain: 'wide', descriptors: tree(1, 777) },
      ],
    });
    expect(received(config)).toEqual(config);
  });

  test('a slice of a configuration has at most 100 entries', () => {
    const descriptors = [
      {
        key: 'a',
        descriptors: Array.from({ length: 5000 }, (_, at) => ({ key: `${at}`, descriptors: [] })),
      },
    ];
    const config = configOf({ domains: [{ domain: 'd', descriptors }] });
    const sizes = [...slicesOf(config)].map((each) =>
      'entries' in each ? each.entries.length : 0,
    );
    expect(Math.max(...sizes)).toBe(100);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(5001);
  });
});
