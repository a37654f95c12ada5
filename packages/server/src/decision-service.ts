/**
 * Decides limits for all protocols (HTTP API, forward-auth, Envoy).
 *
 * Validates policy names, keys and costs, decides the enforced limits atomically, decides each
 * shadow limit separately, and notifies observers (metrics, top keys, log). A configuration reload
 * replaces the policies between two decisions. It does not change the counters, which are in the
 * store.
 */
import {
  type Check,
  type CheckResult,
  definePolicy,
  type FailureAction,
  type KeyState,
  type Limit,
  type LimitDecision,
  type Receipt,
  SluiceError,
  type Store,
  type SyncStore,
  systemClock,
  type WindowPolicyOptions,
} from 'sluice';
import { type CostFields, jointDecision, keyText } from 'sluice/engine';
import {
  adjustHolds,
  adjustOnce,
  type ReceiptStore,
  type Refund,
  releaseHolds,
} from './adjust-receipts.ts';
import type { PolicyConfig } from './config/model.ts';
import { Overrides } from './overrides.ts';
import { RESERVED_PREFIX, ServedPolicies } from './policies.ts';
import { ShadowOverrides } from './shadow-overrides.ts';
import { runToEnd } from './slices.ts';

/** The decision on all limits of a check. */
export interface ServiceDecision {
  /** Whether all enforced limits allow the call. */
  readonly allowed: boolean;
  /** The joint result of the enforced limits; undefined if all limits are in shadow mode. */
  readonly result: CheckResult | undefined;
  /** The results of the shadow limits, each decided alone. Empty if the enforced limits deny. */
  readonly shadow: readonly CheckResult[];
  readonly peek: boolean;
}

export interface DecideOptions {
  readonly peek?: boolean | undefined;
  readonly id?: string | undefined;
  /** The client to which the store attributes the memory of the id. */
  readonly client?: string | undefined;
  readonly onFailure?: FailureAction | undefined;
  /** A text that the store keeps with the holds of concurrency limits. */
  readonly label?: string | undefined;
  /** If true, calls no listener: the caller combines several decisions and calls `notify`. */
  readonly isQuiet?: boolean;
}

/** One limit as callers specify it. */
export interface LimitRequest extends CostFields {
  readonly policy: string;
  readonly key: string | readonly (string | number)[];
}

/**
 * A receipt with an id. The store applies a receipt id at most once, even if several processes use
 * it.
 */
export interface NamedReceipt extends Receipt {
  readonly id: string;
}

export interface KeyInspection {
  /** Undefined if the store has no entry for the key. */
  readonly state: KeyState | undefined;
  readonly atMs: number;
  /** Time until a call of cost 1 is allowed; 0 if it is allowed now. */
  readonly nextMs: number;
  /**
   * Time until a call of the requested cost is allowed; infinite if the cost exceeds the capacity.
   * Undefined if no cost was requested.
   */
  readonly nextForCostMs: number | undefined;
}

/** Receives each decision and its enforced limits. */
export type DecisionListener = (decision: ServiceDecision, limits: readonly Limit[]) => void;
/** Receives the limits of a rejected check: the store failed, and `onFailure` is `throw`. */
export type FailureListener = (limits: readonly Limit[]) => void;

const hasReceipts = (store: Store): store is ReceiptStore => typeof store.adjustOnce === 'function';

const NO_SHADOW: readonly CheckResult[] = [];
const NO_OPTIONS: DecideOptions = {};

export class DecisionService {
  readonly overrides = new Overrides();
  readonly shadowOverrides = new ShadowOverrides();
  readonly store: ReceiptStore;
  readonly #sync: SyncStore | undefined;
  #policies: ServedPolicies;
  /** Policies of a reload in progress. */
  #nextPolicies: ServedPolicies | undefined = undefined;
  readonly #listeners: DecisionListener[] = [];
  readonly #failureListeners: FailureListener[] = [];
  /** Policies defined inline by requests, by name and options. */
  readonly #inlinePolicies = new Map<string, Limit['policy']>();

