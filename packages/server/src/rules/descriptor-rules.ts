/**
 * Finds the limits of Envoy's descriptors: first by the rules, then in the descriptor trees of the
 * domains.
 */
import { joinKey } from 'sluice';
import type {
  DescriptorConfig,
  DescriptorLimit,
  DescriptorMatch,
  DomainConfig,
  KeyPart,
  RuleConfig,
} from '../config/model.ts';
import type { LimitRequest } from '../decision-service.ts';
import { firstAdded, PatternIndex } from '../pattern-index.ts';
import { runToEnd } from '../slices.ts';
import { matchesWildcardParts } from '../wildcard.ts';
import { ANONYMOUS_KEY, shortenKey } from './request-keys.ts';

/** The entries of a descriptor, in order. */
export type Entries = readonly { readonly key: string; readonly value: string }[];

/** A limit of a descriptor. The cost, if set, is charged for each hit of the request. */
export interface DescriptorRequest extends LimitRequest {
  readonly key: string;
  /**
   * Name in responses to Envoy. For a limit of a rule, the name of the policy. For a limit of a
   * descriptor tree, its own name, if any.
   */
  readonly name: string | undefined;
}

interface DescriptorProperties {
  readonly name: string | undefined;
  readonly replaces: readonly string[];
  /** Whether the limit is soft: a request is denied only if all its soft limits are exceeded. */
  readonly soft: boolean;
  /** Data that is sent to Envoy while the descriptor is within its limit. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

export type DescriptorLimits =
  | (DescriptorProperties & {
      readonly kind: 'limited';
      readonly limits: readonly DescriptorRequest[];
    })
  | (DescriptorProperties & { readonly kind: 'unlimited' })
  | (DescriptorProperties & {
      /** All requests are denied. */
      readonly kind: 'blocked';
      readonly policy: string;
      readonly key: string;
      readonly windowMs: number;
      readonly shadow: boolean;
    });

const NO_PROPERTIES = {
  name: undefined,
  replaces: [],
  soft: false,
  metadata: undefined,
} as const satisfies DescriptorProperties;

export class DescriptorRules {
  readonly #domains = new Map<string, Domain>();

  /** `run` runs the generator that prepares the rules. Default: runs it without pauses. */
  constructor(
    rules: readonly RuleConfig[],
    domains: readonly DomainConfig[],
    run: (work: Generator<void, void>) => void = runToEnd,
  ) {
    run(this.#prepare(rules, domains));
  }

  /** Builds the rules in slices: yields after each rule or descriptor. */
  static *building(
    rules: readonly RuleConfig[],
    domains: readonly DomainConfig[],
  ): Generator<void, DescriptorRules> {
    let work: Generator<void, void> | undefined;
    const built = new DescriptorRules(rules, domains, (given) => {
      work = given;
    });
    yield* work!;
    return built;
  }

  *#prepare(rules: readonly RuleConfig[], domains: readonly DomainConfig[]): Generator<void, void> {
    for (const rule of rules) {
      const { match } = rule;
      if (match.kind === 'descriptor') this.#domain(match.domain).rules.add(rule, match);
      yield;
    }
    for (const { domain, descriptors } of domains) {
      yield* addChildren(this.#domain(domain), descriptors);
    }
  }

  #domain(name: string): Domain {
    let domain = this.#domains.get(name);
    if (domain === undefined) {
      domain = { ...newNode(), rules: new DomainRules() };
      this.#domains.set(name, domain);
    }
    return domain;
  }

  /** Whether the configuration has limits for a domain. */
  hasDomain(domain: string): boolean {
    return this.#domains.has(domain);
  }

