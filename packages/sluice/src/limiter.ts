/** The limiter: validates calls, and passes them to the store, which decides. */
import { FairQueues } from './acquire/flows.ts';
import { type AcquireOptions, Waiters } from './acquire/waiters.ts';
import { isConcurrency } from './algorithms/index.ts';
import type { DecisionListener, Limiter, LimiterOptions, Policies, SyncLimiter } from './api.ts';
import { type Clock, checkedClock, systemClock } from './clock.ts';
import type { Admitted, CheckResult, Decision, Receipt } from './decision.ts';
import { checkFields, checkMethods, expected } from './errors.ts';
import { type Key, keyText } from './key.ts';
import { checkAction, checkDuration, type Duration, type Policy } from './policy.ts';
import { type CallFields, checkLabel, PolicyRegistry } from './policy-registry.ts';
import type { RunContext, RunResult } from './run/context.ts';
import { Runs } from './run/runs.ts';
import type { Adjustment, Check, KeyState, Store, SyncPolicyTable, SyncStore } from './store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';
import { UsedReceipts } from './used-receipts.ts';
import { warnOnError } from './warning.ts';

const PEEK_FIELDS = ['onFailure'];
const CALL_FIELDS = ['id', 'label', ...PEEK_FIELDS];
const ACQUIRE_FIELDS = ['maxWaitMs', 'signal', 'flow', 'weight', 'label', ...PEEK_FIELDS];

/** The first argument of a check: a policy's name, or several limits. */
type Target = string | readonly unknown[];

