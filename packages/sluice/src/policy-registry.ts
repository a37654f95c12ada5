/**
 * The policies of a limiter by name, and the checking of what callers ask of them: from here on,
 * names, keys and costs are sound.
 */
import type { LimitParams } from './algorithms/algorithm.ts';
import type { Receipt } from './decision.ts';
import { checkFields, checkInteger, closed, expected, isRecord } from './errors.ts';
import { type Key, keyText } from './key.ts';
import { definePolicy, type FailureAction, type Policy, type PolicyInput } from './policy.ts';
import { type Adjustment, idOf, type Limit } from './store.ts';

/** The loose form of what callers pass; the limiter's types are stricter. */
export interface CostFields {
  readonly cost?: number | undefined;
  readonly operation?: string | undefined;
}

export interface CallFields extends CostFields {
  readonly id?: string | undefined;
  readonly onFailure?: FailureAction | undefined;
}

/** More limits than that in one check is a mistake, not a need. */
const MAX_LIMITS = 64;

/** Whether there are as many as a check may have. */
const isList = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_LIMITS;

const REQUEST_FIELDS = ['policy', 'key', 'cost', 'operation'];

function costOf({ name, costs }: Policy, operation: string): number {
  const cost = costs.get(operation);
  if (cost !== undefined) return cost;
  const what = `an operation of \`${name}\`, one of: ${[...costs.keys()].join(' ') || 'none'}`;
  throw expected('ERR_UNKNOWN_OPERATION', what, operation);
}

export class PolicyRegistry {
  readonly #policies = new Map<string, Policy>();
  #closed = false;

  constructor(policies: Readonly<Record<string, PolicyInput>>) {
    if (!isRecord(policies) || Object.keys(policies).length === 0) {
      const what = '`policies` to be an object of policies';
      throw expected('ERR_INVALID_OPTION', what, policies);
    }
    for (const [name, input] of Object.entries(policies)) {
      this.#policies.set(name, definePolicy(name, input));
    }
  }

  close(): void {
    this.#closed = true;
    this.#policies.clear();
  }

  policy(name: string): Policy {
    return this.#policies.get(name) ?? this.#unknown(name);
  }

  #unknown(name: string): never {
    if (this.#closed) throw closed();
    const names = [...this.#policies.keys()].join(' ');
    throw expected('ERR_UNKNOWN_POLICY', `a policy, one of: ${names}`, name);
  }

  /** The cost that is asked for: at least `least`, and not more than could ever fit. */
  cost(policy: Policy, params: LimitParams, asked: CostFields | undefined, least: 0 | 1): number {
    const { operation, cost = operation === undefined ? least : costOf(policy, operation) } =
      asked ?? {};
    checkInteger('ERR_INVALID_COST', 'the cost', cost, least);
    if (cost > params.capacity) {
      const what = `the cost to be at most ${params.capacity} for \`${policy.name}\``;
      throw expected('ERR_COST_ABOVE_LIMIT', what, cost);
    }
    if (operation !== undefined && asked?.cost !== undefined) {
      throw expected('ERR_INVALID_COST', 'a cost or an operation, not both', cost);
    }
    return cost;
  }

  /** One limit, checked. */
  limit(name: string, key: Key, asked: CostFields | undefined, least: 0 | 1): Limit {
    const policy = this.policy(name);
    const text = keyText(key);
    const params = policy.paramsFor(text);
    return { policy, params, key: text, cost: this.cost(policy, params, asked, least) };
  }

  /** The limits of a check, each named once. */
  limits(requests: unknown, least: 0 | 1): readonly Limit[] {
    const what = `a policy, or 1 to ${MAX_LIMITS} limits`;
    if (!isList(requests)) throw expected('ERR_INVALID_CHECK', what, requests);
    const seen = new Set<string>();
    const limits: Limit[] = [];
    // Not by `map`, which would pass over a hole.
    for (const request of requests) {
      if (!isRecord(request)) throw expected('ERR_INVALID_CHECK', what, request);
      checkFields(request, REQUEST_FIELDS);
      const limit = this.limit(
        request.policy as string,
        request.key as Key,
        request as CostFields,
        least,
      );
      const id = idOf(limit.policy.name, limit.key);
      if (seen.size === seen.add(id).size) {
        throw expected('ERR_INVALID_CHECK', 'each limit once', id);
      }
      limits.push(limit);
    }
    return limits;
  }

  /** What settling a receipt at the actual costs changes. */
  adjustments(receipt: Receipt, actual: unknown): readonly Adjustment[] {
    const charges = receipt?.charges;
    if (!isList(charges)) throw expected('ERR_INVALID_RECEIPT', 'the receipt of a check', receipt);
    const actuals: readonly unknown[] = Array.isArray(actual) ? actual : charges.map(() => actual);
    if (actuals.length !== charges.length) {
      throw expected('ERR_INVALID_COST', 'an actual cost, or one for each limit', actual);
    }
    // A copy has no holes, which `map` would pass over.
    return [...charges].map((charge, place) => {
      checkInteger('ERR_INVALID_RECEIPT', 'the cost of a charge', charge?.cost, 1);
      checkInteger('ERR_INVALID_RECEIPT', 'the time of a charge', charge?.atMs, 0);
      const { policy, params, key } = this.limit(charge.policy, charge.key, undefined, 0);
      const cost = checkInteger('ERR_INVALID_COST', 'the actual cost', actuals[place], 0);
      return { policy, params, charge: { ...charge, key }, delta: cost - charge.cost };
    });
  }
}