  /** Returns the limits of a descriptor; undefined if the configuration has none for it. */
  find(domain: string, entries: Entries): DescriptorLimits | undefined {
    const known = this.#domains.get(domain);
    if (known === undefined || entries.length === 0) return undefined;
    const { limits, isFinal } = known.rules.find(entries);
    const found = isFinal ? undefined : findInTree(known, entries);
    if (limits === undefined) return found;
    if (found?.kind === 'blocked') return found;
    const all = found?.kind === 'limited' ? [...limits, ...found.limits] : limits;
    const properties = found ?? NO_PROPERTIES;
    if (all.length === 0) return { ...properties, kind: 'unlimited' };
    return { ...properties, kind: 'limited', limits: withoutRepeats(all) };
  }
}

interface Domain extends Node {
  readonly rules: DomainRules;
}

/** Returns the limits without repetitions. The first of equal limits is kept, with its cost. */
function withoutRepeats(limits: readonly DescriptorRequest[]): readonly DescriptorRequest[] {
  if (limits.length === 1) return limits;
  return limits.filter(
    ({ policy, key }, at) =>
      limits.findIndex((other) => other.policy === policy && other.key === key) === at,
  );
}

interface RulesFound {
  /** Undefined if no rule matches. */
  readonly limits: readonly DescriptorRequest[] | undefined;
  /** Whether a rule without `continue` matched. If so, the tree is not searched. */
  readonly isFinal: boolean;
}

const NO_RULE: RulesFound = { limits: undefined, isFinal: false };

interface CompiledRule {
  readonly rule: RuleConfig;
  /** For each key, the pattern of its value, split at each `*`. */
  readonly patterns: readonly (readonly [key: string, parts: readonly string[]])[];
}

/** Rules whose descriptors have the same keys. */
interface RulesOfKeys {
  readonly rules: CompiledRule[];
  /** Indexes of rules without patterns, by the values of the entries. */
  readonly exact: Map<string, number[]>;
  /** Indexes of rules with a pattern. */
  readonly others: number[];
}

/** Returns the rules that can match, in the order of the file. */
function candidatesOf(
  { rules, exact, others }: RulesOfKeys,
  entries: Entries,
): readonly CompiledRule[] {
  const same = exact.size === 0 ? undefined : exact.get(valuesOf(entries));
  if (same === undefined) return others.map((place) => rules[place]);
  return [...same, ...others].sort((a, b) => a - b).map((place) => rules[place]);
}

/** Returns the values of the entries as one text, sorted by key. */
const valuesOf = (entries: Entries): string =>
  joinKey(...[...entries].sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ value }) => value));

/**
 * The rules of one domain, indexed by the keys of their entries, because a rule matches only
 * descriptors with exactly its keys. Rules with the same keys are tried in the order of the file.
 */
class DomainRules {
  readonly #byKeys = new Map<string, RulesOfKeys>();

  add(rule: RuleConfig, match: DescriptorMatch): void {
    const entries = Object.entries(match.entries);
    const id = keysOf(entries.map(([key]) => key));
    const group: RulesOfKeys = this.#byKeys.get(id) ?? { rules: [], exact: new Map(), others: [] };
    this.#byKeys.set(id, group);
    const place = group.rules.length;
    group.rules.push({ rule, patterns: entries.map(([key, text]) => [key, text.split('*')]) });
    if (entries.some(([, text]) => text.includes('*'))) group.others.push(place);
    else {
      const values = valuesOf(entries.map(([key, value]) => ({ key, value })));
      const same = group.exact.get(values);
      if (same === undefined) group.exact.set(values, [place]);
      else same.push(place);
    }
  }

