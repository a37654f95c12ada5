/**
 * Where every protocol has its limits decided: names, keys and costs are made sound, the enforced
 * limits are decided together, those in shadow are each decided alone, and whoever watches is told.
 * A reload changes what the desk knows between two decisions; the counters are the store's.
 */
import {
  type Charge,
  type Check,
  type CheckResult,
  definePolicy,
  type FailureAction,
  type KeyState,
  type Limit,
  type LimitDecision,
  type PolicyOptions,
  type Receipt,
  SluiceError,
  type Store,
  type SyncStore,
  systemClock,
} from 'sluice';
import { type CostFields, jointDecision, keyText, normalizeKey } from 'sluice/engine';
import type { PolicyConfig } from './config/model.ts';
import { Overrides } from './overrides.ts';
import { OWN_NAMES, ServedPolicies } from './policies.ts';
import { ShadowOverrides } from './shadow-overrides.ts';
import { atOnce } from './slices.ts';

/** What all limits of a check come to. */
export interface ServiceDecision {
  /** Whether every limit that is enforced has room. */
  readonly allowed: boolean;
  /** What the enforced limits say together; undefined if all that was asked for is in shadow. */
  readonly result: CheckResult | undefined;
  /** What the limits in shadow say, each alone. They are not asked when the others deny. */
  readonly shadow: readonly CheckResult[];
  readonly peek: boolean;
}

export interface DecideOptions {
  readonly peek?: boolean | undefined;
  readonly id?: string | undefined;
  readonly onFailure?: FailureAction | undefined;
  /** Whether no watcher is told: the caller makes one decision of several and tells of that. */
  readonly isQuiet?: boolean;
}

/** One limit as callers name it. */
export interface LimitRequest extends CostFields {
  readonly policy: string;
  readonly key: string | readonly (string | number)[];
}

export interface Refund {
  /** The change that was made; a refund is negative. */
  readonly change: number;
  /** Whether the receipt had been used before, so that nothing was done. */
  readonly used: boolean;
}

/** A receipt with a name, so that it is used once, whichever process it comes to. */
export interface NamedReceipt extends Receipt {
  readonly id: string;
}

export interface KeyInspection {
  /** Undefined if nothing that counts is held. */
  readonly state: KeyState | undefined;
  readonly atMs: number;
  /** 0 if a call of cost 1 passes, else the wait in ms until it does. */
  readonly nextMs: number;
}

/** Told of a decision, and of the enforced limits that it was about. */
export type DecisionListener = (decision: ServiceDecision, limits: readonly Limit[]) => void;
/** Told of limits that nobody could decide, because the store is away and nothing stands in. */
export type FailureListener = (limits: readonly Limit[]) => void;

/** A store that applies the adjustments of a receipt once, whichever process settles it. */
export type ReceiptStore = Store & Required<Pick<Store, 'adjustOnce'>>;

const hasReceipts = (store: Store): store is ReceiptStore => typeof store.adjustOnce === 'function';

const NO_SHADOW: readonly CheckResult[] = [];
const NO_OPTIONS: DecideOptions = {};

export class DecisionService {
  readonly overrides = new Overrides();
  readonly shadowOverrides = new ShadowOverrides();
  readonly store: ReceiptStore;
  readonly #sync: SyncStore | undefined;
  #policies: ServedPolicies;
  /** Policies that are being prepared. */
  #nextPolicies: ServedPolicies | undefined = undefined;
  readonly #watchers: DecisionListener[] = [];
  readonly #failureWatchers: FailureListener[] = [];
  /** Policies that came with a request, by what they say. */
  readonly #inlinePolicies = new Map<string, Limit['policy']>();