  constructor(store: Store, policies: readonly PolicyConfig[] = []) {
    if (!hasReceipts(store)) {
      const what = 'Expected a store with `adjustOnce`, got a store without it';
      throw new SluiceError('ERR_INVALID_OPTION', what);
    }
    this.store = store;
    this.#sync = 'decideSync' in store ? (store as SyncStore) : undefined;
    this.#policies = new ServedPolicies(policies, this.overrides, this.shadowOverrides);
    // Registered before all other listeners, so that the change is in effect when they run.
    this.shadowOverrides.onChange(({ policy }) => {
      this.#policies.applyShadowOverride(policy);
      this.#nextPolicies?.applyShadowOverride(policy);
    });
  }

  get policies(): ServedPolicies {
    return this.#policies;
  }

  /**
   * Replaces the policies. A policy keeps its counters if its name, algorithm and window stay the
   * same.
   */
  use(policies: readonly PolicyConfig[]): void {
    runToEnd(this.preparing(policies))();
  }

  /** Prepares the next policies in slices. Returns a function that puts them into effect. */
  *preparing(policies: readonly PolicyConfig[]): Generator<void, () => void> {
    const next = new ServedPolicies([], this.overrides, this.shadowOverrides);
    this.#nextPolicies = next;
    yield* next.adding(policies, this.overrides);
    return () => {
      this.#policies = next;
      this.#nextPolicies = undefined;
    };
  }

  /** Registers a listener for all decisions except peeks. */
  watch(listener: DecisionListener, onFailure?: FailureListener): void {
    this.#listeners.push(listener);
    if (onFailure !== undefined) this.#failureListeners.push(onFailure);
  }

  /** Returns validated limits; throws a `SluiceError` if a name, key or cost is invalid. */
  limits(requests: readonly LimitRequest[], peek = false): readonly Limit[] {
    const least = peek ? 0 : 1;
    if (requests.length !== 1) return this.#policies.limits(requests, least);
    const [request] = requests;
    return [this.#policies.limit(request.policy, request.key, request, least)];
  }

  /** Creates a limit defined inline by a request. Policies are cached by name and options. */
  inlineLimit(name: string, options: WindowPolicyOptions, key: string, cost: number): Limit {
    const id = JSON.stringify([name, options]);
    let policy = this.#inlinePolicies.get(id);
    if (policy === undefined) {
      if (this.#inlinePolicies.size >= MAX_INLINE_POLICIES) this.#inlinePolicies.clear();
      policy = definePolicy(name, options);
      this.#inlinePolicies.set(id, policy);
    }
    return { policy, params: policy.params!, key: keyText(key), cost };
  }

  /** Decides validated limits. Returns a promise only if the store is not in this process. */
  decide(
    limits: readonly Limit[],
    options = NO_OPTIONS,
  ): ServiceDecision | Promise<ServiceDecision> {
    const { peek = false, id, client, onFailure, label, isQuiet = peek } = options;
    const sync = this.#sync;
    if (sync !== undefined && id === undefined && limits.length === 1) {
      if (!this.#policies.hasShadow) return this.#decideOne(sync, limits, peek, isQuiet, label);
    }
    const check: Check = { limits, peek, id: peek ? undefined : id, client, onFailure, label };
    if (this.#policies.hasShadow) return this.#decideWithShadow(check, isQuiet);
    if (sync === undefined || limits.length === 0) return this.#decideLater(check, [], isQuiet);
    const result = sync.decideSync(check, systemClock.now());
    const decision = { allowed: result.allowed, result, shadow: NO_SHADOW, peek };
    return isQuiet ? decision : this.notify(decision, limits);
  }

  /** Fast path for one limit without an id, if the store is in this process. */
  #decideOne(
    sync: SyncStore,
    limits: readonly Limit[],
    peek: boolean,
    isQuiet: boolean,
    label: string | undefined,
  ): ServiceDecision {
    const { policy, params, key, cost } = limits[0];
    const table = sync.open(policy);
    const nowMs = systemClock.now();
    const result = peek
      ? table.peekSync(params, key, cost, nowMs)
      : table.takeSync(params, key, cost, nowMs, label);
    const decision = { allowed: result.allowed, result, shadow: NO_SHADOW, peek };
    return isQuiet ? decision : this.notify(decision, limits);
  }

  /** Decides the enforced limits and, if they allow the call, each shadow limit. */
  #decideWithShadow(all: Check, isQuiet: boolean): ServiceDecision | Promise<ServiceDecision> {
    const isShadow = ({ policy }: Limit): boolean => this.#policies.isShadow(policy.name);
    const shadow = all.limits.filter(isShadow);
    const check = { ...all, limits: all.limits.filter((limit) => !isShadow(limit)) };
    const sync = this.#sync;
    if (sync === undefined) return this.#decideLater(check, shadow, isQuiet);
    const nowMs = systemClock.now();
    const result = check.limits.length === 0 ? undefined : sync.decideSync(check, nowMs);
    const allowed = result?.allowed !== false;
    const shadowResults = allowed
      ? shadow.map((limit) => sync.decideSync({ ...check, limits: [limit] }, nowMs))
      : NO_SHADOW;
    const decision = { allowed, result, shadow: shadowResults, peek: check.peek };
    return isQuiet ? decision : this.notify(decision, check.limits);
  }

  async #decideLater(
    check: Check,
    shadow: readonly Limit[],
    isQuiet: boolean,
  ): Promise<ServiceDecision> {
    const { peek } = check;
    let result: CheckResult | undefined;
    try {
      if (check.limits.length > 0) [result] = await this.store.decide([check]);
    } catch (error) {
      if (!peek) for (const listener of this.#failureListeners) listener(check.limits);
      throw error;
    }
    const allowed = result?.allowed !== false;
    const shadowResults =
      allowed && shadow.length > 0 ? await this.#decideShadow(check, shadow) : NO_SHADOW;
    const decision = { allowed, result, shadow: shadowResults, peek };
    return isQuiet ? decision : this.notify(decision, check.limits);
  }

  async #decideInStore(check: Check): Promise<CheckResult> {
    const [result] = await this.store.decide([check]);
    return result;
  }

  /** Resolves to the results of the shadow limits. Leaves out limits for which the store fails. */
  async #decideShadow(check: Check, shadow: readonly Limit[]): Promise<readonly CheckResult[]> {
    const results = await Promise.allSettled(
      shadow.map(async (limit) => this.store.decide([{ ...check, limits: [limit] }])),
    );
    return results.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  }

