/**
 * Finds requests and descriptors to which rules with `continue` apply more limits than a check can
 * have. For each rule, constructs an example request that matches the rule, and applies all rules
 * to it from the top. A property that no rule has determined yet, such as the method, is open. If a
 * rule requires a value for it, the property gets this value, so that more rules match.
 */
import { MAX_LIMITS } from 'sluice/engine';
import { matchesWildcard } from '../wildcard.ts';
import type { DescriptorMatch, RequestMatch, RuleConfig } from './model.ts';

/**
 * Maximum number of comparisons, which take about 50 ms. If more would be needed, the search ends
 * without a result. A request with too many limits is then rejected when it arrives.
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
    const found = applyRules(group, extend(new Map(), match) ?? new Map());
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the group of a rule. Rules of different groups never match the same request. */
const groupOf = (match: RequestMatch | DescriptorMatch): string =>
  match.kind === 'request'
    ? ''
    : JSON.stringify([match.domain, ...Object.keys(match.entries).sort()]);

/**
 * Applies rules to an example. Returns the rule with which the example exceeds the maximum number
 * of limits; undefined if it stays within the maximum.
 */
function applyRules(rules: readonly RuleConfig[], start: Example): RuleConfig | undefined {
  let example = start;
  const limits = new Set<string>();
  for (const rule of rules) {
    const next = extend(example, rule.match);
    if (next === undefined) continue;
    // A rule without `continue` would end the search. If it requires a value for an open property,
    // assume that the property has another value.
    if (!rule.goOn && next.size > example.size) continue;
    example = next;
    for (const { policy, key } of rule.limits) limits.add(JSON.stringify([policy, key]));
    if (limits.size > MAX_LIMITS) return rule;
    if (!rule.goOn) return undefined;
  }
  return undefined;
}

/**
 * Returns the example with values for the open properties that a match requires. Returns undefined
 * if the example has a property that does not match.
 */
function extend(example: Example, match: RequestMatch | DescriptorMatch): Example | undefined {
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
