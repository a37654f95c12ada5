/**
 * From a request to what has to be decided. Every descriptor finds its limits; where several lead
 * to the same limit, it is one claim with the sum of their costs, because a limit that is asked
 * twice in one step could not tell what the other takes.
 */
import { type Limit, type LimitDecision, SluiceError } from 'sluice';
import type { DecisionService } from '../decision-service.ts';
import { OWN_NAMES } from '../policies.ts';
import {
  type DescriptorLimits,
  type DescriptorRules,
  type Entries,
  keyOf,
} from '../rules/descriptor-rules.ts';
import { type Descriptor, type RateLimitRequest, UNIT, windowOfUnit } from './messages.ts';

/** What Envoy did wrong: gRPC's INVALID_ARGUMENT, or 400. Nothing has been charged. */
export class InvalidRequest extends Error {}

export const MAX_DESCRIPTORS = 256;
export const MAX_ENTRIES = 64;
/** The most that a store decides in one step. */
export const MAX_CLAIMS = 64;

/** One limit, and what the whole request takes of it. */
export interface Claim {
  limit: Limit;
  /** 0 if it is only asked. */
  cost: number;
  readonly isShadow: boolean;
  /** Whether it denies only together with all the other soft ones. */
  isSoft: boolean;
  /** What it is called towards Envoy. */
  readonly name: string | undefined;
  /** What it says, once it has been asked. */
  answer: LimitDecision | undefined;
}

/** `requests_per_unit: 0`: nothing passes. */
export interface Blocked {
  /** As it is reported: a policy with a limit of 1, since the engine has none of 0. */
  readonly limit: Limit;
  readonly name: string | undefined;
  readonly isShadow: boolean;
  readonly isSoft: boolean;
}

/** What is known of one descriptor before anything is decided. */
export interface Item {
  readonly kind: 'free' | 'unlimited' | 'blocked' | 'limited';
  readonly claims: readonly Claim[];
  readonly blocked?: Blocked;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface Plan {
  readonly domain: string;
  /** In the order of the descriptors. */
  readonly items: readonly Item[];
  /** Each limit once. */
  readonly claims: readonly Claim[];
}

/** What an override is: enforced, and without a name. */
const PLAIN = { isShadow: false, isSoft: false, name: undefined };
const FREE: Item = { kind: 'free', claims: [] };
const UNIT_NAMES = Object.keys(UNIT).map((name) => name.toLowerCase());

const invalid = (what: string, came: unknown): InvalidRequest =>
  new InvalidRequest(`Expected ${what}, got ${came}`);

export function planOf(
  decisionService: DecisionService,
  rules: DescriptorRules,
  request: RateLimitRequest,
): Plan {
  const { domain = '', descriptors = [], hitsAddend = 0 } = request;
  if (domain === '') throw invalid('a domain', 'none');
  if (descriptors.length === 0) throw invalid('at least one descriptor', 'none');
  if (descriptors.length > MAX_DESCRIPTORS) {
    throw invalid(`at most ${MAX_DESCRIPTORS} descriptors`, descriptors.length);
  }
  const planner = new Planner(decisionService, domain, hitsAddend || 1);
  const isKnown = rules.hasDomain(domain);
  const asked = descriptors.map((descriptor) => {
    const entries = entriesOf(descriptor);
    // As in envoyproxy/ratelimit, a domain that nobody configured has no limits, sent along or not.
    if (!isKnown) return { descriptor, entries, found: undefined };
    const found = descriptor.limit === undefined ? rules.find(domain, entries) : undefined;
    return { descriptor, entries, found };
  });
  const replaced = new Set(asked.flatMap(({ found }) => found?.replaces ?? []));
  const items = asked.map(({ descriptor, entries, found }) => {
    if (isKnown && descriptor.limit !== undefined) return planner.override(descriptor, entries);
    if (found === undefined) return FREE;
    const isReplaced = found.kind !== 'unlimited' && replaced.has(found.name ?? '');
    return isReplaced ? FREE : planner.found(descriptor, found);
  });
  return { domain, items, claims: planner.claims };
}

function entriesOf({ entries = [], isNegativeHits }: Descriptor): Entries {
  if (isNegativeHits) throw invalid('hits that are taken', 'hits that are given back');
  if (entries.length > MAX_ENTRIES) {
    throw invalid(`at most ${MAX_ENTRIES} entries in a descriptor`, entries.length);
  }
  return entries.map(({ key = '', value = '' }) => ({ key, value }));
}

class Planner {
  readonly #decisionService: DecisionService;
  readonly #domain: string;
  readonly #hits: number;
  readonly claims: Claim[] = [];

