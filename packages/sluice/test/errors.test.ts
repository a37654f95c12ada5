import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SluiceError } from '../src/index.ts';

const sources = new URL('../src/', import.meta.url);
const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');

/** Returns the codes in a source file, each with the comment above it. */
const codesIn = (file: string): [code: string, meaning: string][] =>
  [
    ...readFileSync(new URL(file, sources), 'utf8').matchAll(
      /^ {2}\/\*\* (.+) \*\/\n {2}(\w+): never;$/gm,
    ),
  ].map(([, meaning, code]) => [code, meaning]);

const table = codesIn('errors.ts');
const codes = table.map(([code]) => code);
const warningTable = codesIn('warning.ts');
const warningCodes = warningTable.map(([code]) => code);

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
    expect(warningCodes.length).toBeGreaterThan(10);
    expect(rows).toEqual([...table, ...warningTable]);
  });

  it('the tables of docs/errors.md have no rows except the codes of the sources', () => {
    const lines = page.split('\n').filter((line) => line.startsWith('|'));
    const head = ['| code | meaning |', '|---|---|'];
    expect(lines.slice(0, 2)).toEqual(head);
    expect(lines.slice(codes.length + 2, codes.length + 4)).toEqual(head);
    expect(lines).toHaveLength(codes.length + warningCodes.length + 4);
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

describe('warning codes', () => {
  it.each(warningCodes)('the sources emit %s', (code) => {
    // `warning.ts` has each once; the code that emits a warning has it again.
    const uses = written.match(new RegExp(`\\b${code}\\b`, 'g')) ?? [];
    expect(uses.length).toBeGreaterThan(1);
  });

  it('the sources emit only documented codes', () => {
    const emitted = new Set(written.match(/\bWARN_[A-Z_]+/g));
    expect([...emitted].filter((code) => !warningCodes.includes(code))).toEqual([]);
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
