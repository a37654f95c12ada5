/**
 * Converts a request to claims. Descriptors with the same limit share one claim with the sum of
 * their costs, because the store decides each limit of a check only once.
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

/** An invalid request of Envoy: INVALID_ARGUMENT in gRPC, 400 in HTTP. Nothing was charged. */
export class InvalidRequest extends Error {}

export const MAX_DESCRIPTORS = 256;
export const MAX_ENTRIES = 64;
/** The maximum number of limits of a check. */
export const MAX_CLAIMS = 64;

/** One limit and the cost of the whole request. */
export interface Claim {
  limit: Limit;
  /** 0 for a peek. */
  cost: number;
  readonly isShadow: boolean;
  /** Whether it denies only if all soft limits are exceeded (`quota_mode`). */
  isSoft: boolean;
  /** The name reported to Envoy. */
  readonly name: string | undefined;
  /** Undefined until decided. */
  decision: LimitDecision | undefined;
}

/** A limit of `requests_per_unit: 0`, which denies everything. */
export interface Blocked {
  /** For reports: a policy with a limit of 1, because the engine does not support 0. */
  readonly limit: Limit;
  readonly name: string | undefined;
  readonly isShadow: boolean;
  readonly isSoft: boolean;
}

/** One descriptor before the decision. */
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
  /** One per limit. */
  readonly claims: readonly Claim[];
}

/** Limits that come with a descriptor are enforced and have no name. */
const PLAIN = { isShadow: false, isSoft: false, name: undefined };
const FREE: Item = { kind: 'free', claims: [] };
const UNIT_NAMES = Object.keys(UNIT).map((name) => name.toLowerCase());

const invalid = (what: string, received: unknown): InvalidRequest =>
  new InvalidRequest(`Expected ${what}, got ${received}`);

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
  const matched = descriptors.map((descriptor) => {
    const entries = entriesOf(descriptor);
    // As in envoyproxy/ratelimit, an unknown domain has no limits, not even those in descriptors.
    if (!isKnown) return { descriptor, entries, found: undefined };
    const found = descriptor.limit === undefined ? rules.find(domain, entries) : undefined;
    return { descriptor, entries, found };
  });
  const replaced = new Set(matched.flatMap(({ found }) => found?.replaces ?? []));
  const items = matched.map(({ descriptor, entries, found }) => {
    if (isKnown && descriptor.limit !== undefined) return planner.override(descriptor, entries);
    if (found === undefined) return FREE;
    const isReplaced = found.kind !== 'unlimited' && replaced.has(found.name ?? '');
    return isReplaced ? FREE : planner.found(descriptor, found);
  });
  return { domain, items, claims: planner.claims };
}

function entriesOf({ entries = [], isNegativeHits }: Descriptor): Entries {
  if (isNegativeHits) throw invalid('a positive number of hits', '`is_negative_hits`');
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
      return this.#claim({ limit, cost: each * hits, isShadow, isSoft, name, decision: undefined });
    });
    return { kind, claims, metadata };
  }

  /** Returns the item of a limit that comes with the descriptor. It is never in shadow mode. */
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
    const inlineLimit = this.#inlineLimit(policy, limit, windowMs, key, 1);
    const claim = this.#claim({ limit: inlineLimit, cost, ...PLAIN, decision: undefined });
    return { kind: 'limited', claims: [claim] };
  }

  #inlineLimit(policy: string, limit: number, windowMs: number, key: string, cost: number): Limit {
    try {
      return this.#decisionService.inlineLimit(policy, { limit, window: windowMs }, key, cost);
    } catch (error) {
      throw error instanceof SluiceError ? new InvalidRequest(error.message) : error;
    }
  }

  /** Adds a claim. Returns it, or the existing claim of the same limit with the cost added. */
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
    // Limits of equal descriptors may differ; the smaller one satisfies both.
    if (limit.params.capacity < known.limit.params.capacity) known.limit = limit;
    return known;
  }
}

const isSameLimit = (a: Limit, b: Limit): boolean =>
  a.key === b.key && a.policy.name === b.policy.name;
