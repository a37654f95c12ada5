/** The limiter: validates calls, and passes them to the store, which decides. */
import { type AcquireOptions, Waiters } from './acquire/waiters.ts';
import type { DecisionListener, Limiter, LimiterOptions, Policies, SyncLimiter } from './api.ts';
import { type Clock, systemClock } from './clock.ts';
import type { CheckResult, Decision, Receipt } from './decision.ts';
import { checkFields, checkInteger, checkMethods, expected } from './errors.ts';
import { type Key, keyText } from './key.ts';
import { checkAction, type Policy } from './policy.ts';
import { type CallFields, PolicyRegistry } from './policy-registry.ts';
import type { Adjustment, Check, KeyState, Store, SyncPolicyTable, SyncStore } from './store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';
import { UsedReceipts } from './used-receipts.ts';
import { warnOnError } from './warning.ts';

const ACQUIRE_FIELDS = ['onFailure', 'maxWaitMs', 'signal'];
const CALL_FIELDS = ['id', 'onFailure'];

/** The first argument of a check: a policy's name, or several limits. */
type Target = string | readonly unknown[];

/** Equal to no name that a caller can pass. */
const NO_POLICY = {};

export class LimiterCore {
  /** Read by the HTTP adapters. */
  readonly policies: PolicyRegistry;
  readonly store: Store;
  readonly #sync: SyncStore | undefined;
  readonly #clock: Clock;
  /** The `clock` option. Without it, the store uses its own clock. */
  readonly #ownClock: Clock | undefined;
  readonly #used = new UsedReceipts();
  readonly #waiters: Waiters;
  /** The policy of the last check, and its keys: most callers check the same one repeatedly. */
  #lastName: unknown = NO_POLICY;
  #lastPolicy: Policy | undefined;
  #lastTable: SyncPolicyTable | undefined;
  readonly #listeners = new Set<DecisionListener>();