  constructor(store: Store, policies: readonly PolicyConfig[] = []) {
    if (!hasReceipts(store)) {
      const what = 'Expected a store with `adjustOnce`, got a store without it';
      throw new SluiceError('ERR_INVALID_OPTION', what);
    }
    this.store = store;
    this.#sync = 'decideSync' in store ? (store as SyncStore) : undefined;
    this.#policies = new ServedPolicies(policies, this.overrides, this.shadowOverrides);
    // Nobody can listen before this: whoever hears of a word finds that it counts.
    this.shadowOverrides.onChange(({ policy }) => {
      this.#policies.applyShadowOverride(policy);
      this.#nextPolicies?.applyShadowOverride(policy);
    });
  }

  get policies(): ServedPolicies {
    return this.#policies;
  }

  /** Serves other policies from now on. Counters go by name, algorithm and window. */
  use(policies: readonly PolicyConfig[]): void {
    atOnce(this.preparing(policies))();
  }

  /** Prepares other policies in slices. Returns the function that serves them from then on. */
  *preparing(policies: readonly PolicyConfig[]): Generator<void, () => void> {
    const next = new ServedPolicies([], this.overrides, this.shadowOverrides);
    this.#nextPolicies = next;
    yield* next.adding(policies, this.overrides);
    return () => {
      this.#policies = next;
      this.#nextPolicies = undefined;
    };
  }

  /** Has every decision told that is not a peek. */
  watch(watcher: DecisionListener, onFailure?: FailureListener): void {
    this.#watchers.push(watcher);
    if (onFailure !== undefined) this.#failureWatchers.push(onFailure);
  }

