/**
 * The form of Sluice's own file, for editors: tools/config-schema.mjs makes a JSON Schema of it.
 * The readers know more, such as which names exist; whatever they accept, this accepts too.
 */
import { z } from 'zod';
import { fileKeyOf, PROXY_NAMES, SETTINGS, type SettingName } from '../settings.ts';
import { MAX_OVERRIDE } from './model.ts';
import {
  ALGORITHMS,
  type DESCRIPTOR_FIELDS,
  type DESCRIPTOR_MATCH_FIELDS,
  type DOMAIN_FIELDS,
  DURATION,
  FAILURE_ACTIONS,
  FIELD_NAME,
  MAX_OVERRIDES,
  MAX_REQUESTS,
  type OVERRIDE_FIELDS,
  type POLICY_FIELDS,
  POLICY_NAME,
  POLICY_NAME_TEXT,
  type RATE_LIMIT_FIELDS,
  type REQUEST_MATCH_FIELDS,
  type RULE_FIELDS,
  type RULE_LIMIT_FIELDS,
  RULE_NAME,
  SETTING_FIELDS,
  SHORT_POLICY,
  UNITS,
} from './vocabulary.ts';

/** A schema for each of the words, and for nothing else. */
type Shape<Words extends readonly string[]> = Readonly<Record<Words[number], z.ZodType>>;

const text = z.string().min(1);
/** What readers take as it is written. */
const written = z.union([text, z.number(), z.boolean()]);
const positive = z.int().min(1);
const oneOrMore = (each: z.ZodType) => z.union([each, z.array(each).min(1)]);
/** A key without a value counts as left out. */
const maybe = (schema: z.ZodType, help: string) => schema.nullish().describe(help);

const integer = (least: number, most: number) =>
  z.union([z.int().min(least).max(most), z.string().regex(/^\d{1,15}$/)]);
const milliseconds = z.union([
  z.int().min(1).max(3_600_000),
  z.string().regex(/^(?:\d{1,9}(?:ms|s|m)|\d{1,15})$/),
]);
const address = z.union([
  z.int().min(0).max(65_535),
  z.string().regex(/^(?:(?:\[[\da-fA-F:.]+\]|[\w.-]*):)?\d{1,5}$/),
]);

const settings: Readonly<Record<Exclude<SettingName, 'config'>, z.ZodType>> = {
  listen: address,
  grpc: address,
  store: z
    .string()
    .regex(/^(?:memory|(?:redis|rediss|redis\+sentinel|redis\+cluster):\/\/[\s\S]+)$/),
  prefix: text,
  maxKeys: integer(1, 2 ** 29),
  deadlineMs: milliseconds,
  onFailure: z.enum(FAILURE_ACTIONS),
  localShare: z.union([z.number().gt(0).max(1), text]),
  adminToken: z.string().min(16),
  adminTokenFile: text,
  tlsCert: text,
  tlsKey: text,
  proxy: z.enum(PROXY_NAMES),
  trustProxy: z.union([z.int().min(1).max(32), text, z.array(text).min(1)]),
  forwardedHeader: z.enum(['x-forwarded-for', 'forwarded']),
  ipv6Prefix: integer(32, 128),
  headers: z.enum(['draft', 'draft-7', 'draft-6', 'legacy', 'none']),
  workers: integer(1, 64),
  overridesFile: text,
  logLevel: z.enum(['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace']),
  logDenials: integer(0, 10_000),
  drainMs: milliseconds,
};

const window = z.union([z.string().regex(DURATION), positive]);
const algorithm = maybe(z.enum(ALGORITHMS), 'How it counts. Default sliding-log.');
const buckets = maybe(positive, 'For sliding-buckets: into how many the window is cut.');
const burst = maybe(positive, 'For token-bucket: how many tokens it holds. Default: the limit.');
const onFailure = maybe(z.enum(FAILURE_ACTIONS), 'What to do when the store is away.');

const policy = z.union([
  z.string().regex(SHORT_POLICY),
  z.strictObject({
    limit: positive.describe('How much cost passes in a window.'),
    window: window.describe('How long the window is: 10s, 1m, 1d, or milliseconds.'),
    algorithm,
    buckets,
    burst,
    costs: maybe(z.record(z.string(), positive), 'What operations cost, by name.'),
    onFailure,
    shadow: maybe(z.boolean(), 'Decided and reported, but never in the way.'),
  } satisfies Shape<typeof POLICY_FIELDS>),
]);

