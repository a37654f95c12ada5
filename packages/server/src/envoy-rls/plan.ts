/**
 * Converts a request of Envoy to claims. A claim is one limit with the cost of the whole request.
 * Descriptors with the same limit share one claim, because a check must not repeat a limit. The
 * cost of the claim is the sum of their costs.
 */
import { type Limit, type LimitDecision, SluiceError } from 'sluice';
import { MAX_LIMITS } from 'sluice/engine';
import type { DecisionService } from '../decision-service.ts';
import { RESERVED_PREFIX } from '../policies.ts';
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

/** One limit and the cost of the whole request. */
export interface Claim {
  limit: Limit;
  /** 0 if all its descriptors have `hits_addend: 0`. The limit is then only peeked. */
  cost: number;
  readonly isShadow: boolean;
  /** Whether the limit denies only if all soft limits are exceeded (`quota_mode`). */
  isSoft: boolean;
  /** The name reported to Envoy. */
  readonly name: string | undefined;
  /** Undefined until the claim is decided. */
  decision: LimitDecision | undefined;
}

/** A limit with `requests_per_unit: 0`, which denies every request. */
export interface Blocked {
  /** Used only in reports. Its policy has a limit of 1, because the engine has no limit of 0. */
  readonly limit: Limit;
  readonly name: string | undefined;
  readonly isShadow: boolean;
  readonly isSoft: boolean;
}

/** One descriptor and its claims. */
export interface Item {
  /** `free`: no limit applies to the descriptor. */
  readonly kind: 'free' | 'unlimited' | 'blocked' | 'limited';
  readonly claims: readonly Claim[];
  readonly blocked?: Blocked;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface Plan {
  readonly domain: string;
  /** One item for each descriptor of the request, in the same order. */
  readonly items: readonly Item[];
  /** The claims of all descriptors, one per limit. */
  readonly claims: readonly Claim[];
}

/** Properties of a limit that Envoy sends in a descriptor: it is enforced and has no name. */
const SENT_LIMIT = { isShadow: false, isSoft: false, name: undefined };
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
    // As in envoyproxy/ratelimit, limits in descriptors of an unknown domain are ignored.
    if (!isKnown) return { descriptor, entries, found: undefined };
    const found = descriptor.limit === undefined ? rules.find(domain, entries) : undefined;
    return { descriptor, entries, found };
  });
  const replaced = new Set(matched.flatMap(({ found }) => found?.replaces ?? []));
  const items = matched.map(({ descriptor, entries, found }) => {
    if (isKnown && descriptor.limit !== undefined) return planner.override(descriptor, entries);
    if (found === undefined) return FREE;
    const isReplaced = found.kind !== 'unlimited' && replaced.has(found.name ?? '');
    return isReplaced ? FREE : planner.itemFor(descriptor, found);
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

  itemFor(descriptor: Descriptor, found: DescriptorLimits): Item {
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

  /**
   * Returns the item for a limit that Envoy sends in the descriptor. Such a limit is never in
   * shadow mode.
   */
  override(descriptor: Descriptor, entries: Entries): Item {
    const { requestsPerUnit: limit = 0, unit = UNIT.UNKNOWN } = descriptor.limit ?? {};
    const windowMs = unit === UNIT.WEEK ? undefined : windowOfUnit(unit);
    if (windowMs === undefined) throw invalid('the unit of a limit to be SECOND to YEAR', unit);
    const key = keyOf([this.#domain, ...entries.flatMap(({ key, value }) => [key, value])]);
    const policy = `${RESERVED_PREFIX}override.${UNIT_NAMES[unit]}`;
    const cost = this.#hitsOf(descriptor);
    if (limit === 0) {
      const blocked = { limit: this.#inlineLimit(policy, 1, windowMs, key, cost), ...SENT_LIMIT };
      return { kind: 'blocked', claims: [], blocked };
    }
    const inlineLimit = this.#inlineLimit(policy, limit, windowMs, key, 1);
    const claim = this.#claim({ limit: inlineLimit, cost, ...SENT_LIMIT, decision: undefined });
    return { kind: 'limited', claims: [claim] };
  }

  #inlineLimit(policy: string, limit: number, windowMs: number, key: string, cost: number): Limit {
    try {
      return this.#decisionService.inlineLimit(policy, { limit, window: windowMs }, key, cost);
    } catch (error) {
      throw error instanceof SluiceError ? new InvalidRequest(error.message) : error;
    }
  }

  /** Adds a claim and returns it. If the limit already has a claim, adds the cost to that claim. */
  #claim(claim: Claim): Claim {
    const { limit, cost, isSoft } = claim;
    const known = this.claims.find((each) => isSameLimit(each.limit, limit));
    if (known === undefined) {
      if (this.claims.length >= MAX_LIMITS) {
        throw invalid(`at most ${MAX_LIMITS} limits in a request`, 'more');
      }
      this.claims.push(claim);
      return claim;
    }
    known.cost += cost;
    known.isSoft &&= isSoft;
    // Envoy may send equal descriptors with different limits. The smaller limit enforces both.
    if (limit.params.capacity < known.limit.params.capacity) known.limit = limit;
    return known;
  }
}

const isSameLimit = (a: Limit, b: Limit): boolean =>
  a.key === b.key && a.policy.name === b.policy.name;
