/** Parses `rules`, which assign limits to requests and descriptors. */
import { isConcurrency, MAX_LIMITS } from 'sluice/engine';
import { choiceText } from '../expectation.ts';
import type { DeclaredPolicies } from './declared-policies.ts';
import { didYouMean } from './did-you-mean.ts';
import { Fields, fieldsOf, withoutUndefined } from './fields.ts';
import { unguardedLimits } from './key-warnings.ts';
import { ruleWithTooManyLimits } from './limit-count.ts';
import type { DescriptorMatch, RequestMatch, RuleConfig, RuleLimit } from './model.ts';
import { parseKey } from './parse-key.ts';
import type { CheckedPolicy } from './parse-policy.ts';
import { type configSchema, descriptorMatch, requestMatch, rule, ruleLimit } from './schema.ts';
import { quoted, type Value } from './value.ts';

export type TopFields = Fields<(typeof configSchema)['shape']>;
type RuleFields = Fields<(typeof rule)['shape']>;
type Match = RequestMatch | DescriptorMatch;

export function parseRules(top: TopFields, policies: DeclaredPolicies): readonly RuleConfig[] {
  const items = top.items('rules', (place) => `rule ${place}`);
  const context: Context = { policies, names: new Map(), keys: new Map() };
  const parsed = items.map((item) => parseRule(item, context));
  const rules = parsed.filter((each) => each !== undefined);
  const excessive = ruleWithTooManyLimits(rules);
  if (excessive !== undefined) {
    const what = `Expected at most ${MAX_LIMITS} limits for one request`;
    const item = items[parsed.indexOf(excessive)];
    item.report(`${what}, got more with this rule and those before it that have \`continue\``);
  }
  for (const limit of unguardedLimits(rules)) {
    const key = context.keys.get(limit);
    key?.warn(
      `Expected also a limit with key \`address\` for the requests of ${key.label}, got none: ` +
        'a client that makes up keys is not limited',
    );
  }
  return rules;
}

interface Context {
  readonly policies: DeclaredPolicies;
  /** The label of the last rule that has a name, by that name. */
  readonly names: Map<string, string>;
  /** The value in the file that sets the key of each limit, for warnings. */
  readonly keys: Map<RuleLimit, Value>;
}

function parseRule(item: Value, context: Context): RuleConfig | undefined {
  // Messages about a rule contain its name, so the name is read first.
  const { plain } = item.entries(() => '').get('name') ?? {};
  const isNamed = rule.shape.name.safeParse(plain).success && typeof plain === 'string';
  const name = isNamed ? plain : item.label;
  const owner = isNamed ? `rule \`${name}\`` : name;
  const fields = fieldsOf(item, rule, owner);
  if (fields === undefined) return undefined;
  fields.read('name');
  const other = context.names.get(name);
  if (other !== undefined) {
    const what = `the name of ${item.label} to be unique, got ${quoted(name)}`;
    fields.at('name').report(`Expected ${what}, which ${other} has`);
  }
  context.names.set(name, item.label);
  const value = fields.at('match');
  const match = parseMatch(value, owner);
  const goOn = fields.read('continue') ?? false;
  const limits = parseLimits(fields, owner, match ?? fallbackMatch(value), context);
  return match && limits && { name, match, limits, goOn };
}

const isDescriptorMatch = (value: Value): boolean =>
  [...value.entries(() => '').keys()].some((name) => Object.hasOwn(descriptorMatch.shape, name));

/** Returns the match of a rule. Default: all requests. */
function parseMatch(value: Value, owner: string): Match | undefined {
  if (value.isMissing) return { kind: 'request' };
  if (!value.isMap) {
    const what = 'a map with path, method, host, headers, or with domain, descriptor';
    return void value.expected(what);
  }
  const where = `the match of ${owner}`;
  return isDescriptorMatch(value)
    ? parseDescriptorMatch(new Fields(value, descriptorMatch, where))
    : parseRequestMatch(new Fields(value, requestMatch, where));
}

/**
 * Returns the match that is used to validate the keys of a rule whose own match is invalid. Returns
 * undefined if the invalid match is for descriptors, because valid keys then depend on the match.
 */
const fallbackMatch = (value: Value): RequestMatch | undefined =>
  value.isMap && !isDescriptorMatch(value) ? { kind: 'request' } : undefined;