  constructor(decisionService: DecisionService, domain: string, hits: number) {
    this.#decisionService = decisionService;
    this.#domain = domain;
    this.#hits = hits;
  }

  #hitsOf({ hitsAddend }: Descriptor): number {
    return hitsAddend === undefined ? this.#hits : (hitsAddend.value ?? 0);
  }

  found(descriptor: Descriptor, found: DescriptorLimits): Item {
    const { kind, name, metadata, soft: isSoft } = found;
    if (kind === 'unlimited') return { kind, claims: [], metadata };
    const hits = this.#hitsOf(descriptor);
    if (kind === 'blocked') {
      const { policy, key, windowMs, shadow: isShadow } = found;
      const limit = this.#inlineLimit(policy, 1, windowMs, key, hits);
      return { kind, claims: [], blocked: { limit, name, isShadow, isSoft }, metadata };
    }
    const { policies } = this.#decisionService;
    const claims = found.limits.map(({ policy, key, cost, operation, name }) => {
      const limit = policies.limit(policy, key, undefined, 1);
      const each = cost ?? limit.policy.costs.get(operation ?? '') ?? 1;
      const isShadow = policies.isShadow(policy);
      return this.#claim({ limit, cost: each * hits, isShadow, isSoft, name, answer: undefined });
    });
    return { kind, claims, metadata };
  }

  /** A limit that came with the descriptor. It is never in shadow. */
  override(descriptor: Descriptor, entries: Entries): Item {
    const { requestsPerUnit: limit = 0, unit = UNIT.UNKNOWN } = descriptor.limit ?? {};
    const windowMs = unit === UNIT.WEEK ? undefined : windowOfUnit(unit);
    if (windowMs === undefined) throw invalid('the unit of a limit to be SECOND to YEAR', unit);
    const key = keyOf([this.#domain, ...entries.flatMap(({ key, value }) => [key, value])]);
    const policy = `${OWN_NAMES}override.${UNIT_NAMES[unit]}`;
    const cost = this.#hitsOf(descriptor);
    if (limit === 0) {
      const blocked = { limit: this.#inlineLimit(policy, 1, windowMs, key, cost), ...PLAIN };
      return { kind: 'blocked', claims: [], blocked };
    }
    const inlinePolicies = this.#inlineLimit(policy, limit, windowMs, key, 1);
    const claim = this.#claim({ limit: inlinePolicies, cost, ...PLAIN, answer: undefined });
    return { kind: 'limited', claims: [claim] };
  }

  #inlineLimit(policy: string, limit: number, windowMs: number, key: string, cost: number): Limit {
    try {
      return this.#decisionService.inlineLimit(policy, { limit, window: windowMs }, key, cost);
    } catch (error) {
      throw error instanceof SluiceError ? new InvalidRequest(error.message) : error;
    }
  }

  /** The claim itself, or the one that is already there for its limit. */
  #claim(claim: Claim): Claim {
    const { limit, cost, isSoft } = claim;
    const known = this.claims.find((each) => isSameLimit(each.limit, limit));
    if (known === undefined) {
      if (this.claims.length >= MAX_CLAIMS) {
        throw invalid(`at most ${MAX_CLAIMS} limits in a request`, 'more');
      }
      this.claims.push(claim);
      return claim;
    }
    known.cost += cost;
    known.isSoft &&= isSoft;
    // Two overrides of one descriptor may differ; whoever keeps to the smaller keeps to both.
    if (limit.params.capacity < known.limit.params.capacity) known.limit = limit;
    return known;
  }
}

/** Names tell policies apart, and with them windows. */
const isSameLimit = (a: Limit, b: Limit): boolean =>
  a.key === b.key && a.policy.name === b.policy.name;
