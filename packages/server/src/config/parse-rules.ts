/** `rules` of Sluice's own file: which requests and descriptors have which limits. */

import { unguardedLimits } from './key-warnings.ts';
import { MAX_LIMITS, ruleWithTooManyLimits } from './limit-count.ts';
import type { DescriptorMatch, RequestMatch, RuleConfig, RuleLimit } from './model.ts';
import { parseKey } from './parse-key.ts';
import { type CheckedPolicy, optional } from './parse-policy.ts';
import type { PolicyRegister } from './policy-register.ts';
import { type Fields, quoted, type Value } from './value.ts';
import {
  DESCRIPTOR_MATCH_FIELDS,
  FIELD_NAME,
  REQUEST_MATCH_FIELDS,
  RULE_FIELDS,
  RULE_LIMIT_FIELDS,
  RULE_NAME,
  RULE_NAME_TEXT,
} from './vocabulary.ts';

export function parseRules(value: Value, policies: PolicyRegister): readonly RuleConfig[] {
  const items = value.items((place) => `rule ${place}`, 'a list of rules');
  const reading = { policies, names: new Map(), keys: new Map() };
  const read = items.map((item) => readRule(item, reading));
  const rules = read.filter((rule) => rule !== undefined);
  const wrong = ruleWithTooManyLimits(rules);
  if (wrong !== undefined) {
    const what = `Expected at most ${MAX_LIMITS} limits for one request`;
    const item = items[read.indexOf(wrong)];
    item.report(`${what}, got more with this rule and those before it that have \`continue\``);
  }
  for (const limit of unguardedLimits(rules)) {
    const key = reading.keys.get(limit);
    key?.warn(
      `Expected a limit with key \`address\` beside ${key.label}, got none: ` +
        'a client that makes up keys is not limited',
    );
  }
  return rules;
}

interface Reading {
  readonly policies: PolicyRegister;
  /** Names of rules, and which rule has each. */
  readonly names: Map<string, string>;
  /** Where the key of each limit stands. */
  readonly keys: Map<RuleLimit, Value>;
}

function readRule(item: Value, reading: Reading): RuleConfig | undefined {
  if (!item.isMap) return item.expected('a map with limits');
  const given = item.fields(item.label, RULE_FIELDS).get('name');
  const name = optional(given, readName) || item.label;
  const { names } = reading;
  const taken = names.get(name);
  if (taken !== undefined) given.expected('a name of its own', `, which ${taken} has`);
  names.set(name, item.label);
  const owner = name === item.label ? name : `rule \`${name}\``;
  const fields = item.fields(owner);
  const match = readMatch(fields.get('match'), owner);
  const goOn = fields.get('continue').flag();
  const about = match ?? likely(fields.get('match'));
  const limits = readLimits(fields.get('limits'), owner, about, reading);
  return match && limits && { name, match, limits, goOn };
}

const readName = (value: Value): string | undefined =>
  RULE_NAME.test(String(value.plain)) ? value.text() : value.expected(RULE_NAME_TEXT);

type Match = RequestMatch | DescriptorMatch;

/** Without one, all requests. */
function readMatch(value: Value, owner: string): Match | undefined {
  if (!value.isMissing && !value.isMap) {
    return value.expected('a map with path, method, host, headers, or with domain, descriptor');
  }
  const where = `the match of ${owner}`;
  const fields = value.fields(where);
  const isDescriptor = DESCRIPTOR_MATCH_FIELDS.some((name) => fields.has(name));
  if (isDescriptor) return readDescriptorMatch(value.fields(where, DESCRIPTOR_MATCH_FIELDS));
  return readRequestMatch(value.fields(where, REQUEST_MATCH_FIELDS));
}

/** What a match that is wrong is still about, as far as it decides where keys come from. */
function likely(value: Value): RequestMatch | undefined {
  const names = value.isMap ? value.fields('').entries.map(([name]) => name) : [];
  const isDescriptor = DESCRIPTOR_MATCH_FIELDS.some((name) => names.includes(name));
  return value.isMap && !isDescriptor ? { kind: 'request' } : undefined;
}

function readRequestMatch(fields: Fields): RequestMatch | undefined {
  const path = optional(fields.get('path'), (value) => readTexts(value, isPath, PATH_TEXT));
  const caseSensitive = fields.get('caseSensitive').flag();
  const method = optional(fields.get('method'), (value) => readTexts(value, isMethod, METHOD_TEXT));
  const host = optional(fields.get('host'), (value) => readTexts(value, isAny, 'text'));
  const headers = optional(fields.get('headers'), readHeaders);
  if (path === false || method === false || host === false || headers === false) return undefined;
  return {
    kind: 'request',
    ...(path === undefined ? {} : { path }),
    ...(caseSensitive ? { caseSensitive } : {}),
    ...(method === undefined ? {} : { method: method.map((each) => each.toUpperCase()) }),
    ...(host === undefined ? {} : { host: host.map((each) => each.toLowerCase()) }),
    ...(headers === undefined ? {} : { headers }),
  };
}