  /** Passes a decision and its enforced limits to all listeners. */
  notify(decision: ServiceDecision, limits: readonly Limit[]): ServiceDecision {
    for (const listener of this.#listeners) listener(decision, limits);
    return decision;
  }

  /**
   * Resolves to a denial with an infinite wait, for limits whose cost is above their capacity.
   * Charges nothing. With `isShadow`, the call is allowed and the denial is only reported.
   */
  async denyForever(limits: readonly Limit[], isShadow = false): Promise<ServiceDecision> {
    const peeked = limits.map((limit) => ({ ...limit, cost: 1 }));
    const result = await this.#decideInStore({ limits: peeked, peek: true, onFailure: 'allow' });
    const denied = result.limits.map((each, at) => permanentDenial(each, limits[at].cost));
    if (isShadow) {
      const shadow = denied.map((each) => jointDecision([each], false));
      return this.notify({ allowed: true, result: undefined, shadow, peek: false }, []);
    }
    const joint = jointDecision(denied, false);
    return this.notify({ allowed: false, result: joint, shadow: [], peek: false }, limits);
  }

  /**
   * Replaces the reserved costs of a receipt by the actual costs, at most once for each receipt id.
   * Does not change holds. If the store rejects with `notDone`, the receipt is still unused and can
   * be settled again. The store attributes the memory of the used receipt id to `client`. Every
   * call for a receipt must pass the same client.
   */
  async settle(
    { id, charges }: NamedReceipt,
    actual: number | readonly number[],
    client?: string,
  ): Promise<Refund> {
    const adjustments = this.#policies.adjustments({ charges }, actual);
    return adjustOnce(this.store, keyText(id), adjustments, client);
  }

  /**
   * Refunds the costs of a receipt, at most once for each receipt id. Also releases the receipt's
   * holds, even if it was settled before.
   */
  async refund({ id, charges }: NamedReceipt, client?: string): Promise<Refund> {
    const adjustments = this.#policies.adjustments({ charges }, 0);
    const { change, used } = await adjustOnce(this.store, keyText(id), adjustments, client);
    return { change: change + (await releaseHolds(this.store, adjustments)), used };
  }

  /**
   * Releases the holds of a receipt. Resolves to false if one had expired or was released before.
   */
  async release(receipt: Receipt): Promise<boolean> {
    return adjustHolds(this.store, this.#policies.holds(receipt), false);
  }

  /**
   * Renews the leases of a receipt's holds. Resolves to false if a hold had expired or was
   * released.
   */
  async renew(receipt: Receipt): Promise<boolean> {
    return adjustHolds(this.store, this.#policies.holds(receipt), true);
  }

  /** Blocks a key for `forMs`; 0 ends its block. The policy must have the option `block`. */
  async block(policy: string, key: LimitRequest['key'], forMs: number): Promise<void> {
    await this.store.block?.(this.#policies.blockable(policy), keyText(key), forMs);
  }

  async reset(policy: string, key: LimitRequest['key']): Promise<void> {
    await this.store.reset(this.#policies.policy(policy), keyText(key));
  }

  async inspect(name: string, given: LimitRequest['key']): Promise<KeyState | undefined> {
    const { policy, params, key } = this.#policies.limit(name, given, undefined, 0);
    if (this.#sync !== undefined) {
      return this.#sync.inspectSync(policy, params, key, systemClock.now());
    }
    return this.store.inspect?.(policy, params, key);
  }

  /** Returns the state of a key and the waits for cost 1 and `cost`, counted from `atMs`. */
  async view(name: string, given: LimitRequest['key'], cost?: number): Promise<KeyInspection> {
    const { policy, params, key } = this.#policies.limit(name, given, undefined, 0);
    const isNever = cost !== undefined && cost > params.capacity;
    const costs = cost === undefined || isNever ? [1] : [1, cost];
    const sync = this.#sync;
    const nowMs = systemClock.now();
    const [state, [one, other]] =
      sync !== undefined
        ? [
            sync.inspectSync(policy, params, key, nowMs),
            costs.map((each) => sync.open(policy).peekSync(params, key, each, nowMs)),
          ]
        : await Promise.all([
            this.store.inspect?.(policy, params, key),
            Promise.all(
              costs.map((each) =>
                this.#decideInStore({
                  limits: [{ policy, params, key, cost: each }],
                  ...{ peek: true, onFailure: 'throw' },
                }),
              ),
            ),
          ]);
    const { atMs, resetAfterMs, retryAfterMs: nextMs } = one;
    // A remote store may run the calls at different times, so all waits count from the first peek.
    const otherMs = other && Math.max(other.atMs + other.retryAfterMs - atMs, 0);
    const nextForCostMs = isNever ? Number.POSITIVE_INFINITY : otherMs;
    return { state: state && { ...state, resetAfterMs }, atMs, nextMs, nextForCostMs };
  }

  /**
   * Resolves to whether the store can make decisions. Charges a probe key, to test writes as well.
   * If the store is in memory, only peeks at the key, because a charged key would count in the size
   * of the store.
   */
  async probe(): Promise<boolean> {
    const limit = this.inlineLimit(`${RESERVED_PREFIX}probe`, PROBE, 'probe', 1);
    const peek = this.store.size !== undefined;
    try {
      const result = await this.#decideInStore({ limits: [limit], peek, onFailure: 'throw' });
      return result.degraded === undefined;
    } catch {
      return false;
    }
  }
}

/** Returns the decision for a cost above the capacity: denied, with an infinite wait. */
export const permanentDenial = (known: LimitDecision, cost: number): LimitDecision => ({
  ...known,
  cost,
  allowed: false,
  retryAfterMs: Number.POSITIVE_INFINITY,
});

const MAX_INLINE_POLICIES = 1000;

/** The policy of the probe key. The window is short, so that the key expires soon. */
const PROBE: WindowPolicyOptions = { limit: 1000, window: '1s', algorithm: 'fixed-window' };
