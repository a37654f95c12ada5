/** The policies of a limiter by name. Validates the names, keys and costs of calls. */
import type { LimitParams } from './algorithms/algorithm.ts';
import { isConcurrency } from './algorithms/index.ts';
import type { Receipt } from './decision.ts';
import { checkFields, checkInteger, closed, expected, isRecord } from './errors.ts';
import { type Key, keyText } from './key.ts';
import { definePolicy, type FailureAction, type Policy, type PolicyInput } from './policy.ts';
import { type Adjustment, checkFeatures, idOf, type Limit, type Store } from './store.ts';

/** The cost of a call, before validation. The types in `api.ts` are stricter. */
export interface CostFields {
  readonly cost?: number | undefined;
  readonly operation?: string | undefined;
}

export interface CallFields extends CostFields {
  readonly id?: string | undefined;
  readonly onFailure?: FailureAction | undefined;
  readonly label?: string | undefined;
}

/** Maximum number of limits in one check. */
export const MAX_LIMITS = 64;

const MAX_LABEL_LENGTH = 64;

/** Whether a value is an array of 1 to `MAX_LIMITS` items. */
const isList = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_LIMITS;

const REQUEST_FIELDS = ['policy', 'key', 'cost', 'operation'];

function costOf({ name, costs }: Policy, operation: string): number {
  const cost = costs.get(operation);
  if (cost !== undefined) return cost;
  const what = `an operation of \`${name}\`, one of: ${[...costs.keys()].join(' ') || 'none'}`;
  throw expected('ERR_UNKNOWN_OPERATION', what, operation);
}

/** Returns the label of a call if it is valid, and throws otherwise. */
export function checkLabel(label: unknown): string | undefined {
  if (label === undefined) return undefined;
  if (typeof label === 'string' && label.length <= MAX_LABEL_LENGTH) return label;
  const what = `\`label\` to be text of up to ${MAX_LABEL_LENGTH} characters`;
  throw expected('ERR_INVALID_OPTION', what, label);
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

  /** Throws if the store does not support one of the policies. */
  checkStore({ features }: Store): void {
    for (const policy of this.#policies.values()) checkFeatures(policy, features);
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

  /** Returns the cost of a call, which is from `least` to the capacity. Default: `least`. */
  cost(policy: Policy, params: LimitParams, given: CostFields | undefined, least: 0 | 1): number {
    const { operation, cost = operation === undefined ? least : costOf(policy, operation) } =
      given ?? {};
    checkInteger('ERR_INVALID_COST', 'the cost', cost, least);
    if (cost > params.capacity) {
      const what = `the cost to be at most ${params.capacity} for \`${policy.name}\``;
      throw expected('ERR_COST_ABOVE_LIMIT', what, cost);
    }
    if (operation !== undefined && given?.cost !== undefined) {
      throw expected('ERR_INVALID_COST', 'a cost or an operation, not both', cost);
    }
    return cost;
  }

  /** Returns a validated limit. */
  limit(name: string, key: Key, given: CostFields | undefined, least: 0 | 1): Limit {
    const policy = this.policy(name);
    const text = keyText(key);
    const params = policy.paramsFor(text);
    return { policy, params, key: text, cost: this.cost(policy, params, given, least) };
  }

  /** Returns the validated limits of a check. Throws if the same limit occurs twice. */
  limits(requests: unknown, least: 0 | 1): readonly Limit[] {
    const what = `a policy, or 1 to ${MAX_LIMITS} limits`;
    if (!isList(requests)) throw expected('ERR_INVALID_CHECK', what, requests);
    const seen = new Set<string>();
    const limits: Limit[] = [];
    // A loop, because `map` would skip the holes of a sparse array.
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
        const repeated = JSON.stringify([limit.policy.name, limit.key]);
        throw expected('ERR_INVALID_CHECK', 'each limit once', repeated);
      }
      limits.push(limit);
    }
    return limits;
  }

  /** Returns the adjustments that settle a receipt at the actual costs. */
  adjustments(receipt: Receipt, actual: unknown): readonly Adjustment[] {
    const charges = receipt?.charges;
    if (!isList(charges)) throw expected('ERR_INVALID_RECEIPT', 'the receipt of a check', receipt);
    const actuals: readonly unknown[] = Array.isArray(actual) ? actual : charges.map(() => actual);
    if (actuals.length !== charges.length) {
      throw expected('ERR_INVALID_COST', 'an actual cost, or one for each limit', actual);
    }
    // The copy of a sparse array has no holes, which `map` would skip.
    return [...charges].map((charge, place) => {
      checkInteger('ERR_INVALID_RECEIPT', 'the cost of a charge', charge?.cost, 1);
      checkInteger('ERR_INVALID_RECEIPT', 'the time of a charge', charge?.atMs, 0);
      checkInteger('ERR_INVALID_RECEIPT', 'the fence of a charge', charge?.fence ?? 0, 0);
      checkInteger('ERR_INVALID_RECEIPT', 'the lease of a charge', charge?.lease ?? 0, 0);
      const { policy, params, key } = this.limit(charge.policy, charge.key, undefined, 0);
      const cost = checkInteger('ERR_INVALID_COST', 'the actual cost', actuals[place], 0);
      return { policy, params, charge: { ...charge, key }, delta: cost - charge.cost };
    });
  }

  /** Returns the adjustments that release the holds of a receipt. */
  holds(receipt: Receipt): readonly Adjustment[] {
    const holds = this.adjustments(receipt, 0).filter(({ policy }) => isConcurrency(policy));
    if (holds.length > 0) return holds;
    throw expected('ERR_INVALID_RECEIPT', 'the receipt of a concurrency limit', receipt);
  }

  /** Returns a policy that has the `block` option. */
  blockable(name: string): Policy {
    const policy = this.policy(name);
    if (policy.block) return policy;
    throw expected(
      'ERR_INVALID_BLOCK',
      `policy \`${name}\` to have the option \`block\``,
      undefined,
    );
  }
}
