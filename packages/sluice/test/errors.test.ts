import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SluiceError } from '../src/index.ts';

const sources = new URL('../src/', import.meta.url);
const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');

/** The codes in the source, each with the comment above it. */
const table = [
  ...readFileSync(new URL('errors.ts', sources), 'utf8').matchAll(
    /^ {2}\/\*\* (.+) \*\/\n {2}(ERR_\w+): never;$/gm,
  ),
].map(([, meaning, code]) => [code, meaning]);
const codes = table.map(([code]) => code);

/** The rows of the table in docs/errors.md: code and meaning. */
const rows = page
  .split('\n')
  .map((line) => /^\| `(\w+)` \| (.+) \|$/.exec(line))
  .filter((row) => row !== null)
  .map(([, code, meaning]) => [code, meaning]);

/** The text of all source files. The list of codes has them without quotes. */
const written = readdirSync(sources, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => readFileSync(new URL(path, sources), 'utf8'))
  .join('\n');

describe('docs/errors.md', () => {
  it('docs/errors.md lists every code with its meaning, in source order', () => {
    expect(codes.length).toBeGreaterThan(15);
    expect(rows).toEqual(table);
  });

  it('docs/errors.md has no other rows', () => {
    const lines = page.split('\n').filter((line) => line.startsWith('|'));
    expect(lines.slice(0, 2)).toEqual(['| code | meaning |', '|---|---|']);
    expect(lines).toHaveLength(codes.length + 2);
  });
});

describe('error codes', () => {
  it.each(codes)('the sources throw %s', (code) => {
    expect(written).toContain(`'${code}'`);
  });

  it('the sources throw only documented codes', () => {
    const thrown = new Set(written.match(/\bERR_[A-Z_]+/g));
    expect([...thrown].filter((code) => !codes.includes(code))).toEqual([]);
  });
});

describe('SluiceError', () => {
  it('SluiceError has a name, a code, a message and an optional cause', () => {
    const cause = new Error('why');
    const error = new SluiceError('ERR_CLOSED', 'The limiter has been closed', { cause });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'SluiceError', code: 'ERR_CLOSED', cause });
    expect(String(error)).toBe('SluiceError: The limiter has been closed');
    expect('cause' in new SluiceError('ERR_CLOSED', 'closed')).toBe(false);
  });
});
