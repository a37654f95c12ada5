/**
 * Finds requests and descriptors to which rules with `continue` apply more limits than a check can
 * have. For each rule, constructs an example request that matches the rule, and applies all rules
 * to it from the top. Properties that are still open, such as the method, are set so that more
 * rules match.
 */
import { MAX_LIMITS } from 'sluice/engine';
import { matchesWildcard } from '../wildcard.ts';
import type { DescriptorMatch, RequestMatch, RuleConfig } from './model.ts';

/**
 * Maximum number of comparisons, about 50 ms. With more, nothing is found here, and a request with
 * too many limits is rejected when it arrives.
 */
const MAX_STEPS = 100_000;

/** Properties of a request, or entries of a descriptor. Missing properties are still open. */
type Example = ReadonlyMap<string, string>;

/** Returns the rule that exceeds the maximum number of limits; undefined if none is found. */
export function ruleWithTooManyLimits(rules: readonly RuleConfig[]): RuleConfig | undefined {
  const maxPerRule = rules.reduce((max, { limits }) => Math.max(max, limits.length), 0);
  const continued = rules.reduce((sum, { goOn, limits }) => sum + (goOn ? limits.length : 0), 0);
  if (continued + maxPerRule <= MAX_LIMITS) return undefined;
  const groups = rules.map(({ match }) => groupOf(match));
  let steps = 0;
  const tried = new Set<string>();
  for (const [at, { match }] of rules.entries()) {
    const id = JSON.stringify(match);
    if (tried.has(id)) continue;
    tried.add(id);
    steps += rules.length;
    if (steps > MAX_STEPS) return undefined;
    const group = rules.filter((_, other) => groups[other] === groups[at]);
    const found = applyRules(group, extended(new Map(), match) ?? new Map());
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the group of a rule. Rules of different groups never match the same request. */
const groupOf = (match: RequestMatch | DescriptorMatch): string =>
  match.kind === 'request'
    ? ''
    : JSON.stringify([match.domain, ...Object.keys(match.entries).sort()]);

/** Returns the rule at which the example has too many limits. */
function applyRules(rules: readonly RuleConfig[], start: Example): RuleConfig | undefined {
  let example = start;
  const limits = new Set<string>();
  for (const rule of rules) {
    const next = extended(example, rule.match);
    if (next === undefined) continue;
    // A rule without `continue` would end the search, so open properties are set not to match it.
    if (!rule.goOn && next.size > example.size) continue;
    example = next;
    for (const { policy, key } of rule.limits) limits.add(JSON.stringify([policy, key]));
    if (limits.size > MAX_LIMITS) return rule;
    if (!rule.goOn) return undefined;
  }
  return undefined;
}

/**
 * Returns the example with the open properties that a match requires. Returns undefined if the
 * example has a property that does not match.
 */
function extended(example: Example, match: RequestMatch | DescriptorMatch): Example | undefined {
  const missing: [string, string][] = [];
  for (const [name, patterns] of requirementsOf(match)) {
    const value = example.get(name);
    if (value === undefined) missing.push([name, patterns[0].replaceAll(/\*+/g, 'x')]);
    else if (!patterns.some((pattern) => matchesWildcard(pattern, value))) return undefined;
  }
  return missing.length === 0 ? example : new Map([...example, ...missing]);
}

function requirementsOf(
  match: RequestMatch | DescriptorMatch,
): readonly [string, readonly string[]][] {
  if (match.kind === 'descriptor') {
    return Object.entries(match.entries).map(([key, value]) => [`entry ${key}`, [value]]);
  }
  const { path, method, host, headers = {} } = match;
  return [
    ...Object.entries({ path, method, host }).flatMap(([name, patterns]) =>
      patterns === undefined ? [] : [[name, patterns] as [string, readonly string[]]],
    ),
    ...Object.entries(headers).map(([name, pattern]): [string, readonly string[]] => [
      `header ${name}`,
      [pattern],
    ]),
  ];
}
