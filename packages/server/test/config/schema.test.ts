/** The JSON Schema is up to date, and agrees with the parser as far as a schema can. */
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { configSchema, jsonSchema } from '../../src/config/schema.ts';
import { namesIn, pathOf, textOf } from './fixtures.ts';

const schemaPath = pathOf('../../schema/sluice.schema.json');
const schema = JSON.parse(readFileSync(schemaPath, 'utf8'));
const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(schema);
const accepts = (text: string): boolean => validate(parse(text, { merge: true }));

/** Problems that only the parser finds: unknown names, and fields that depend on each other. */
const PARSER_ONLY = [
  ...['envoy-name-of-a-policy', 'override-twice'],
  ...['override-key-too-long', 'override-limit-too-large-for-window', 'override-unknown-policy'],
  ...['policy-buckets-elsewhere', 'policy-buckets-too-many', 'policy-burst-too-large'],
  ...['policy-block-max-below-for', 'policy-block-zero', 'policy-concurrency-costs-above'],
  ...['policy-concurrency-too-large', 'policy-lease-algorithm', 'policy-lease-too-long'],
  'rule-concurrency',
  'rule-concurrency-of-descriptor',
  ...['policy-costs-above-limit', 'policy-short-too-large', 'policy-short-zero'],
  ...['policy-too-large', 'policy-window-too-long', 'rule-cost-above-limit'],
  ...['rule-cost-and-operation', 'rule-header-twice', 'rule-key-of-descriptor-in-request'],
  ...['rule-key-of-request-in-descriptor', 'rule-limit-twice', 'rule-name-twice'],
  ...['rule-operation-without-costs', 'rule-unknown-operation', 'rule-unknown-policy'],
  'rule-unknown-policy-one-letter',
  ...['setting-listen', 'top-nothing-served'],
];

describe('the JSON Schema', () => {
  it('the JSON Schema file is up to date', () => {
    expect(schema).toEqual(JSON.parse(JSON.stringify(jsonSchema())));
  });

  it('the JSON Schema declares its draft and contains every field of the file', () => {
    expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(Object.keys(schema.properties)).toEqual(Object.keys(configSchema.shape));
  });

  it('the JSON Schema describes each field', () => {
    const undescribed = Object.entries(schema.properties).filter(
      ([, property]) => !(property as { description?: string }).description,
    );
    expect(undescribed).toEqual([]);
  });

  it.each(namesIn('good'))('the JSON Schema accepts the valid file %s', (name) => {
    accepts(textOf(`good/${name}.yaml`));
    expect(validate.errors).toBeNull();
  });

  it.each(namesIn('envoy'))('the JSON Schema accepts the valid domain %s', (name) => {
    validate({ domains: [parse(textOf(`envoy/${name}.yaml`))] });
    expect(validate.errors).toBeNull();
  });

  const invalidNames = namesIn('bad').filter((name) => !name.startsWith('yaml-'));
  const isDomain = (name: string): boolean => /^domain:/m.test(textOf(`bad/${name}.yaml`));

  it('the JSON Schema rejects all invalid files except those in PARSER_ONLY', () => {
    const accepted = invalidNames.filter(
      (name) => !isDomain(name) && accepts(textOf(`bad/${name}.yaml`)),
    );
    expect(accepted.sort()).toEqual([...PARSER_ONLY].sort());
  });

  it('the JSON Schema rejects all invalid domains except those listed', () => {
    const accepted = invalidNames.filter(
      (name) => isDomain(name) && validate({ domains: [parse(textOf(`bad/${name}.yaml`))] }),
    );
    expect(accepted).toEqual([
      ...['envoy-duplicate-descriptor', 'envoy-replaces-itself', 'envoy-requests-missing'],
      ...['envoy-same-path', 'envoy-share-without-star', 'envoy-too-large'],
      ...['envoy-unit-and-window', 'envoy-unit-missing', 'envoy-unlimited-with-unit'],
    ]);
  });
});