const requestMatch = z.strictObject({
  path: maybe(oneOrMore(z.string().regex(/^[/*]/)), '* stops at /, ** does not.'),
  method: maybe(oneOrMore(z.string().regex(FIELD_NAME)), 'Such as GET.'),
  host: maybe(oneOrMore(text), '* stands for any characters.'),
  headers: maybe(
    z.record(z.string().regex(FIELD_NAME), written),
    'By name; * means that it is there.',
  ),
  caseSensitive: maybe(z.boolean(), 'Whether case tells paths apart. Default false.'),
} satisfies Shape<typeof REQUEST_MATCH_FIELDS>);

const descriptorMatch = z.strictObject({
  domain: written.describe('The domain of the descriptor.'),
  descriptor: z
    .record(z.string(), written)
    .meta({ minProperties: 1, description: 'All entries of it, by key.' }),
} satisfies Shape<typeof DESCRIPTOR_MATCH_FIELDS>);

const keyPart = z
  .string()
  .regex(/^\s*(?:address|method|path|host|(?:header|cookie|query|descriptor|text):)/);

const ruleLimit = z.strictObject({
  policy: text.describe('The name of a policy.'),
  key: maybe(oneOrMore(keyPart), 'Whom it counts. Default: address, or all of the descriptor.'),
  cost: maybe(positive, 'How much a request takes. Default 1.'),
  operation: maybe(text, "The name of one of the policy's costs, instead of cost."),
} satisfies Shape<typeof RULE_LIMIT_FIELDS>);

const rule = z.strictObject({
  name: maybe(z.string().regex(RULE_NAME), 'For logs and messages.'),
  match: maybe(z.union([requestMatch, descriptorMatch]), 'Default: all requests.'),
  limits: z.array(ruleLimit).max(64).describe('Decided together; [] means unlimited.'),
  continue: maybe(z.boolean(), 'Whether the rules after it are asked as well.'),
} satisfies Shape<typeof RULE_FIELDS>);

const override = z.strictObject({
  policy: text.describe('The name of a policy.'),
  key: written.describe('A key, or a pattern with *.'),
  limit: positive.max(MAX_OVERRIDE).describe('What it has instead.'),
  expires: maybe(z.string().regex(/^\d{4}-\d\d-\d\d/), 'From then on it does not count.'),
  reason: maybe(text, 'Why it is there.'),
} satisfies Shape<typeof OVERRIDE_FIELDS>);

/** Units are known in any case, which JSON Schema can only say letter by letter. */
const anyCase = (word: string): string =>
  word.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
const unit = z.string().regex(new RegExp(`^(?:${UNITS.map(anyCase).join('|')})$`));
const requests = z.int().min(0).max(MAX_REQUESTS);
const flag = z.boolean();

const rateLimit = z.strictObject({
  unit: maybe(unit, `One of ${UNITS.join(', ')}.`),
  requests_per_unit: maybe(requests, 'How many pass in a unit; 0 means none.'),
  unlimited: maybe(flag, 'All pass.'),
  name: maybe(z.union([written, z.literal('')]), 'What replaces elsewhere refers to.'),
  replaces: maybe(z.array(z.strictObject({ name: written })), 'Which limits give way to this.'),
  window: maybe(window, 'Any duration, instead of unit.'),
  limit: maybe(requests, 'The same as requests_per_unit.'),
  algorithm,
  buckets,
  burst,
  on_failure: onFailure,
} satisfies Shape<typeof RATE_LIMIT_FIELDS>);

const descriptor: z.ZodType = z
  .strictObject({
    key: written,
    value: maybe(z.union([written, z.literal('')]), '* stands for any characters.'),
    rate_limit: maybe(rateLimit, 'What descriptors that end here are held to.'),
    descriptors: maybe(z.array(z.lazy(() => descriptor)), 'What may follow.'),
    shadow_mode: maybe(flag, 'Decided and reported, but never in the way.'),
    quota_mode: maybe(flag, 'Denied only if all such limits are exceeded.'),
    share_threshold: maybe(flag, 'All values that the * fits are counted as one.'),
    detailed_metric: maybe(flag, 'Accepted and ignored.'),
    value_to_metric: maybe(flag, 'Accepted and ignored.'),
    metadata: maybe(z.record(z.string(), z.unknown()), 'Sent to Envoy.'),
  } satisfies Shape<typeof DESCRIPTOR_FIELDS>)
  .meta({ id: 'descriptor' });

const domain = z.strictObject({
  domain: written,
  descriptors: maybe(z.array(descriptor), 'The tree of descriptors.'),
} satisfies Shape<typeof DOMAIN_FIELDS>);

const settingShape = Object.fromEntries(
  SETTING_FIELDS.map((name) => {
    const schema = settings[name as keyof typeof settings];
    return [fileKeyOf(name), maybe(schema, SETTINGS[name].help)];
  }),
);

export const configSchema = z.strictObject({
  ...settingShape,
  policies: maybe(
    z.record(z.string().regex(POLICY_NAME), policy),
    `What is limited how, by name: ${POLICY_NAME_TEXT}.`,
  ),
  rules: maybe(z.array(rule), 'Which requests and descriptors have which limits.'),
  overrides: maybe(z.array(override).max(MAX_OVERRIDES), 'Keys with a limit of their own.'),
  domains: maybe(z.array(domain), 'What files of envoyproxy/ratelimit hold.'),
});

/** The JSON Schema, draft 2020-12. */
export function jsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(configSchema, { target: 'draft-2020-12', io: 'input' });
  return { ...schema, title: "Sluice's configuration" };
}
