/** Which limits a descriptor of Envoy's has: rules first, then the trees of domains. */
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
import { atOnce } from '../slices.ts';
import { matchesWildcardParts } from '../wildcard.ts';
import { ANONYMOUS_KEY, shortened } from './request-keys.ts';

/** The entries of a descriptor, in order. */
export type Entries = readonly { readonly key: string; readonly value: string }[];

/** A limit of a descriptor. Its cost, if it has one, is that of each hit of the request. */
export interface DescriptorRequest extends LimitRequest {
  readonly key: string;
  /** What it is called towards Envoy: in rules the policy's name, in trees its own if any. */
  readonly name: string | undefined;
}

/** What is said about a descriptor, whatever it is held to. */
interface Finding {
  readonly name: string | undefined;
  readonly replaces: readonly string[];
  /** Whether it denies only together with all other soft limits of the request. */
  readonly soft: boolean;
  /** Plain data for Envoy, for as long as the limit is kept. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

export type DescriptorLimits =
  | (Finding & {
      readonly kind: 'limited';
      readonly limits: readonly DescriptorRequest[];
    })
  | (Finding & { readonly kind: 'unlimited' })
  | (Finding & {
      /** Nothing passes. */
      readonly kind: 'blocked';
      readonly policy: string;
      readonly key: string;
      readonly windowMs: number;
      readonly shadow: boolean;
    });

const NOTHING_SAID = {
  name: undefined,
  replaces: [],
  soft: false,
  metadata: undefined,
} as const satisfies Finding;

export class DescriptorRules {
  readonly #domains = new Map<string, Domain>();

  /** `run` runs the work that makes the rules ready. Default: at once. */
  constructor(
    rules: readonly RuleConfig[],
    domains: readonly DomainConfig[],
    run: (work: Generator<void, void>) => void = atOnce,
  ) {
    run(this.#prepare(rules, domains));
  }

  /** Makes rules in slices. */
  static *building(
    rules: readonly RuleConfig[],
    domains: readonly DomainConfig[],
  ): Generator<void, DescriptorRules> {
    let work: Generator<void, void> | undefined;
    const made = new DescriptorRules(rules, domains, (given) => {
      work = given;
    });
    yield* work!;
    return made;
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

  /** Whether anything is said about a domain. */
  hasDomain(domain: string): boolean {
    return this.#domains.has(domain);
  }

  /** What a descriptor is held to; undefined if nothing is said about it. */
  find(domain: string, entries: Entries): DescriptorLimits | undefined {
    const known = this.#domains.get(domain);
    if (known === undefined || entries.length === 0) return undefined;
    const { limits, isFinal } = known.rules.find(entries);
    const found = isFinal ? undefined : findInTree(known, entries);
    if (limits === undefined) return found;
    if (found?.kind === 'blocked') return found;
    const all = found?.kind === 'limited' ? [...limits, ...found.limits] : limits;
    const said = found ?? NOTHING_SAID;
    if (all.length === 0) return { ...said, kind: 'unlimited' };
    return { ...said, kind: 'limited', limits: withoutRepeats(all) };
  }
}

interface Domain extends Node {
  readonly rules: DomainRules;
}

/** A limit that two rules lead to is one limit, and the first of them says what it costs. */
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
  /** Whether nothing else is to be asked. */
  readonly isFinal: boolean;
}

const NO_RULE: RulesFound = { limits: undefined, isFinal: false };

interface CompiledRule {
  readonly rule: RuleConfig;
  /** What stands between the stars of each value. */
  readonly patterns: readonly (readonly [key: string, parts: readonly string[]])[];
}

/** Rules whose descriptors have the same keys, and where those without stars are. */
interface RulesOfKeys {
  readonly rules: CompiledRule[];
  /** Places by the values of the entries. */
  readonly exact: Map<string, number[]>;
  /** Places of rules with a pattern. */
  readonly others: number[];
}

/** Rules that may fit, in the order of the file. */
function candidatesOf(
  { rules, exact, others }: RulesOfKeys,
  entries: Entries,
): readonly CompiledRule[] {
  const same = exact.size === 0 ? undefined : exact.get(valuesOf(entries));
  if (same === undefined) return others.map((place) => rules[place]);
  return [...same, ...others].sort((a, b) => a - b).map((place) => rules[place]);
}

/** The values of entries in the order of their keys. */
const valuesOf = (entries: Entries): string =>
  joinKey(...[...entries].sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ value }) => value));

/**
 * The rules of one domain. A rule fits only descriptors that have its keys and no others, so rules
 * are found by their keys; among those with the same keys the order of the file holds.
 */
class DomainRules {
  readonly #byKeys = new Map<string, RulesOfKeys>();

  add(rule: RuleConfig, match: DescriptorMatch): void {
    const entries = Object.entries(match.entries);
    const id = keysOf(entries.map(([key]) => key));
    const known: RulesOfKeys = this.#byKeys.get(id) ?? { rules: [], exact: new Map(), others: [] };
    this.#byKeys.set(id, known);
    const place = known.rules.length;
    known.rules.push({ rule, patterns: entries.map(([key, text]) => [key, text.split('*')]) });
    if (entries.some(([, text]) => text.includes('*'))) known.others.push(place);
    else {
      const values = valuesOf(entries.map(([key, value]) => ({ key, value })));
      const same = known.exact.get(values);
      if (same === undefined) known.exact.set(values, [place]);
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

/** Which keys there are, in any order. One that is there twice is no rule's, as theirs differ. */
const keysOf = (keys: string[]): string => joinKey(...keys.sort());

const entryValue = (entries: Entries, key: string): string =>
  entries.find((entry) => entry.key === key)?.value ?? '';

/** The first source that has something. Only entries and texts can: there is no request here. */
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

/** One descriptor of a file, with those below it by key, and then by value. */
interface Node {
  readonly children: Map<string, Children>;
  readonly config: DescriptorConfig | undefined;
}

/** The descriptors of one place that have the same key. */
interface Children {
  readonly exact: Map<string, Node>;
  /** The first of the file that fits counts. */
  readonly patterns: PatternIndex<Node>;
  any: Node | undefined;
}

const newNode = (config?: DescriptorConfig): Node => ({ children: new Map(), config });

/** Where two descriptors are the same, the first is it. */
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

/** The value itself goes before patterns, in their order, and those before any value at all. */
function childOf(node: Node, key: string, value: string): Node | undefined {
  const children = node.children.get(key);
  if (children === undefined) return undefined;
  const exact = children.exact.get(value);
  if (exact !== undefined) return exact;
  return children.patterns.find(value)?.value ?? children.any;
}

/**
 * Takes one step for each entry, and never goes back: a descriptor has the limit of the place where
 * its last entry leads, or none.
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

/** Parts as a key, whatever they are: the same as for the same parts of a request. */
export const keyOf = (parts: readonly string[]): string =>
  joinKey(...(parts.length < 2 && !parts[0] ? ANONYMOUS_KEY : shortened(parts)));
