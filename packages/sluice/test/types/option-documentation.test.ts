/** Every option has hover text with its default, or that it is required, and an example. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const sources = new URL('../../src/', import.meta.url);

/** Interfaces with options, in the files that declare them. */
const OPTIONS =
  /^export interface ((?!Resolved|Parse)\w*(?:Options|RateLimit(?:Plugin)?|[ty]Limit))\b/;

interface Option {
  readonly name: string;
  readonly text: string;
}

/** Returns the options of the interfaces in a file, with their comments. */
function optionsOf(path: string): Option[] {
  const found: Option[] = [];
  let inside: string | undefined;
  let comment = '';
  for (const line of readFileSync(new URL(path, sources), 'utf8').split('\n')) {
    inside ??= OPTIONS.exec(line)?.[1];
    if (line.startsWith('}')) inside = undefined;
    if (/^ {2}\/\*\*/.test(line)) comment = '';
    if (/^ {2}( \*|\/\*\*)/.test(line)) comment += `${line}\n`;
    const name = inside && /^ {2}readonly (\w+)\??:/.exec(line)?.[1];
    if (!name) continue;
    found.push({ name: `${inside}.${name} in ${path}`, text: comment });
    comment = '';
  }
  return found;
}

const files = ['http/', 'adapters/'].flatMap((folder) =>
  readdirSync(new URL(folder, sources)).map((name) => folder + name),
);
const options = ['policy.ts', ...files].filter((path) => path.endsWith('.ts')).flatMap(optionsOf);

describe('options of the adapters', () => {
  it('the interfaces of all adapters are found', () => {
    const names = options.map(({ name }) => name);
    for (const each of ['Express', 'Fastify', 'Hono', 'Koa', 'Nest', 'Node', 'Fetch', 'Request']) {
      expect(names.filter((name) => name.startsWith(each)).length).toBeGreaterThan(0);
    }
    expect(names.length).toBeGreaterThan(60);
  });

  it.each(options)('$name has hover text with a default and an example', ({ text }) => {
    expect(text).toMatch(/Default|Required|Same as/);
    expect(text).toMatch(/@example \S|@example\n {3}\* \S/);
  });
});
