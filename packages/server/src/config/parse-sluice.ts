/** Sluice's own file: settings, policies, rules, overrides, and domains as Envoy has them. */
import { keyText } from 'sluice/engine';
import { fileKeyOf, SETTINGS, settingProblem } from '../settings.ts';
import { isBareAddress, policiesByAddress } from './key-warnings.ts';
import { type DomainConfig, MAX_OVERRIDE, type OverrideConfig, type RuleConfig } from './model.ts';
import type { DomainParser } from './parse-envoy.ts';
import { type CheckedPolicy, optional, parsePolicy } from './parse-policy.ts';
import { parseTime } from './parse-time.ts';
import type { PolicyRegister } from './policy-register.ts';
import type { Fields, Value } from './value.ts';
import {
  DOMAIN_FIELDS,
  MAX_OVERRIDES,
  OVERRIDE_FIELDS,
  POLICY_NAME,
  SETTING_FIELDS,
} from './vocabulary.ts';

/** By the names that `settings.ts` has for them, as written. */
export function parseSettingsSection(top: Fields): Readonly<Record<string, unknown>> {
  const settings: Record<string, unknown> = {};
  for (const name of SETTING_FIELDS) {
    const value = top.get(fileKeyOf(name));
    if (value.isMissing) continue;
    // Only the proxies that are trusted are a list; elsewhere it would be read as its text.
    const isReadable = value.plain !== undefined || (name === 'trustProxy' && value.isList);
    const given = value.data;
    if (isReadable && SETTINGS[name].read(given) !== undefined) settings[name] = given;
    else value.report(settingProblem(value.label, name, given));
  }
  return settings;
}

export function parsePolicies(top: Fields, policies: PolicyRegister): void {
  const { entries } = top.get('policies').fields('policies', undefined, 'a map of policies');
  for (const [name, value] of entries) {
    const policy = parsePolicy(name, value);
    if (POLICY_NAME.test(name)) policies.add(name, policy);
  }
}

export function parseDomains(
  top: Fields,
  reader: DomainParser,
  file: string,
): readonly DomainConfig[] {
  const items = top.get('domains').items((place) => `domain ${place}`, 'a list of domains');
  return items.flatMap((item) => {
    if (!item.isMap) return item.expected('a map with domain and descriptors') ?? [];
    return reader.read(item.fields(item.label, DOMAIN_FIELDS), file) ?? [];
  });
}

export function parseOverrides(
  top: Fields,
  policies: PolicyRegister,
  rules: readonly RuleConfig[],
): readonly OverrideConfig[] {
  const value = top.get('overrides');
  const items = value.items((place) => `override ${place}`, 'a list of overrides');
  if (items.length > MAX_OVERRIDES) {
    return value.report(`Expected at most ${MAX_OVERRIDES} overrides, got ${items.length}`) ?? [];
  }
  const seen = new Set<string>();
  const byAddress = policiesByAddress(rules);
  return items.flatMap((item) => readOverride(item, seen, policies, byAddress) ?? []);
}

function readOverride(
  item: Value,
  seen: Set<string>,
  policies: PolicyRegister,
  byAddress: ReadonlySet<string>,
): OverrideConfig | undefined {
  if (!item.isMap) return item.expected('a map with policy, key and limit');
  const fields = item.fields(item.label, OVERRIDE_FIELDS);
  const policy = policies.find(fields.get('policy'));
  const key = readOverrideKey(fields.get('key'));
  const limit = readLimit(fields.get('limit'), policy);
  const expiresAtMs = optional(fields.get('expires'), readExpiry);
  const reason = optional(fields.get('reason'), (value) => value.text());
  if (policy === undefined || key === undefined || limit === undefined) return undefined;
  const { name } = policy.config;
  const same = JSON.stringify([name, key]);
  if (seen.has(same)) {
    return item.report(`Expected one override of policy \`${name}\` for a key, got another`);
  }
  seen.add(same);
  if (byAddress.has(name) && isBareAddress(key)) {
    const what = `\`address:${key}\` for requests, got \`${key}\``;
    fields.get('key').warn(`Expected ${what}: keys of rules begin with their source`);
  }
  if (expiresAtMs === false || reason === false) return undefined;
  return {
    policy: name,
    key,
    limit,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    ...(reason === undefined ? {} : { reason }),
  };
}

function readOverrideKey(value: Value): string | undefined {
  const what = 'a key of 1 to 1024 characters';
  const key = value.written(what);
  if (key === undefined) return undefined;
  try {
    return keyText(key);
  } catch {
    return value.expected(what);
  }
}

/** The limit has to be one that the policy could have. */
function readLimit(value: Value, policy: CheckedPolicy | undefined): number | undefined {
  const windowMs = policy?.policy.windowMs ?? 1;
  const exact = Math.floor(Number.MAX_SAFE_INTEGER / windowMs);
  return value.integer(1, Math.min(MAX_OVERRIDE, exact));
}

function readExpiry(value: Value): number | undefined {
  const { plain } = value;
  const time = typeof plain === 'string' ? parseTime(plain) : undefined;
  return time ?? value.expected('a time such as 2030-01-31T12:00:00Z');
}