function parseRequestMatch(
  fields: Fields<(typeof requestMatch)['shape']>,
): RequestMatch | undefined {
  const parsed = fields.complete();
  if (parsed === undefined) return undefined;
  const { path, method, host, caseSensitive } = parsed;
  const headers = Object.entries(parsed.headers ?? {});
  const lowerCase = headers.map(([name, text]) => [name.toLowerCase(), text] as const);
  const names = lowerCase.map(([name]) => name);
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated !== undefined) {
    const value = fields.at('headers');
    return void value.report(`Expected \`${repeated}\` once in ${value.label}, got it again`);
  }
  return {
    kind: 'request',
    ...(path === undefined ? {} : { path: [path].flat() }),
    ...(caseSensitive ? { caseSensitive } : {}),
    ...(method === undefined ? {} : { method: [method].flat().map((each) => each.toUpperCase()) }),
    ...(host === undefined ? {} : { host: [host].flat().map((each) => each.toLowerCase()) }),
    ...(parsed.headers === undefined ? {} : { headers: Object.fromEntries(lowerCase) }),
  };
}

function parseDescriptorMatch(
  fields: Fields<(typeof descriptorMatch)['shape']>,
): DescriptorMatch | undefined {
  const { domain, descriptor: entries } = fields.readAll();
  if (domain === undefined || entries === undefined) return undefined;
  if (Object.keys(entries).length > 0) return { kind: 'descriptor', domain, entries };
  const value = fields.at('descriptor');
  return void value.report(`Expected ${value.label} to have at least 1 entry, got 0`);
}

function parseLimits(
  fields: RuleFields,
  owner: string,
  match: Match | undefined,
  context: Context,
): readonly RuleLimit[] | undefined {
  const items = fields.items('limits', (place) => `limit ${place} of ${owner}`);
  const limits = items.map((item) => parseLimit(item, match, context));
  const seen = new Set<string>();
  for (const [index, limit] of limits.entries()) {
    const id = limit && JSON.stringify([limit.policy, limit.key]);
    if (id === undefined) continue;
    if (seen.has(id)) {
      const what = `Expected ${items[index].label} to differ from those before it`;
      items[index].report(`${what}, got the same policy and key`);
    }
    seen.add(id);
  }
  return limits.every((limit) => limit !== undefined) ? limits : undefined;
}

function parseLimit(
  item: Value,
  match: Match | undefined,
  { policies, keys }: Context,
): RuleLimit | undefined {
  const fields = fieldsOf(item, ruleLimit);
  if (fields === undefined) return undefined;
  const found = policies.find(fields.read('policy'), fields.at('policy'));
  if (found !== undefined && isConcurrency(found.policy)) {
    return void rejectConcurrency(found.policy.name, fields.at('policy'));
  }
  const cost = fields.read('cost');
  const operation = fields.read('operation');
  const isCostAllowed = cost === undefined || isWithinCapacity(cost, fields.at('cost'), found);
  const isKnown =
    operation === undefined || isOperationOf(found, operation, fields.at('operation'));
  if (!fields.at('cost').isMissing && !fields.at('operation').isMissing) {
    item.report(`Expected \`cost\` or \`operation\` of ${item.label}, got both`);
  }
  const key = match && parseKey(fields.at('key'), match);
  if (found === undefined || key === undefined) return undefined;
  if (!fields.isValid || !isCostAllowed || !isKnown) return undefined;
  const weight = operation === undefined ? undefined : found.policy.costs.get(operation);
  const limit = {
    policy: found.config.name,
    key,
    ...withoutUndefined({ cost, operation, weight }),
  };
  keys.set(limit, fields.at('key'));
  return limit;
}

/**
 * Reports a rule with a concurrency limit as a problem. Forward-auth and Envoy's protocol report
 * only the beginning of a request, so the service could not release a hold.
 */
function rejectConcurrency(name: string, value: Value): void {
  value.report(
    `Expected ${value.label} to be a policy with a window, got ${quoted(name)} with ` +
      '`concurrency`: a proxy does not report the end of a request, so a hold would last its ' +
      'whole lease',
  );
}

function isWithinCapacity(cost: number, value: Value, found: CheckedPolicy | undefined): boolean {
  const capacity = found?.policy.params?.capacity ?? cost;
  if (cost > capacity) value.expected(`an integer from 1 to ${capacity}`);
  return cost <= capacity;
}

function isOperationOf(found: CheckedPolicy | undefined, operation: string, value: Value): boolean {
  if (found === undefined || found.policy.costs.has(operation)) return true;
  const { name } = found.policy;
  const names = [...found.policy.costs.keys()];
  if (names.length > 0) value.expected(choiceText(names), didYouMean(operation, names));
  else value.expected(`left out, as policy \`${name}\` names no costs`);
  return false;
}
