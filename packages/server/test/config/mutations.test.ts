/**
 * Valid files with random mutations are accepted, or rejected with problems at positions in the
 * file. `CONFIG_MUTATIONS` is the number of mutated files, 400 by default.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { definePolicy } from 'sluice';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type Config, ConfigError } from '../../src/config/model.ts';
import { jsonSchema } from '../../src/config/schema.ts';
import { namesIn, read, textOf } from './fixtures.ts';

const numRuns = Number(process.env.CONFIG_MUTATIONS ?? 400);
const validate = new Ajv2020({ allowUnionTypes: true }).compile(jsonSchema());

const texts = ['good', 'envoy'].flatMap((folder) =>
  namesIn(folder).map((name) => textOf(`${folder}/${name}.yaml`)),
);

/** Texts that mutations insert. */
const pieces = [
  ...['', ' ', '\n', '\r\n', '\t', '  ', ':', ': ', ',', '-', '- ', '?', '[', ']', '{', '}', '#'],
  ...[
    '&a ',
    '*a',
    '<<',
    '<<: *a',
    '!!str ',
    '|',
    '>',
    '"',
    "'",
    '%',
    '---\n',
    '...\n',
    '\0',
    '\ufeff',
  ],
  ...[
    '0',
    '1',
    '-1',
    '1.5',
    '1e99',
    '007',
    '0x10',
    '.inf',
    '.nan',
    '~',
    'null',
    'true',
    'no',
    '[]',
  ],
  ...['{}', '""', '1m', '10/1m', '36501d', '2030-02-30', '__proto__', 'constructor', '\ud800', '𝕏'],
  ...[
    'limit: 5',
    'window: 1s',
    'domain: d',
    'policies:\n',
    'rules:\n',
    'key: a',
    'unlimited: true',
  ],
  ...['address', 'header:x', ' | ', 'descriptor:user', 'unit: second', 'requests_per_unit: 0'],
];

interface Mutation {
  /** Position as a fraction of the length. */
  readonly at: number;
  /** Number of removed characters, or the whole word at the position. */
  readonly removed: number | 'word';
  readonly piece: string;
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.oneof(fc.constant('word' as const), fc.constant(0), fc.nat(3), fc.nat(40)),
  piece: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 4, unit: 'binary' })),
});

const mutate = (text: string, mutations: readonly Mutation[]): string =>
  mutations.reduce((current, { at, removed, piece }) => {
    const start = Math.floor(at * current.length);
    if (removed !== 'word') return current.slice(0, start) + piece + current.slice(start + removed);
    const before = current.slice(0, start).replace(/[\w*/.-]+$/, '');
    return before + piece + current.slice(before.length).replace(/^[\w*/.-]+/, '');
  }, text);

/** Checks the invariants that the service relies on. */
function expectValid(config: Config): void {
  const names = config.policies.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const { name, options } of config.policies) {
    expect(definePolicy(name, options).params?.limit).toBe(options.limit ?? options.concurrency);
  }
  const limits = config.rules.flatMap((rule) => rule.limits);
  for (const { policy, key } of [...limits, ...config.overrides]) {
    expect(names).toContain(policy);
    expect(key.length).toBeGreaterThan(0);
  }
}

function expectPositions({ problems }: ConfigError, text: string): void {
  const lines = text.split('\n');
  expect(problems.length).toBeGreaterThan(0);
  for (const { line, column, message } of problems) {
    expect(line).toBeGreaterThanOrEqual(1);
    expect(line).toBeLessThanOrEqual(lines.length);
    expect(column).toBeGreaterThanOrEqual(1);
    expect(column).toBeLessThanOrEqual(lines[line - 1].length + 1);
    expect(message).toMatch(/^Expected |^\d+ more problems not shown$/);
  }
}

/** The schema has a domain's own file as an entry of `domains`. */
function expectSchema(text: string): void {
  // The parser accepts these as text, but JSON has no such numbers.
  if (/\.(?:inf|nan)/i.test(text)) return;
  const bare = text.replace(/^\ufeff+/, '');
  const data = parse(bare, { merge: true, maxAliasCount: -1, schema: 'core', version: '1.2' });
  validate('domain' in data ? { domains: [data] } : data);
  expect(validate.errors).toBeNull();
}

describe('mutated configuration files', () => {
  it('a mutated file is accepted, or rejected with problems at valid positions', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...texts),
        fc.array(mutation, { minLength: 1, maxLength: 4 }),
        (original, mutations) => {
          const text = mutate(original, mutations);
          try {
            const config = read(text);
            expectValid(config);
            expectSchema(text);
          } catch (error) {
            if (!(error instanceof ConfigError)) throw error;
            expectPositions(error, text);
          }
        },
      ),
      { numRuns },
    );
  });

  it('some mutated files are accepted and others are rejected', () => {
    const outcomes = fc.sample(
      fc.tuple(fc.constantFrom(...texts), fc.array(mutation, { minLength: 1, maxLength: 2 })),
      { numRuns: 200, seed: 7 },
    );
    const isRead = outcomes.map(([original, mutations]) => {
      try {
        return read(mutate(original, mutations)) !== undefined;
      } catch {
        return false;
      }
    });
    expect(isRead).toContain(true);
    expect(isRead).toContain(false);
  });
});
