/** Parses Sluice's own file: settings, policies and overrides. */
import { fileKeyOf, SETTINGS, settingProblem } from '../settings.ts';
import type { DeclaredPolicies } from './declared-policies.ts';
import { fieldsOf, withoutUndefined } from './fields.ts';
import { isBareAddress, policiesByAddress } from './key-warnings.ts';
import { MAX_OVERRIDE, type OverrideConfig, type RuleConfig } from './model.ts';
import { isPolicyName, parsePolicy } from './parse-policy.ts';
import type { TopFields } from './parse-rules.ts';
import { override, SETTINGS_IN_FILE } from './schema.ts';
import type { Value } from './value.ts';

/** Returns the valid settings by name, with the values as written in the file. */
export function parseSettingsSection(top: TopFields): Readonly<Record<string, unknown>> {
  const settings: Record<string, unknown> = {};
  for (const name of SETTINGS_IN_FILE) {
    const value = top.at(fileKeyOf(name));
    if (value.isMissing) continue;
    const given = value.data;
    // `settingProblem` hides secrets, unlike the message that is derived from the schema.
    if (SETTINGS[name].read(given) !== undefined) settings[name] = given;
    else value.report(settingProblem(value.label, name, given));
  }
  return settings;
}

export function parsePolicies(top: TopFields, policies: DeclaredPolicies): void {
  for (const [name, value] of top.entries('policies', (name) => `policy \`${name}\``)) {
    const policy = parsePolicy(name, value);
    if (isPolicyName(name)) policies.add(name, policy);
  }
}

export function parseOverrides(
  top: TopFields,
  policies: DeclaredPolicies,
  rules: readonly RuleConfig[],
): readonly OverrideConfig[] {
  const items = top.items('overrides', (place) => `override ${place}`);
  const seen = new Set<string>();
  const byAddress = policiesByAddress(rules);
  return items.flatMap((item) => parseOverride(item, seen, policies, byAddress) ?? []);
}

function parseOverride(
  item: Value,
  seen: Set<string>,
  policies: DeclaredPolicies,
  byAddress: ReadonlySet<string>,
): OverrideConfig | undefined {
  const fields = fieldsOf(item, override);
  if (fields === undefined) return undefined;
  const { policy: name, key, limit, expires, reason } = fields.readAll();
  const policy = policies.find(name, fields.at('policy'))?.policy;
  if (policy === undefined || key === undefined || limit === undefined) return undefined;
  const id = JSON.stringify([name, key]);
  if (seen.has(id)) {
    const what = `one override of policy \`${name}\` for a key`;
    return void item.report(`Expected ${what}, got another`);
  }
  seen.add(id);
  const max = Math.min(MAX_OVERRIDE, Math.floor(Number.MAX_SAFE_INTEGER / policy.windowMs));
  if (limit > max) return void fields.at('limit').expected(`an integer from 1 to ${max}`);
  if (byAddress.has(policy.name) && isBareAddress(key)) {
    const what = `\`address:${key}\` for requests, got \`${key}\``;
    fields.at('key').warn(`Expected ${what}: keys of rules begin with their source`);
  }
  return {
    policy: policy.name,
    key,
    limit,
    ...withoutUndefined({ expiresAtMs: expires, reason }),
  };
}