const PATH_TEXT = 'a path that begins with / or *';
const METHOD_TEXT = 'a method such as GET, or *';
const isPath = (text: string): boolean => /^[/*]/.test(text);
const isMethod = (text: string): boolean => FIELD_NAME.test(text);
const isAny = (): boolean => true;

/** A text, or a list of them of which one has to fit. */
function readTexts(
  value: Value,
  isRight: (text: string) => boolean,
  what: string,
): readonly string[] | undefined {
  const each = value.oneOrMore().map((item) => {
    const text = item.text(what);
    return text === undefined || isRight(text) ? text : item.expected(what);
  });
  if (each.length === 0)
    return value.report(`Expected ${value.label} to name at least one, got none`);
  return each.every((text) => text !== undefined) ? each : undefined;
}

function readHeaders(value: Value): Readonly<Record<string, string>> | undefined {
  if (!value.isMap) return value.expected('a map of names to texts');
  const { entries } = value.fields(value.label);
  const headers = entries.map(([name, given]) => {
    const text = given.written('text, or * for anything');
    if (FIELD_NAME.test(name)) return [name.toLowerCase(), text] as const;
    const what = `a key of ${value.label} to be the name of a header`;
    return [name, given.reportKey(`Expected ${what}, got ${quoted(name)}`)] as const;
  });
  const names = headers.map(([name]) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined) {
    return value.report(`Expected \`${twice}\` once in ${value.label}, got it again`);
  }
  const isSound = headers.every(([, text]) => text !== undefined);
  return isSound ? (Object.fromEntries(headers) as Record<string, string>) : undefined;
}

function readDescriptorMatch(fields: Fields): DescriptorMatch | undefined {
  const domain = fields.get('domain').written('the name of a domain');
  const value = fields.get('descriptor');
  if (!value.isMap) return value.expected('a map of keys to values');
  const { entries } = value.fields(value.label);
  if (entries.length === 0)
    return value.report(`Expected ${value.label} to have an entry, got none`);
  const texts = entries.map(([key, given]) => [key, given.written('text, or * for any')] as const);
  const isSound = texts.every(([, text]) => text !== undefined);
  if (domain === undefined || !isSound) return undefined;
  return {
    kind: 'descriptor',
    domain,
    entries: Object.fromEntries(texts) as Record<string, string>,
  };
}

function readLimits(
  value: Value,
  owner: string,
  match: Match | undefined,
  reading: Reading,
): readonly RuleLimit[] | undefined {
  const what = `a list of at most ${MAX_LIMITS} limits, or [] for unlimited`;
  if (!value.isList) return value.expected(what);
  const items = value.items((place) => `limit ${place} of ${owner}`);
  if (items.length > MAX_LIMITS) return value.expected(what);
  const limits = items.map((item) => readLimit(item, match, reading));
  const seen = new Set<string>();
  for (const [index, limit] of limits.entries()) {
    const same = limit && JSON.stringify([limit.policy, limit.key]);
    if (same === undefined) continue;
    if (seen.has(same)) {
      const wrong = `Expected ${items[index].label} to differ from those before it`;
      items[index].report(`${wrong}, got the same policy and key`);
    }
    seen.add(same);
  }
  return limits.every((limit) => limit !== undefined) ? limits : undefined;
}

function readLimit(
  item: Value,
  match: Match | undefined,
  { policies, keys }: Reading,
): RuleLimit | undefined {
  if (!item.isMap) return item.expected('a map with a policy');
  const fields = item.fields(item.label, RULE_LIMIT_FIELDS);
  const found = policies.find(fields.get('policy'));
  const capacity = found?.policy.params?.capacity;
  const cost = optional(fields.get('cost'), (value) => value.integer(1, capacity));
  const operation = optional(fields.get('operation'), (value) => readOperation(value, found));
  if (!fields.get('cost').isMissing && !fields.get('operation').isMissing) {
    item.report(`Expected \`cost\` or \`operation\` of ${item.label}, got both`);
  }
  const key = match && parseKey(fields.get('key'), match);
  if (found === undefined || key === undefined) return undefined;
  if (cost === false || operation === false) return undefined;
  const weight = operation === undefined ? undefined : found.policy.costs.get(operation);
  const limit = {
    policy: found.config.name,
    key,
    ...(cost === undefined ? {} : { cost }),
    ...(operation === undefined ? {} : { operation }),
    ...(weight === undefined ? {} : { weight }),
  };
  keys.set(limit, fields.get('key'));
  return limit;
}

function readOperation(value: Value, found: CheckedPolicy | undefined): string | undefined {
  if (found === undefined) return value.text();
  const { costs, name } = found.policy;
  if (costs.size > 0) return value.oneOf([...costs.keys()]);
  return value.expected(`left out, as policy \`${name}\` names no costs`);
}
