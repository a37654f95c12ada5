/** Each file in bad/ has a problem; the .txt file beside it has the messages. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../src/config/schema.ts';
import { mistakes, mistakesIn, namesIn, pathOf, textOf } from './fixtures.ts';

const names = namesIn('bad');

/** The problems of a file, a line each; `{top}` is the list of all keys at the top of a file. */
const problemsOf = (name: string): string =>
  `${mistakes(textOf(`bad/${name}.yaml`), `${name}.yaml`)}\n`.replaceAll(
    Object.keys(configSchema.shape).join(', '),
    '{top}',
  );

describe('a problem in a file', () => {
  it('has at least 100 examples, each with its messages', () => {
    expect(names.length).toBeGreaterThanOrEqual(100);
    expect(names.filter((name) => !existsSync(pathOf(`bad/${name}.txt`)))).toEqual([]);
  });

  it.each(names)('is reported with its position: %s', async (name) => {
    await expect(problemsOf(name)).toMatchFileSnapshot(`bad/${name}.txt`);
  });

  it('does not hide the others', () => {
    expect(problemsOf('many-mistakes').trimEnd().split('\n')).toHaveLength(15);
  });
});

describe('problems in several files', () => {
  const good = { path: 'good.yaml', text: 'policies: { perMinute: 10/1m }' };
  const edge = { path: 'edge.yaml', text: 'domain: edge' };

  it('are listed in the order of the files', () => {
    const problems = mistakesIn(
      { path: 'z.yaml', text: 'policies: { a: 1/1x }\nlisten: nowhere' },
      { path: 'a.yaml', text: 'domain: a\ndescriptors: 5' },
    );
    expect(problems).toBe(
      [
        'z.yaml:1:16: Expected policy `a` to be text such as 100/1m, ' +
          'or a map with limit and window, got `"1/1x"`',
        'z.yaml:2:9: Expected `listen` to be an address such as 127.0.0.1:8080, ' +
          '[::1]:8080 or :8080, got `"nowhere"`',
        'a.yaml:2:14: Expected `descriptors` to be a list of descriptors, got `5`',
      ].join('\n'),
    );
  });

  it('include a second file with policies', () => {
    expect(mistakesIn(good, edge, { path: 'more.yaml', text: 'policies: { b: 1/1s }' })).toBe(
      'more.yaml:1:1: Expected one file with policies, got another beside good.yaml',
    );
  });

  it('include a domain that another file has', () => {
    expect(mistakesIn(good, edge, { path: 'again.yaml', text: 'domain: edge' })).toBe(
      'again.yaml:1:9: Expected domain `edge` once, got it again; it is in edge.yaml',
    );
    const own = { path: 'own.yaml', text: 'domains: [{ domain: edge }]' };
    expect(mistakesIn(own, edge)).toBe(
      'edge.yaml:1:9: Expected domain `edge` once, got it again; it is in own.yaml',
    );
  });

  it('do not include names that an unreadable file may declare', () => {
    const rules = 'policies: { a: 1/1s }\nrules: [{ limits: [{ policy: edge.user }] }]';
    const broken = { path: 'edge.yaml', text: 'domain: edge\ndescriptors: [' };
    expect(mistakesIn({ path: 'own.yaml', text: rules }, broken)).toMatch(
      /^edge\.yaml:2:15: Expected YAML, got an error: .*$/,
    );
    expect(mistakes(rules)).toContain('to be a policy, one of a, got `"edge.user"`');
  });

  it('include an empty list of files', () => {
    expect(mistakesIn()).toBe(
      'configuration:1:1: Expected at least one policy or domain, got none',
    );
  });

  it('are cut after 100 in a file, and the rest counted', () => {
    const text = `policies:\n${Array.from({ length: 150 }, (_, i) => `  p${i}: wrong`).join('\n')}`;
    const lines = mistakes(text).split('\n');
    expect(lines).toHaveLength(101);
    expect(lines.at(-1)).toBe('sluice.yaml:102:9: 50 more problems not shown');
  });
});