/** The value of `#lastName` if no policy is cached. It equals no name that a caller can pass. */
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
  readonly #flows: FairQueues;
  readonly #runs: Runs;
  /**
   * The policy of the last check, and its table of keys. Most callers check the same policy
   * repeatedly, so this cache avoids looking both up.
   */
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
      decide: (check) => this.#runs.decide(check, decide),
      refund: (adjustments) => this.#adjustLater(adjustments),
      onRelease: store.onRelease,
    });
    const decide = (check: Check) => this.#decide(check);
    this.#flows = new FairQueues(this.#clock, this.#waiters);
    this.#runs = new Runs({
      clock: this.#ownClock,
      acquire: (check, options) => this.#flows.acquire(check, options),
      notify: (decision) => this.#notify(decision),
      renew: (holds) => this.#renew(holds),
      release: (adjustments) => this.#adjustLater(adjustments),
    });
  }

  checkSync(name: Target, key?: Key | CallFields, options?: CallFields): Decision {
    if (options !== undefined || (name !== this.#lastName && !this.#cachePolicy(name))) {
      return this.#checkGeneral(name, key, options);
    }
    // Read before `paramsFor`, which may call the application's `limit` function: that may check
    // another policy and so replace the cached one.
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
    return this.#decideNow(this.#check(name, key, options, 0, PEEK_FIELDS));
  }

  async peek(name: Target, key?: Key | CallFields, options?: CallFields): Promise<CheckResult> {
    return this.#decide(this.#check(name, key, options, 0, PEEK_FIELDS));
  }

  async acquire(
    name: Target,
    key?: Key | AcquireOptions,
    options?: CallFields & AcquireOptions,
  ): Promise<Decision> {
    const check = this.#check(name, key, options, 1, ACQUIRE_FIELDS);
    const given = optionsOf(name, key, options);
    // Listeners are called after `await`, so that they run in the caller's asynchronous context.
    const decision = this.#notify(await this.#flows.acquire(check, given));
    this.#runs.checkLeases();
    return decision;
  }

  /** The function is the last argument, after those of `acquire`. */
  async run(name: Target, ...args: readonly unknown[]): Promise<RunResult<unknown>> {
    const work = args.at(-1) as (context: RunContext) => unknown;
    if (typeof work !== 'function') {
      throw expected('ERR_INVALID_OPTION', 'the last argument to be a function', work);
    }
    const [key, options] = args.slice(0, -1) as [Key | AcquireOptions, AcquireOptions?];
    const check = this.#check(name, key, options, 1, ACQUIRE_FIELDS);
    return this.#runs.run(check, optionsOf(name, key, options), work);
  }

  /** Renews the holds of a decision until the returned function releases them. For adapters. */
  keep(decision: Admitted): () => void {
    return this.#runs.keep(decision, this.policies.adjustments(decision.receipt, 0));
  }

  refundSync(receipt: Receipt): number {
    return 0 - sum(this.#adjustSync(() => this.#spend(receipt, 0, true)));
  }

  async refund(receipt: Receipt): Promise<number> {
    return 0 - (await this.#settle(receipt, 0, true));
  }

  settleSync(receipt: Receipt, actual: number | readonly number[]): number {
    return sum(this.#adjustSync(() => this.#spend(receipt, actual, false)));
  }

  async settle(receipt: Receipt, actual: number | readonly number[]): Promise<number> {
    return this.#settle(receipt, actual, false);
  }

  async #settle(receipt: Receipt, actual: unknown, isRefund: boolean): Promise<number> {
    const nowMs = this.#ownClock?.now();
    const adjustments = this.#spend(receipt, actual, isRefund);
    try {
      return sum(await this.#adjust(adjustments, nowMs));
    } catch (error) {
      // The receipt can be used again only if the store certainly did not apply the adjustments.
      const isSpent = adjustments.some(({ policy }) => !isConcurrency(policy));
      if ((error as { notDone?: true }).notDone && isSpent) this.#used.delete(receipt);
      throw error;
    }
  }

  releaseSync(receipt: Receipt): boolean {
    return areAllChanged(this.#adjustSync(() => this.policies.holds(receipt)));
  }

  async release(receipt: Receipt): Promise<boolean> {
    return areAllChanged(await this.#adjust(this.policies.holds(receipt)));
  }

  renewSync(receipt: Receipt): boolean {
    return areAllChanged(this.#adjustSync(() => this.policies.holds(receipt).map(renewalOf)));
  }

  async renew(receipt: Receipt): Promise<boolean> {
    return areAllChanged(await this.#adjust(this.policies.holds(receipt).map(renewalOf)));
  }

  blockSync(policy: string, key: Key, duration: Duration): void {
    this.#blockSync(policy, key, blockMs(duration));
  }

  async block(policy: string, key: Key, duration: Duration): Promise<void> {
    await this.#block(policy, key, blockMs(duration));
  }

  unblockSync(policy: string, key: Key): void {
    this.#blockSync(policy, key, 0);
  }

  async unblock(policy: string, key: Key): Promise<void> {
    await this.#block(policy, key, 0);
  }

  #blockSync(name: string, key: Key, forMs: number): void {
    const sync = this.#syncStore();
    const text = keyText(key);
    sync.blockSync?.(this.policies.blockable(name), text, forMs, this.#clock.now());
    this.#waiters.wake([{ charge: { policy: name, key: text } }]);
  }

  async #block(name: string, key: Key, forMs: number): Promise<void> {
    const text = keyText(key);
    const policy = this.policies.blockable(name);
    await this.store.block?.(policy, text, forMs, this.#ownClock?.now());
    this.#waiters.wake([{ charge: { policy: name, key: text } }]);
  }

  resetSync(policy: string, key: Key): void {
    const sync = this.#syncStore();
    const text = keyText(key);
    sync.resetSync(this.policies.policy(policy), text, this.#clock.now());
    this.#waiters.wake([{ charge: { policy, key: text } }]);
  }

  async reset(policy: string, key: Key): Promise<void> {
    const text = keyText(key);
    await this.store.reset(this.policies.policy(policy), text, this.#ownClock?.now());
    this.#waiters.wake([{ charge: { policy, key: text } }]);
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
    // Leaves the fast path, because only the slow path calls listeners.
    this.#lastName = NO_POLICY;
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  async close(): Promise<void> {
    this.#lastName = NO_POLICY;
    this.policies.close();
    this.#flows.close();
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
    const label = checkLabel(given?.label);
    return { limits, peek: least === 0, id, onFailure: checkAction(given?.onFailure), label };
  }

  /** Returns the store's decision; as a promise only if the store is asynchronous. */
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

  /**
   * Returns the adjustments that settle a receipt: of its charges, unless the receipt was used
   * before, and for a refund also of its holds, which the store releases once.
   */
  #spend(receipt: Receipt, actual: unknown, isRefund: boolean): readonly Adjustment[] {
    const adjustments = this.policies.adjustments(receipt, actual);
    const isUnused = this.#used.add(receipt);
    return adjustments.filter(({ policy }) => (isConcurrency(policy) ? isRefund : isUnused));
  }

  /** Calls `prepare` when nothing but the store can fail any more, because it may use a receipt. */
  #adjustSync(prepare: () => readonly Adjustment[]): readonly number[] {
    const sync = this.#syncStore();
    const nowMs = this.#clock.now();
    const adjustments = prepare();
    const changes = adjustments.map((adjustment) => sync.adjustSync(adjustment, nowMs));
    this.#freed(adjustments);
    return changes;
  }

  async #adjust(
    adjustments: readonly Adjustment[],
    nowMs = this.#ownClock?.now(),
  ): Promise<readonly number[]> {
    const changes = await this.store.adjust(adjustments, nowMs);
    this.#freed(adjustments);
    return changes;
  }

  /** Renews holds, without a promise if the store can. */
  #renew(holds: readonly Adjustment[]): boolean | Promise<boolean> {
    const renewals = holds.map(renewalOf);
    if (this.#sync !== undefined) return areAllChanged(this.#adjustSync(() => renewals));
    return this.#adjust(renewals).then(areAllChanged);
  }

  /** Applies adjustments that no caller waits for. */
  #adjustLater(adjustments: readonly Adjustment[]): void {
    if (this.#sync !== undefined) {
      this.#adjustSync(() => adjustments);
      return;
    }
    const { store } = this;
    const nowMs = this.#ownClock?.now();
    const done = store.adjustLater?.(adjustments, nowMs) ?? store.adjust(adjustments, nowMs);
    done.then(
      () => this.#waiters.wake(adjustments),
      () => {},
    );
  }

  #freed(adjustments: readonly Adjustment[]): void {
    this.#waiters.wake(adjustments.filter(({ renew }) => !renew));
  }

  /** Calls the listeners, and returns the decision. */
  #notify(result: CheckResult): Decision {
    for (const listener of this.#listeners) listener(result as Decision);
    return result as Decision;
  }
}

const sum = (changes: readonly number[]): number =>
  changes.reduce((total, change) => total + change, 0);

const areAllChanged = (changes: readonly number[]): boolean =>
  changes.every((change) => change !== 0);

/** Returns the options of a call, which follow the key of one limit or a list of limits. */
const optionsOf = (name: Target, key?: unknown, options?: AcquireOptions): AcquireOptions =>
  (typeof name === 'string' ? options : (key as AcquireOptions)) ?? {};

const renewalOf = (hold: Adjustment): Adjustment => ({ ...hold, delta: 0, renew: true });

const blockMs = (duration: Duration): number =>
  checkDuration('ERR_INVALID_BLOCK', 'the block', duration);

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
  const registry = new PolicyRegistry(policies);
  registry.checkStore(store);
  return new LimiterCore(registry, store, clock);
}