  find(entries: Entries): RulesFound {
    if (this.#byKeys.size === 0) return NO_RULE;
    const rules = this.#byKeys.get(keysOf(entries.map(({ key }) => key)));
    if (rules === undefined) return NO_RULE;
    let limits: DescriptorRequest[] | undefined;
    for (const { rule, patterns } of candidatesOf(rules, entries)) {
      if (!patterns.every(([key, parts]) => matchesWildcardParts(parts, entryValue(entries, key))))
        continue;
      limits ??= [];
      for (const { key, ...limit } of rule.limits) {
        const parts = key.map((part) => partOf(part, entries));
        limits.push({ ...limit, key: keyOf(parts), name: limit.policy });
      }
      if (!rule.goOn) return { limits, isFinal: true };
    }
    return { limits, isFinal: false };
  }
}

/**
 * Returns an id for a list of keys. The order of the keys does not matter. The keys of a rule are
 * unique, so a descriptor with repeated keys matches no rule.
 */
const keysOf = (keys: string[]): string => joinKey(...keys.sort());

const entryValue = (entries: Entries, key: string): string =>
  entries.find((entry) => entry.key === key)?.value ?? '';

/** Returns the value of the first source that has one. Sources are entries and literal texts. */
function partOf({ sources }: KeyPart, entries: Entries): string {
  for (const source of sources) {
    const text =
      source.from === 'text'
        ? source.text
        : source.from === 'descriptor'
          ? entryValue(entries, source.name)
          : '';
    if (text !== '') return text;
  }
  return '';
}

/** A descriptor with its children by key, and then by value. */
interface Node {
  readonly children: Map<string, Children>;
  readonly config: DescriptorConfig | undefined;
}

/** Children with the same key. */
interface Children {
  readonly exact: Map<string, Node>;
  /** If several patterns match, the first one in the file has precedence. */
  readonly patterns: PatternIndex<Node>;
  /** The child without a value, which matches any value. */
  any: Node | undefined;
}

const newNode = (config?: DescriptorConfig): Node => ({ children: new Map(), config });

/** Adds descriptors to the tree. Of two equal descriptors, the first is used. */
function* addChildren(node: Node, configs: readonly DescriptorConfig[]): Generator<void, void> {
  for (const config of configs) {
    const { key, value = '', descriptors } = config;
    const children: Children = node.children.get(key) ?? {
      exact: new Map(),
      patterns: new PatternIndex(firstAdded),
      any: undefined,
    };
    node.children.set(key, children);
    const child = newNode(config);
    yield* addChildren(child, descriptors);
    yield;
    if (value === '') children.any ??= child;
    else if (value.includes('*')) children.patterns.add(value, child);
    else if (!children.exact.has(value)) children.exact.set(value, child);
  }
}

/**
 * Returns the child for an entry. Precedence: a child with exactly this value, then patterns, then
 * a child without a value.
 */
function childOf(node: Node, key: string, value: string): Node | undefined {
  const children = node.children.get(key);
  if (children === undefined) return undefined;
  const exact = children.exact.get(value);
  if (exact !== undefined) return exact;
  return children.patterns.find(value)?.value ?? children.any;
}

/**
 * Returns the limits of the node that the last entry leads to, or undefined. Descends one level per
 * entry, without backtracking.
 */
function findInTree(root: Node, entries: Entries): DescriptorLimits | undefined {
  let node = root;
  const parts: string[] = [];
  for (const { key, value } of entries) {
    const child = childOf(node, key, value);
    if (child === undefined) return undefined;
    parts.push(key, child.config?.shared ? child.config.value! : value);
    node = child;
  }
  const { config } = node;
  return config?.limit === undefined ? undefined : limitsOf(config, config.limit, parts);
}

function limitsOf(
  { metadata }: DescriptorConfig,
  limit: DescriptorLimit,
  parts: readonly string[],
): DescriptorLimits {
  const { name, replaces } = limit;
  if (limit.unlimited) return { kind: 'unlimited', name, replaces, soft: false, metadata };
  const { policy, quota: soft = false } = limit;
  if (!limit.blocked) {
    const limits = [{ policy, key: keyOf(parts), name }];
    return { kind: 'limited', limits, name, replaces, soft, metadata };
  }
  const { windowMs, shadow } = limit;
  const key = keyOf(parts);
  return { kind: 'blocked', policy, key, windowMs, shadow, name, replaces, soft, metadata };
}

/** Returns the key for the parts. Requests with the same parts have the same key. */
export const keyOf = (parts: readonly string[]): string =>
  joinKey(...(parts.length < 2 && !parts[0] ? ANONYMOUS_KEY : shortenKey(parts)));
