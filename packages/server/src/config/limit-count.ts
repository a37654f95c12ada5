/**
 * Finds requests and descriptors that rules with `continue` give more limits than a check can have.
 * For each rule a request is made up that matches it, and the rules are followed from the top. What
 * the request leaves open, such as its method, is chosen so that more rules match.
 */
import { MAX_LIMITS } from 'sluice/engine';
import { matchesWildcard } from '../wildcard.ts';
import type { DescriptorMatch, RequestMatch, RuleConfig } from './model.ts';

/**
 * Rules that are compared at most, about 50 ms. What is left is found when such a request comes.
 */
const MAX_STEPS = 100_000;

/** Fields of a request, or entries of a descriptor. Those that are missing are not chosen yet. */
type Example = ReadonlyMap<string, string>;

/** The rule at which the limits become too many; undefined if none is found. */
export function ruleWithTooManyLimits(rules: readonly RuleConfig[]): RuleConfig | undefined {
  const most = rules.reduce((longest, { limits }) => Math.max(longest, limits.length), 0);
  const going = rules.reduce((sum, { goOn, limits }) => sum + (goOn ? limits.length : 0), 0);
  if (going + most <= MAX_LIMITS) return undefined;
  const places = rules.map(({ match }) => placeOf(match));
  let steps = 0;
  const tried = new Set<string>();
  for (const [at, { match }] of rules.entries()) {
    const id = JSON.stringify(match);
    if (tried.has(id)) continue;
    tried.add(id);
    steps += rules.length;
    if (steps > MAX_STEPS) return undefined;
    const near = rules.filter((_, other) => places[other] === places[at]);
    const found = followed(near, extended(new Map(), match) ?? new Map());
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Descriptors are apart from requests, and by their domain and keys from each other. */
const placeOf = (match: RequestMatch | DescriptorMatch): string =>
  match.kind === 'request'
    ? ''
    : JSON.stringify([match.domain, ...Object.keys(match.entries).sort()]);

function followed(rules: readonly RuleConfig[], start: Example): RuleConfig | undefined {
  let example = start;
  const limits = new Set<string>();
  for (const rule of rules) {
    const next = extended(example, rule.match);
    if (next === undefined) continue;
    // A rule that ends it is avoided where the example leaves a choice.
    if (!rule.goOn && next.size > example.size) continue;
    example = next;
    for (const { policy, key } of rule.limits) limits.add(JSON.stringify([policy, key]));
    if (limits.size > MAX_LIMITS) return rule;
    if (!rule.goOn) return undefined;
  }
  return undefined;
}

/** The example with what a match needs besides; undefined if it contradicts the match. */
function extended(example: Example, match: RequestMatch | DescriptorMatch): Example | undefined {
  const missing: [string, string][] = [];
  for (const [name, patterns] of needsOf(match)) {
    const value = example.get(name);
    if (value === undefined) missing.push([name, patterns[0].replaceAll(/\*+/g, 'x')]);
    else if (!patterns.some((pattern) => matchesWildcard(pattern, value))) return undefined;
  }
  return missing.length === 0 ? example : new Map([...example, ...missing]);
}

function needsOf(match: RequestMatch | DescriptorMatch): readonly [string, readonly string[]][] {
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