  constructor(policies: PolicyRegistry, store: Store, clock: Clock | undefined) {
    this.policies = policies;
    this.store = store;
    this.#sync = 'decideSync' in store ? (store as SyncStore) : undefined;
    this.#ownClock = clock && checkedClock(clock);
    this.#clock = this.#ownClock ?? systemClock;
    this.#waiters = new Waiters({
      clock: this.#clock,
      decide: (check) => this.#decide(check),
      refund: (adjustments) => {
        const nowMs = this.#ownClock?.now();
        const done = store.adjustLater?.(adjustments, nowMs) ?? store.adjust(adjustments, nowMs);
        done.then(
          () => this.#waiters.nudge(adjustments),
          () => {},
        );
      },
    });
  }

  checkSync(name: Target, key?: Key | CallFields, options?: CallFields): Decision {
    if (options !== undefined || (name !== this.#lastName && !this.#cachePolicy(name))) {
      return this.#checkGeneral(name, key, options);
    }
    // Read first: a limit by key is the caller's code, and may check other policies.
    const table = this.#lastTable!;
    const policy = this.#lastPolicy!;
    const text = keyText(key as Key);
    const params = policy.params ?? policy.paramsFor(text);
    return table.takeSync(params, text, 1, this.#ownClock?.now()) as Decision;
  }

  /** Caches a policy for the fast path. Returns false if its checks take the slow path. */
  #cachePolicy(name: unknown): boolean {
    if (typeof name !== 'string' || !this.#sync || this.#listeners.size > 0) return false;
    const policy = this.policies.policy(name);
    this.#lastTable = this.#sync.open(policy);
    this.#lastPolicy = policy;
    this.#lastName = name;
    return true;
  }

  /** The slow path, in a function of its own so that V8 can inline `checkSync`. */
  #checkGeneral(name: Target, key?: Key | CallFields, options?: CallFields): Decision {
    return this.#notify(this.#decideNow(this.#check(name, key, options, 1)));
  }

  async check(name: Target, key?: Key | CallFields, options?: CallFields) {
    if (this.#sync !== undefined) return this.checkSync(name, key, options);
    const check = this.#check(name, key, options, 1);
    const [result] = await this.store.decide([check], this.#ownClock?.now());
    return this.#notify(result);
  }

  peekSync(name: Target, key?: Key | CallFields, options?: CallFields): CheckResult {
    return this.#decideNow(this.#check(name, key, options, 0, CALL_FIELDS.slice(1)));
  }

  async peek(name: Target, key?: Key | CallFields, options?: CallFields): Promise<CheckResult> {
    return this.#decide(this.#check(name, key, options, 0, CALL_FIELDS.slice(1)));
  }

  async acquire(
    name: Target,
    key?: Key | AcquireOptions,
    options?: CallFields & AcquireOptions,
  ): Promise<Decision> {
    const check = this.#check(name, key, options, 1, ACQUIRE_FIELDS);
    const given = ((typeof name === 'string' ? options : key) ?? {}) as AcquireOptions;
    // After the wait, so that listeners run in the caller's asynchronous context.
    return this.#notify(await this.#waiters.acquire(check, given));
  }

  refundSync(receipt: Receipt): number {
    return 0 - this.settleSync(receipt, 0);
  }

  async refund(receipt: Receipt): Promise<number> {
    return 0 - (await this.settle(receipt, 0));
  }

  settleSync(receipt: Receipt, actual: number | readonly number[]): number {
    const sync = this.#syncStore();
    const nowMs = this.#clock.now();
    let change = 0;
    const adjustments = this.#spend(receipt, actual);
    for (const adjustment of adjustments) change += sync.adjustSync(adjustment, nowMs);
    this.#waiters.nudge(adjustments);
    return change;
  }

  async settle(receipt: Receipt, actual: number | readonly number[]): Promise<number> {
    const nowMs = this.#ownClock?.now();
    const adjustments = this.#spend(receipt, actual);
    try {
      const changes = await this.store.adjust(adjustments, nowMs);
      this.#waiters.nudge(adjustments);
      return changes.reduce((sum, change) => sum + change, 0);
    } catch (error) {
      // Retry only if the store certainly did not apply it.
      if ((error as { notDone?: true }).notDone) this.#used.delete(receipt);
      throw error;
    }
  }

  resetSync(policy: string, key: Key): void {
    const sync = this.#syncStore();
    const text = keyText(key);
    sync.resetSync(this.policies.policy(policy), text, this.#clock.now());
    this.#waiters.nudge([{ charge: { policy, key: text } }]);
  }

  async reset(policy: string, key: Key): Promise<void> {
    const text = keyText(key);
    await this.store.reset(this.policies.policy(policy), text, this.#ownClock?.now());
    this.#waiters.nudge([{ charge: { policy, key: text } }]);
  }

  inspectSync(name: string, given: Key): KeyState | undefined {
    const sync = this.#syncStore();
    const { policy, params, key } = this.policies.limit(name, given, undefined, 0);
    return sync.inspectSync(policy, params, key, this.#clock.now());
  }

  async inspect(name: string, given: Key): Promise<KeyState | undefined> {
    if (this.#sync !== undefined) return this.inspectSync(name, given);
    const { policy, params, key } = this.policies.limit(name, given, undefined, 0);
    return this.store.inspect?.(policy, params, key, this.#ownClock?.now());
  }

  get size(): number | undefined {
    return this.store.size;
  }

  onDecision(listener: DecisionListener): () => void {
    if (typeof listener !== 'function') {
      throw expected('ERR_INVALID_OPTION', 'the listener to be a function', listener);
    }
    // A new function each time, so that a listener can be added twice and removed once.
    const entry: DecisionListener = warnOnError(listener);
    // Only the slow path calls listeners.
    this.#lastName = NO_POLICY;
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  async close(): Promise<void> {
    this.#lastName = NO_POLICY;
    this.policies.close();
    this.#waiters.close();
  }

  /** Validates a call: one limit by policy and key, or a list of limits. */
  #check(
    name: Target,
    key: Key | CallFields | undefined,
    options: CallFields | undefined,
    least: 0 | 1,
    fields: readonly string[] = CALL_FIELDS,
  ): Check {
    const isOne = typeof name === 'string';
    const listed = isOne ? undefined : this.policies.limits(name, least);
    const given = (isOne ? options : key) as CallFields | undefined;
    if (given !== undefined) checkFields(given, isOne ? ['cost', 'operation', ...fields] : fields);
    const limits = listed ?? [this.policies.limit(name as string, key as Key, given, least)];
    const id = given?.id;
    if (id !== undefined) keyText(id, '`id`');
    return { limits, peek: least === 0, id, onFailure: checkAction(given?.onFailure) };
  }

  /** Returns the store's decision, without a promise if the store can. */
  #decide(check: Check): CheckResult | Promise<CheckResult> {
    if (this.#sync !== undefined) return this.#decideNow(check);
    return this.store.decide([check], this.#ownClock?.now()).then(([result]) => result);
  }

  #decideNow(check: Check): CheckResult {
    return this.#syncStore().decideSync(check, this.#clock.now());
  }

  #syncStore(): SyncStore {
    if (this.#sync !== undefined) return this.#sync;
    throw expected('ERR_NOT_SYNCHRONOUS', 'a synchronous store', this.store);
  }

  /** Returns the adjustments that settle a receipt; none if the receipt was used before. */
  #spend(receipt: Receipt, actual: unknown): readonly Adjustment[] {
    const adjustments = this.policies.adjustments(receipt, actual);
    return this.#used.add(receipt) ? adjustments : [];
  }

  /** Calls the listeners. */
  #notify(result: CheckResult): Decision {
    for (const listener of this.#listeners) listener(result as Decision);
    return result as Decision;
  }
}

/** Wraps the caller's clock so that a time other than whole milliseconds throws. */
function checkedClock(clock: Clock): Clock {
  return {
    now() {
      return checkInteger('ERR_INVALID_CLOCK', 'the time of the clock', clock.now(), 0);
    },
    schedule: (delayMs, wake) => clock.schedule(delayMs, wake),
  };
}

/**
 * Creates a limiter.
 *
 *     const limiter = createLimiter({ policies: { perMinute: '100/1m' } });
 *     const { allowed, retryAfterMs } = await limiter.check('perMinute', userId);
 */
export function createLimiter<const P extends Policies>(
  options: LimiterOptions<P, SyncStore>,
): SyncLimiter<P>;
export function createLimiter<const P extends Policies>(options: LimiterOptions<P>): Limiter<P>;
export function createLimiter(options: LimiterOptions<Policies>): unknown {
  checkFields(options, ['policies', 'store', 'clock']);
  const { policies, store = memoryStore(), clock } = options;
  checkMethods('`store` to be a store', store, 'decide');
  if (clock !== undefined) checkMethods('`clock` to be a clock', clock, 'now', 'schedule');
  return new LimiterCore(new PolicyRegistry(policies), store, clock);
}
