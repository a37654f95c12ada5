/** Each file in bad/ has a problem; the .txt file beside it has the messages. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../src/config/schema.ts';
import { namesIn, pathOf, problemsIn, problemsOfText, textOf } from './fixtures.ts';

const names = namesIn('bad');

/** Returns the problems of a file, one per line. `{top}` is the list of all top-level fields. */
const problemsOf = (name: string): string =>
  `${problemsOfText(textOf(`bad/${name}.yaml`), `${name}.yaml`)}\n`.replaceAll(
    Object.keys(configSchema.shape).join(', '),
    '{top}',
  );

describe('problems in a configuration file', () => {
  it('at least 100 invalid files have expected messages', () => {
    expect(names.length).toBeGreaterThanOrEqual(100);
    expect(names.filter((name) => !existsSync(pathOf(`bad/${name}.txt`)))).toEqual([]);
  });

  it.each(names)('the problems of %s are reported with their positions', async (name) => {
    await expect(problemsOf(name)).toMatchFileSnapshot(`bad/${name}.txt`);
  });

  it('all problems of a file are reported together', () => {
    expect(problemsOf('many-mistakes').trimEnd().split('\n')).toHaveLength(15);
  });
});

describe('problems in several files', () => {
  const good = { path: 'good.yaml', text: 'policies: { perMinute: 10/1m }' };
  const edge = { path: 'edge.yaml', text: 'domain: edge' };

  it('problems are listed in the order of the files', () => {
    const problems = problemsIn(
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

  it('a second file with policies is reported', () => {
    expect(problemsIn(good, edge, { path: 'more.yaml', text: 'policies: { b: 1/1s }' })).toBe(
      'more.yaml:1:1: Expected one file with policies, got another beside good.yaml',
    );
  });

  it('a domain that another file contains is reported', () => {
    expect(problemsIn(good, edge, { path: 'again.yaml', text: 'domain: edge' })).toBe(
      'again.yaml:1:9: Expected domain `edge` once, got it again; it is in edge.yaml',
    );
    const own = { path: 'own.yaml', text: 'domains: [{ domain: edge }]' };
    expect(problemsIn(own, edge)).toBe(
      'edge.yaml:1:9: Expected domain `edge` once, got it again; it is in own.yaml',
    );
  });

  it('names that an unreadable file may declare are not reported', () => {
    const rules = 'policies: { a: 1/1s }\nrules: [{ limits: [{ policy: edge.user }] }]';
    const broken = { path: 'edge.yaml', text: 'domain: edge\ndescriptors: [' };
    expect(problemsIn({ path: 'own.yaml', text: rules }, broken)).toMatch(
      /^edge\.yaml:2:15: Expected YAML, got an error: .*$/,
    );
    expect(problemsOfText(rules)).toContain('to be a policy, one of a, got `"edge.user"`');
  });

  it('after 100 problems in a file, only the number of the others is reported', () => {
    const text = `policies:\n${Array.from({ length: 150 }, (_, i) => `  p${i}: wrong`).join('\n')}`;
    const lines = problemsOfText(text).split('\n');
    expect(lines).toHaveLength(101);
    expect(lines.at(-1)).toBe('sluice.yaml:102:9: 50 more problems not shown');
  });
});
