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

const FOLDERS = [
  ...['http/', 'adapters/', 'acquire/', 'failure/', 'otel/', 'llm/', 'run/'],
  ...['stores/memory/', 'stores/redis/'],
];
const FILES = ['api.ts', 'policy.ts', 'http/compat/express-rate-limit.ts'];
const files = FOLDERS.flatMap((folder) =>
  readdirSync(new URL(folder, sources)).map((name) => folder + name),
);
const options = [...FILES, ...files].filter((path) => path.endsWith('.ts')).flatMap(optionsOf);

/** Interfaces that must be found, by the beginning of their names. */
const FOUND = [
  ...['Express', 'Fastify', 'Hono', 'Koa', 'Nest', 'Node', 'Fetch', 'Request'],
  ...['MemoryStoreOptions', 'RedisStoreOptions', 'DenyCacheOptions', 'FailureOptions'],
  ...['LimitFetchOptions', 'LimiterOptions', 'CallOptions', 'AcquireOptions'],
  ...['SharedPolicyOptions', 'WindowPolicyOptions', 'ConcurrencyPolicyOptions', 'BlockOptions'],
  ...['ExpressRateLimitOptions', 'OpenTelemetryOptions'],
];

describe('options of the library', () => {
  it.each(FOUND)('the options of %s are found', (each) => {
    expect(options.filter(({ name }) => name.startsWith(each)).length).toBeGreaterThan(0);
  });

  it('the options of all interfaces are found', () => {
    expect(options.length).toBeGreaterThan(90);
  });

  it.each(options)('$name has hover text with a default and an example', ({ text }) => {
    expect(text).toMatch(/Default|Required|Same as/);
    expect(text).toMatch(/@example \S|@example\n {3}\* \S/);
  });
});
