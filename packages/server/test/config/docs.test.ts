/** The default configuration, and docs/configuration.md. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { problemText } from '../../src/config/model.ts';
import { readConfig } from '../../src/config/read.ts';
import { readSettings } from '../../src/settings.ts';
import { codeBlocks } from '../markdown.ts';
import { pathOf, problemsOfText, read } from './fixtures.ts';

const page = readFileSync(pathOf('../../../../docs/configuration.md'), 'utf8');
const blocks = (language: string): readonly string[] => codeBlocks(page, language);

describe('the default configuration', () => {
  it('the default configuration is valid and changes no setting', async () => {
    const config = await loadConfig([pathOf('../../config/example.yaml')]);
    expect(config.policies.map(({ name }) => name)).toEqual([
      ...['perMinute', 'daily', 'steady', 'perAddress'],
    ]);
    expect(config.warnings).toEqual([]);
    expect(config.policies[0].options).toEqual({ limit: 10, window: '1m' });
    expect(config.rules.map(({ name }) => name)).toEqual(['health', 'api', 'everything else']);
    expect(readSettings({}, {}, config.settings).sources.listen).toBe('default');
  });
});

describe('docs/configuration.md', () => {
  it('docs/configuration.md has a valid example with every section', () => {
    const [example, ...others] = blocks('yaml');
    expect(others).toEqual([]);
    const config = read(example);
    expect(config.policies.map(({ name }) => name)).toEqual([
      ...['perMinute', 'perAddress', 'uploads', 'daily', 'logins', 'exports'],
      'edge.remote_address',
    ]);
    expect(config.rules).toHaveLength(5);
    expect(config.overrides).toHaveLength(1);
    expect(config.domains).toHaveLength(1);
  });

  it('docs/configuration.md shows the actual messages about problems', () => {
    const text = 'policies:\n  # Too few.\n  perMinute:\n    limit: ten\n    windw: 1m\n';
    expect(blocks('text')[0].trimEnd()).toBe(problemsOfText(text));
  });

  it('docs/configuration.md shows the actual warning about keys of clients', () => {
    const unguarded = [
      ...['policies:', '  perMinute: 100/1m', 'rules:', '  - limits:', '    - policy: perMinute'],
      '      key: header:x-api-key | address',
    ].join('\n');
    const { warnings } = readConfig([{ path: 'limits.yaml', text: unguarded }]);
    expect(warnings.map(problemText)).toEqual([blocks('text')[1].trimEnd()]);
    expect(read(blocks('yaml')[0]).warnings).toEqual([]);
  });

  it('docs/configuration.md states the actual maximum limits', () => {
    const most = (days: number): string =>
      Math.floor(Number.MAX_SAFE_INTEGER / (days * 86_400_000)).toLocaleString('en');
    expect(page).toContain(`${most(365)} a year or ${most(1)} a day`);
  });
});
