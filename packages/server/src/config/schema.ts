/**
 * The schema of configuration files. It is the only declaration of field names, bounds, choices and
 * descriptions. The parsers in this folder, the JSON Schema for editors and the tables in
 * docs/configuration.md use it. The parsers also check references between sections.
 */
import {
  DURATION,
  FAILURE_ACTIONS,
  keyText,
  MAX_KEY_LENGTH,
  MAX_LIMITS,
  optionOf,
  windowAlgorithmNames,
} from 'sluice/engine';
import { z } from 'zod';
import { choiceText, expecting, withParser } from '../expectation.ts';
import { fileKeyOf, SETTING_NAMES, SETTINGS } from '../settings.ts';
import { MAX_OVERRIDE } from './model.ts';
import { parseTime } from './parse-time.ts';

/**
 * The number of overrides is bounded, because a key is compared one by one with patterns that have
 * the same start and end.
 */
const MAX_OVERRIDES_IN_FILE = 10_000;
/** The largest limit that a message of Envoy's protocol can contain (32 bits). */
const MAX_REQUESTS = 2 ** 32 - 1;
const MAX_KEY_PARTS = 16;
const MAX_BLOCK_FACTOR = 1000;
/** The name of a header, cookie or method. Excludes `|`, which separates the sources of a key. */
export const FIELD_NAME = /^[\w!#$%&'*+.^`~-]+$/;

const text = z.string().min(1);
const flag = z.boolean();
const positive = z.int().min(1);
const matching = (expected: string, pattern: RegExp) =>
  expecting(expected, z.string().regex(pattern));
const scalar = z.union([text, z.number(), z.boolean()]).transform(String);
/**
 * Returns a schema for text. It also accepts numbers and booleans, as they are written in the file:
 * the name of a user may be `42`.
 */
const written = (expected = 'text') => expecting(expected, scalar.clone(), { asWritten: true });
const writtenOrEmpty = expecting('text', z.union([scalar, z.literal('')]), { asWritten: true });
/** Returns the schema of an optional field. A field whose value is null counts as missing. */
const maybe = <S extends z.ZodType>(schema: S, help: string) => schema.nullish().describe(help);
const oneOrMore = <S extends z.ZodType>(each: S) => z.union([each, z.array(each).min(1)]);

/** The name of a policy. It appears in keys, metrics and headers. */
export const policyName = matching(
  '1 to 128 printable characters that do not begin with `sluice.`',
  /^(?!sluice\.)[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u,
);

const window = expecting(
  'a duration such as 10s, 1m or 1d',
  z.union([z.string().regex(DURATION), positive]),
);
const algorithm = maybe(z.enum(windowAlgorithmNames), 'Algorithm. Default `sliding-log`.');
/** Returns the only algorithm that has the option. */
const ownerOf = (option: 'buckets' | 'burst') =>
  windowAlgorithmNames.find((name) => optionOf(name) === option);
const buckets = maybe(positive, `Buckets per window, with \`${ownerOf('buckets')}\` only.`);
const burst = maybe(
  positive,
  `Size of the bucket, with \`${ownerOf('burst')}\` only. Default: the limit.`,
);
const onFailure = maybe(
  z.enum(FAILURE_ACTIONS),
  'Action when the store is unavailable. Default: the setting `onFailure`.',
);

export const blockFields = expecting(
  'a map with for',
  z.strictObject({
    for: window.describe('Length of the first block.'),
    factor: maybe(
      positive.max(MAX_BLOCK_FACTOR),
      'Factor by which each block in a row is longer than the block before it. Default 1.',
    ),
    max: maybe(window, 'Longest block. Default: one day, or `for` if that is longer.'),
    forget: maybe(
      window,
      'Time without a block after which a block is a first one again. ' +
        'Default: one day, or `for` if that is longer.',
    ),
  }),
);

export const leaseFields = expecting(
  'true, or a map',
  z.strictObject({
    maxShare: maybe(
      expecting('a number from 0.001 to 0.25', z.number().min(0.001).max(0.25)),
      'Largest part of the free units that one request may borrow. Default 0.25.',
    ),
    maxMs: maybe(
      window,
      'Longest lease. Default: the setting `lease`, at most 1/32 of the window.',
    ),
  }),
);

const sharedPolicyFields = {
  costs: maybe(
    expecting('a map of operations to their costs', z.record(z.string(), positive)),
    'Cost of each operation, by name.',
  ),
  onFailure,
  shadow: maybe(flag, 'Shadow mode: decisions are reported, but not enforced.'),
};

export const policyFields = z.strictObject({
  limit: positive.describe('Cost that is admitted per window.'),
  window: window.describe(
    'Length of the window: `250ms`, `10s`, `1m`, `1h`, `1d`, `2w`, or milliseconds.',
  ),
  algorithm,
  buckets,
  burst,
  block: maybe(
    expecting('a duration such as 15m, or a map with for', z.union([window, blockFields])),
    'How long a denied key is blocked: a duration, or a map. Default: not at all.',
  ),
  lease: maybe(
    expecting('true, false or a map', z.union([flag, leaseFields])),
    'Whether processes may borrow units of hot keys; needs the setting `lease`. Default false.',
  ),
  ...sharedPolicyFields,
});

export const concurrencyFields = z.strictObject({
  concurrency: positive.describe('Cost that can be held at the same time.'),
  lease: maybe(window, 'How long a hold counts unless it is released or renewed. Default `30s`.'),
  ...sharedPolicyFields,
});

/** `100/1m`, `100/min` or `100 per 1m`. */
export const shortPolicy = expecting(
  'text such as 100/1m, or a map with limit and window',
  z
    .string()
    .regex(new RegExp(`^\\d{1,16}(?:/| per )${DURATION.source.slice(1)}`))
    .transform((short) => {
      const [limit, window] = short.split(/\/| per /);
      return { limit: Number(limit), window };
    }),
);

const path = matching('a path that begins with / or *', /^[/*]/);
const method = matching('a method such as GET, or *', FIELD_NAME);
const headerName = matching('the name of a header', FIELD_NAME);

export const requestMatch = z.strictObject({
  path: maybe(oneOrMore(path), 'Begins with `/` or `*`. `*` stops at the next `/`, `**` does not.'),
  method: maybe(oneOrMore(method), 'Method, such as `GET`.'),
  host: maybe(oneOrMore(text), 'Host. `*` matches any characters.'),
  headers: maybe(
    expecting('a map of names to texts', z.record(headerName, written('text, or * for anything'))),
    'Headers by name. `*` matches any value.',
  ),
  caseSensitive: maybe(flag, 'Whether paths are case-sensitive. Default false.'),
});

export const descriptorMatch = z.strictObject({
  domain: written('the name of a domain').describe("Domain of Envoy's descriptor."),
  descriptor: expecting(
    'a map of keys to values',
    z.record(z.string(), written('text, or * for any')),
  ).meta({ minProperties: 1, description: 'All entries of the descriptor, in any order.' }),
});

const keyPart = z
  .string()
  .regex(/^\s*(?:address|method|path|host|(?:header|cookie|query|descriptor|text):)/);
export const keyParts = z.array(keyPart).min(1).max(MAX_KEY_PARTS);

const policyReference = expecting('the name of a policy', z.string().min(1)).describe(
  'Name of a policy.',
);

export const ruleLimit = expecting(
  'a map with a policy',
  z.strictObject({
    policy: policyReference,
    key: maybe(
      z.union([keyPart, keyParts]),
      'Key of the counter. Default: `address`, or all entries of the descriptor.',
    ),
    cost: maybe(positive, 'Cost of a request. Default 1.'),
    operation: maybe(text, "One of the policy's `costs`, instead of `cost`."),
  }),
);

export const ruleLimits = expecting(
  `a list of at most ${MAX_LIMITS} limits, or [] for unlimited`,
  z.array(ruleLimit).max(MAX_LIMITS),
);

export const rule = expecting(
  'a map with limits',
  z.strictObject({
    name: maybe(
      matching('1 to 128 printable characters', /^[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u),
      'Name of the rule in logs and messages.',
    ),
    match: maybe(
      z.union([requestMatch, descriptorMatch]),
      'Requests or descriptors that the rule applies to. Default: all requests.',
    ),
    limits: ruleLimits.describe('Limits that are checked together. `[]` means unlimited.'),
    continue: maybe(flag, 'Whether later rules add their limits as well. Default false.'),
  }),
);

const overrideKey = expecting(
  `a key of 1 to ${MAX_KEY_LENGTH} characters`,
  withParser(scalar, (key) => {
    try {
      return keyText(key);
    } catch {
      return undefined;
    }
  }),
  { asWritten: true },
);

const time = expecting(
  'a time such as 2030-01-31T12:00:00Z',
  withParser(z.string().regex(/^\d{4}-\d\d-\d\d/), parseTime),
);

export const override = expecting(
  'a map with policy, key and limit',
  z.strictObject({
    policy: policyReference,
    key: overrideKey.describe('A key, or a pattern with `*`.'),
    limit: positive.max(MAX_OVERRIDE).describe('Limit for that key.'),
    expires: maybe(time, 'When the override ends.'),
    reason: maybe(text, 'Why the override exists.'),
  }),
);

const DAY_MS = 86_400_000;
const UNIT_MS = {
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
} as const;
const UNITS = Object.keys(UNIT_MS) as readonly (keyof typeof UNIT_MS)[];

/**
 * Returns a pattern that matches a word in upper and lower case. JSON Schema has no flag for
 * case-insensitive patterns, so both cases are listed for each letter.
 */
const anyCase = (word: string): string =>
  word.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
const unitMs = expecting(
  choiceText(UNITS),
  z
    .string()
    .regex(new RegExp(`^(?:${UNITS.map(anyCase).join('|')})$`))
    .transform((unit) => UNIT_MS[unit.toLowerCase() as keyof typeof UNIT_MS]),
);

const requests = z.int().min(0).max(MAX_REQUESTS);
const replaced = expecting('a map with a name', z.strictObject({ name: written() }));

export const rateLimit = expecting(
  'a map with unit and requests_per_unit',
  z.strictObject({
    unit: maybe(unitMs, `One of ${UNITS.join(', ')}.`),
    requests_per_unit: maybe(requests, 'Requests that are admitted per unit. 0 blocks all.'),
    unlimited: maybe(flag, 'No limit.'),
    name: maybe(writtenOrEmpty, 'Name that `replaces` of other limits refers to.'),
    replaces: maybe(
      expecting('a list of maps with a name', z.array(replaced)),
      'Limits that do not apply to a request if this limit applies.',
    ),
    window: maybe(window, 'Any duration, such as `5m`, instead of `unit`.'),
    limit: maybe(requests, 'Another name for `requests_per_unit`.'),
    algorithm,
    buckets,
    burst,
    on_failure: onFailure,
  }),
);

export const descriptor = expecting(
  'a map with a key',
  z
    .strictObject({
      key: written(),
      value: maybe(writtenOrEmpty, '`*` matches any characters. Default: any value.'),
      rate_limit: maybe(rateLimit, 'Limit of requests whose descriptor ends with this entry.'),
      get descriptors(): z.ZodType {
        return maybe(z.array(descriptor), 'Child descriptors.');
      },
      shadow_mode: maybe(flag, 'Shadow mode: decisions are reported, but not enforced.'),
      quota_mode: maybe(
        flag,
        'A request is denied only if all its limits with this field are exceeded.',
      ),
      share_threshold: maybe(flag, 'All values that match the `*` share one counter.'),
      detailed_metric: maybe(flag, 'Accepted and ignored.'),
      value_to_metric: maybe(flag, 'Accepted and ignored.'),
      metadata: maybe(
        z.record(z.string(), z.unknown()),
        'Data that is sent to Envoy while the descriptor is within its limit.',
      ),
    })
    .meta({ id: 'descriptor' }),
);

export const domain = expecting(
  'a map with domain and descriptors',
  z.strictObject({
    domain: written('the name of a domain'),
    descriptors: maybe(
      expecting('a list of descriptors', z.array(descriptor)),
      'Tree of descriptors.',
    ),
  }),
);

export const SETTINGS_IN_FILE = SETTING_NAMES.filter((name) => !SETTINGS[name].notInFile);
const settingFields = Object.fromEntries(
  SETTINGS_IN_FILE.map((name) => [
    fileKeyOf(name),
    maybe(SETTINGS[name].schema, SETTINGS[name].help),
  ]),
);

const sections = {
  policies: maybe(
    expecting(
      'a map of policies',
      z.record(policyName, z.union([shortPolicy, policyFields, concurrencyFields])),
    ),
    'Policies by name.',
  ),
  rules: maybe(
    expecting('a list of rules', z.array(rule)),
    'Rules assign limits to requests and descriptors. They are tried in order.',
  ),
  overrides: maybe(
    expecting('a list of overrides', z.array(override).max(MAX_OVERRIDES_IN_FILE)),
    'Limits of single keys.',
  ),
  domains: maybe(
    expecting('a list of domains', z.array(domain)),
    'Domains as in files of envoyproxy/ratelimit.',
  ),
};

/** The schema of a file in Sluice's own format. */
export const configSchema: z.ZodObject<typeof sections & Readonly<Record<string, z.ZodType>>> =
  z.strictObject({ ...settingFields, ...sections });

/** Returns the JSON Schema (draft 2020-12) of `configSchema`. */
export function jsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(configSchema, { target: 'draft-2020-12', io: 'input' });
  return { ...schema, title: "Sluice's configuration" };
}