  /** Limits by name, made sound; throws a `SluiceError` that says what is wrong. */
  limits(requests: readonly LimitRequest[], peek = false): readonly Limit[] {
    const least = peek ? 0 : 1;
    if (requests.length !== 1) return this.#policies.limits(requests, least);
    const [request] = requests;
    return [this.#policies.limit(request.policy, request.key, request, least)];
  }

  /** A limit that a request brings along, under a name that tells it from all others. */
  inlineLimit(name: string, options: PolicyOptions, key: string, cost: number): Limit {
    const id = JSON.stringify([name, options]);
    let policy = this.#inlinePolicies.get(id);
    if (policy === undefined) {
      if (this.#inlinePolicies.size >= MAX_INLINE_POLICIES) this.#inlinePolicies.clear();
      policy = definePolicy(name, options);
      this.#inlinePolicies.set(id, policy);
    }
    return { policy, params: policy.params!, key: keyText(key), cost };
  }

  /** Decides sound limits: at once if the store is in this process. */
  decide(
    limits: readonly Limit[],
    options = NO_OPTIONS,
  ): ServiceDecision | Promise<ServiceDecision> {
    const { peek = false, id, onFailure, isQuiet = peek } = options;
    const sync = this.#sync;
    if (sync !== undefined && id === undefined && limits.length === 1) {
      if (!this.#policies.hasShadow) return this.#decideOne(sync, limits, peek, isQuiet);
    }
    const check: Check = { limits, peek, id: peek ? undefined : id, onFailure };
    if (this.#policies.hasShadow) return this.#decideApart(check, isQuiet);
    if (sync === undefined || limits.length === 0) return this.#decideLater(check, [], isQuiet);
    const result = sync.decideSync(check, systemClock.now());
    const verdict = { allowed: result.allowed, result, shadow: NO_SHADOW, peek };
    return isQuiet ? verdict : this.tell(verdict, limits);
  }

  /** The short way, for what is asked most. */
  #decideOne(
    sync: SyncStore,
    limits: readonly Limit[],
    peek: boolean,
    isQuiet: boolean,
  ): ServiceDecision {
    const { policy, params, key, cost } = limits[0];
    const space = sync.open(policy);
    const nowMs = systemClock.now();
    const result = peek
      ? space.peekSync(params, key, cost, nowMs)
      : space.takeSync(params, key, cost, nowMs);
    const verdict = { allowed: result.allowed, result, shadow: NO_SHADOW, peek };
    return isQuiet ? verdict : this.tell(verdict, limits);
  }

  /** The limits in shadow are taken out, and asked when the others have let the call pass. */
  #decideApart(asked: Check, isQuiet: boolean): ServiceDecision | Promise<ServiceDecision> {
    const isShadow = ({ policy }: Limit): boolean => this.#policies.isShadow(policy.name);
    const shadow = asked.limits.filter(isShadow);
    const check = { ...asked, limits: asked.limits.filter((limit) => !isShadow(limit)) };
    const sync = this.#sync;
    if (sync === undefined) return this.#decideLater(check, shadow, isQuiet);
    const nowMs = systemClock.now();
    const result = check.limits.length === 0 ? undefined : sync.decideSync(check, nowMs);
    const allowed = result?.allowed !== false;
    const watched = allowed
      ? shadow.map((limit) => sync.decideSync({ ...check, limits: [limit] }, nowMs))
      : NO_SHADOW;
    const verdict = { allowed, result, shadow: watched, peek: check.peek };
    return isQuiet ? verdict : this.tell(verdict, check.limits);
  }

  async #decideLater(
    check: Check,
    shadow: readonly Limit[],
    isQuiet: boolean,
  ): Promise<ServiceDecision> {
    const { peek } = check;
    let result: CheckResult | undefined;
    try {
      if (check.limits.length > 0) result = await this.#ask(check);
    } catch (error) {
      if (!peek) for (const watcher of this.#failureWatchers) watcher(check.limits);
      throw error;
    }
    const allowed = result?.allowed !== false;
    const watched = allowed
      ? await Promise.all(shadow.map((limit) => this.#askInShadow({ ...check, limits: [limit] })))
      : [];
    const verdict = { allowed, result, shadow: watched.flat(), peek };
    return isQuiet ? verdict : this.tell(verdict, check.limits);
  }

  async #ask(check: Check): Promise<CheckResult> {
    const [result] = await this.store.decide([check]);
    return result;
  }

  /** What only watches must not be in the way when the store is away. */
  async #askInShadow(check: Check): Promise<readonly CheckResult[]> {
    try {
      return await this.store.decide([check]);
    } catch {
      return [];
    }
  }

  /** Tells all watchers of a decision about enforced limits. */
  tell(decision: ServiceDecision, limits: readonly Limit[]): ServiceDecision {
    for (const watcher of this.#watchers) watcher(decision, limits);
    return decision;
  }

  /**
   * Denies limits that can never admit their cost, because it is above their capacity. Nothing is
   * charged. The wait is infinite. In shadow they are only reported.
   */
  async denyForever(limits: readonly Limit[], isShadow = false): Promise<ServiceDecision> {
    const asked = limits.map((limit) => ({ ...limit, cost: 1 }));
    const { limits: known } = await this.#ask({ limits: asked, peek: true, onFailure: 'allow' });
    const denied = known.map((each, at) => neverFits(each, limits[at].cost));
    if (isShadow) {
      const shadow = denied.map((each) => jointDecision([each], false));
      return this.tell({ allowed: true, result: undefined, shadow, peek: false }, []);
    }
    const result = jointDecision(denied, false);
    return this.tell({ allowed: false, result, shadow: [], peek: false }, limits);
  }

  /**
   * Replaces reserved costs by the actual ones, once for each receipt id. If the store reports an
   * error with `notDone`, the receipt is still unused and can be settled again.
   */
  async settle(receipt: NamedReceipt, actual: number | readonly number[]): Promise<Refund> {
    const adjustments = this.#policies.adjustments(receipt, actual);
    const changes = await this.store.adjustOnce(keyText(receipt.id), adjustments);
    if (changes === undefined) return { change: 0, used: true };
    return { change: changes.reduce((sum, change) => sum + change, 0), used: false };
  }

  refund(receipt: NamedReceipt): Promise<Refund> {
    return this.settle(receipt, 0);
  }

  async reset(policy: string, key: LimitRequest['key']): Promise<void> {
    await this.store.reset(this.#policies.policy(policy), keyText(key));
  }

  async inspect(name: string, asked: LimitRequest['key']): Promise<KeyState | undefined> {
    const { policy, params, key } = this.#policies.limit(name, asked, undefined, 0);
    if (this.#sync !== undefined) {
      return this.#sync.inspectSync(policy, params, key, systemClock.now());
    }
    return this.store.inspect?.(policy, params, key);
  }

  /** What is held about a key, and the wait for a call of cost 1, both of the same moment. */
  async view(name: string, asked: LimitRequest['key']): Promise<KeyInspection> {
    const { policy, params, key } = this.#policies.limit(name, asked, undefined, 0);
    const sync = this.#sync;
    const nowMs = systemClock.now();
    // What a store is asked in one turn, it is asked at once.
    const [state, { atMs, retryAfterMs }] =
      sync !== undefined
        ? [
            sync.inspectSync(policy, params, key, nowMs),
            sync.open(policy).peekSync(params, key, 1, nowMs),
          ]
        : await Promise.all([
            this.store.inspect?.(policy, params, key),
            this.#ask({
              limits: [{ policy, params, key, cost: 1 }],
              peek: true,
              onFailure: 'throw',
            }),
          ]);
    return { state, atMs, nextMs: retryAfterMs };
  }

  /**
   * Has the store really decide something, and answers whether it was the store that did. Memory
   * that can be read can be written, and a key that was written there would be counted as held.
   */
  async probe(): Promise<boolean> {
    const limit = this.inlineLimit(`${OWN_NAMES}probe`, PROBE, 'probe', 1);
    const peek = this.store.size !== undefined;
    try {
      const result = await this.#ask({ limits: [limit], peek, onFailure: 'throw' });
      return result.degraded === undefined;
    } catch {
      return false;
    }
  }
}

/** What a limit says about a cost that it can never admit. */
export const neverFits = (known: LimitDecision, cost: number): LimitDecision => ({
  ...known,
  cost,
  allowed: false,
  retryAfterMs: Number.POSITIVE_INFINITY,
});

const MAX_INLINE_POLICIES = 1000;

/** So small a window that a probe is never denied for long, and leaves nothing behind. */
const PROBE: PolicyOptions = { limit: 1000, window: '1s', algorithm: 'fixed-window' };

/** The charges of a verdict, under a name of their own; undefined if nothing was charged. */
export function receiptOf(decision: ServiceDecision, checkId?: string): NamedReceipt | undefined {
  const { allowed, result, shadow, peek } = decision;
  if (!allowed || peek) return undefined;
  const enforced = result === undefined ? [] : chargesOf(result);
  const charges = shadow.length === 0 ? enforced : [...enforced, ...shadow.flatMap(chargesOf)];
  if (charges.length === 0) return undefined;
  if (checkId === undefined) return { id: nextReceiptId(), charges };
  // What is in shadow is decided alone: it may be charged anew where the others are answered again.
  return { id: receiptIdOf(checkId, enforced.length > 0 ? enforced : charges), charges };
}

/**
 * A check that has an id is answered again with the same charges, by any process, and so under the
 * same name. Under that id other limits may be charged too, and the same ones later: those have
 * other names.
 */
function receiptIdOf(checkId: string, charges: readonly Charge[]): string {
  const parts = charges.map(({ policy, key, cost, atMs, degraded, local }) => [
    ...[policy, key, cost, atMs],
    ...[degraded, local],
  ]);
  return keyText(normalizeKey(`id:${checkId}:${JSON.stringify(parts)}`));
}

const chargesOf = (result: CheckResult): readonly Charge[] =>
  (result as { receipt?: Receipt }).receipt?.charges ?? [];

const RECEIPTS_OF = crypto.randomUUID().replaceAll('-', '').slice(0, 16);
let receipts = 0;

/** Never the same twice: this process's random name, and a number. */
export const nextReceiptId = (): string => `${RECEIPTS_OF}${(receipts++).toString(36)}`;
