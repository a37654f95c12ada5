/**
 * The limiter: policies by name, and what can be asked of them. It checks everything that comes
 * from outside, and leaves deciding to the store.
 */
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
import { contained } from './warning.ts';

const ACQUIRE_FIELDS = ['onFailure', 'maxWaitMs', 'signal'];
const CALL_FIELDS = ['id', 'onFailure'];

/** A policy's name, or several limits. */
type Asked = string | readonly unknown[];

/** A name that no caller can ask for. */
const NOBODY = {};

class LimiterCore {
  readonly #policies: PolicyRegistry;
  readonly #store: Store;
  readonly #sync: SyncStore | undefined;
  readonly #clock: Clock;
  /** Not there if a store with a clock of its own is to use that. */
  readonly #ownClock: Clock | undefined;
  readonly #used = new UsedReceipts();
  readonly #waiters: Waiters;
  /** The policy that was checked last, and its keys: most callers ask for one again and again. */
  #lastName: unknown = NOBODY;
  #lastPolicy: Policy | undefined;
  #lastSpace: SyncPolicyTable | undefined;
  readonly #listeners = new Set<DecisionListener>();

  constructor(policies: PolicyRegistry, store: Store, clock: Clock | undefined) {
    this.#policies = policies;
    this.#store = store;
    this.#sync = 'decideSync' in store ? (store as SyncStore) : undefined;
    this.#ownClock = clock && checkedClock(clock);
    this.#clock = this.#ownClock ?? systemClock;
    this.#waiters = new Waiters({
      clock: this.#clock,
      ask: (check) => this.#decide(check),
      // No caller waits for it, so a store may do it later.
      giveBack: (adjustments) => {
        const nowMs = this.#ownClock?.now();
        const done = store.adjustLater?.(adjustments, nowMs) ?? store.adjust(adjustments, nowMs);
        done.then(
          () => this.#waiters.nudge(adjustments),
          () => {},
        );
      },
      tell: (decision) => this.#told(decision),
    });
  }

  checkSync(name: Asked, key?: Key | CallFields, options?: CallFields): Decision {
    if (options !== undefined || (name !== this.#lastName && !this.#recall(name))) {
      return this.#checkAtLength(name, key, options);
    }
    // Read first: a limit by key is the caller's code, and may ask for other policies.
    const space = this.#lastSpace!;
    const policy = this.#lastPolicy!;
    const text = keyText(key as Key);
    const params = policy.params ?? policy.paramsFor(text);
    return space.takeSync(params, text, 1, this.#ownClock?.now()) as Decision;
  }

  /** Looks a policy up and remembers it; false if checks of it are to go the long way. */
  #recall(name: unknown): boolean {
    if (typeof name !== 'string' || !this.#sync || this.#listeners.size > 0) return false;
    const policy = this.#policies.policy(name);
    this.#lastSpace = this.#sync.open(policy);
    this.#lastPolicy = policy;
    this.#lastName = name;
    return true;
  }

  /** Apart, so that what comes before it is short enough for V8 to put it where it is called. */
  #checkAtLength(name: Asked, key?: Key | CallFields, options?: CallFields): Decision {
    return this.#decideNow(this.#check(name, key, options, 1)) as Decision;
  }

  async check(name: Asked, key?: Key | CallFields, options?: CallFields) {
    if (this.#sync !== undefined) return this.checkSync(name, key, options);
    return this.#decide(this.#check(name, key, options, 1));
  }

  peekSync(name: Asked, key?: Key | CallFields, options?: CallFields): CheckResult {
    return this.#decideNow(this.#check(name, key, options, 0, CALL_FIELDS.slice(1)));
  }

  async peek(name: Asked, key?: Key | CallFields, options?: CallFields): Promise<CheckResult> {
    return this.#decide(this.#check(name, key, options, 0, CALL_FIELDS.slice(1)));
  }

  async acquire(
    name: Asked,
    key?: Key | AcquireOptions,
    options?: CallFields & AcquireOptions,
  ): Promise<Decision> {
    const check = this.#check(name, key, options, 1, ACQUIRE_FIELDS);
    return this.#waiters.acquire(
      check,
      ((typeof name === 'string' ? options : key) ?? {}) as AcquireOptions,
    );
  }

  refundSync(receipt: Receipt): number {
    return 0 - this.settleSync(receipt, 0);
  }

  async refund(receipt: Receipt): Promise<number> {
    return 0 - (await this.settle(receipt, 0));
  }

  settleSync(receipt: Receipt, actual: number | readonly number[]): number {
    const sync = this.#now();
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
      const changes = await this.#store.adjust(adjustments, nowMs);
      this.#waiters.nudge(adjustments);
      return changes.reduce((sum, change) => sum + change, 0);
    } catch (error) {
      // What the store surely did not do can be tried again; what it may have done cannot.
      if ((error as { notDone?: true }).notDone) this.#used.delete(receipt);
      throw error;
    }
  }

  resetSync(policy: string, key: Key): void {
    const sync = this.#now();
    const text = keyText(key);
    sync.resetSync(this.#policies.policy(policy), text, this.#clock.now());
    this.#waiters.nudge([{ charge: { policy, key: text } }]);
  }

  async reset(policy: string, key: Key): Promise<void> {
    const text = keyText(key);
    await this.#store.reset(this.#policies.policy(policy), text, this.#ownClock?.now());
    this.#waiters.nudge([{ charge: { policy, key: text } }]);
  }

  inspectSync(name: string, asked: Key): KeyState | undefined {
    const sync = this.#now();
    const { policy, params, key } = this.#policies.limit(name, asked, undefined, 0);
    return sync.inspectSync(policy, params, key, this.#clock.now());
  }

  async inspect(name: string, asked: Key): Promise<KeyState | undefined> {
    if (this.#sync !== undefined) return this.inspectSync(name, asked);
    const { policy, params, key } = this.#policies.limit(name, asked, undefined, 0);
    return this.#store.inspect?.(policy, params, key, this.#ownClock?.now());
  }

  get size(): number | undefined {
    return this.#store.size;
  }

  onDecision(listener: DecisionListener): () => void {
    if (typeof listener !== 'function') {
      throw expected('ERR_INVALID_OPTION', 'the listener to be a function', listener);
    }
    // A function of its own, so that the same listener can be added twice and stopped once.
    const entry: DecisionListener = contained(listener);
    // Only the long way tells anybody.
    this.#lastName = NOBODY;
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  async close(): Promise<void> {
    this.#lastName = NOBODY;
    this.#policies.close();
    this.#waiters.close();
  }

  /** What is asked for, made sound: one limit by policy and key, or a list of them. */
  #check(
    name: Asked,
    key: Key | CallFields | undefined,
    options: CallFields | undefined,
    least: 0 | 1,
    fields: readonly string[] = CALL_FIELDS,
  ): Check {
    const isOne = typeof name === 'string';
    const listed = isOne ? undefined : this.#policies.limits(name, least);
    const given = (isOne ? options : key) as CallFields | undefined;
    if (given !== undefined) checkFields(given, isOne ? ['cost', 'operation', ...fields] : fields);
    const limits = listed ?? [this.#policies.limit(name as string, key as Key, given, least)];
    const id = given?.id;
    if (id !== undefined) keyText(id, '`id`');
    return { limits, peek: least === 0, id, onFailure: checkAction(given?.onFailure) };
  }

  /** Decides at once if the store can. */
  #decide(check: Check): CheckResult | Promise<CheckResult> {
    if (this.#sync !== undefined) return this.#decideNow(check);
    const answers = this.#store.decide([check], this.#ownClock?.now());
    return answers.then(([result]) => this.#told(result, check.peek));
  }

  #decideNow(check: Check): CheckResult {
    return this.#told(this.#now().decideSync(check, this.#clock.now()), check.peek);
  }

  /** The store, if it can answer now. */
  #now(): SyncStore {
    if (this.#sync !== undefined) return this.#sync;
    throw expected('ERR_NOT_SYNCHRONOUS', 'a synchronous store', this.#store);
  }

  /** What settling changes, the first time; nothing for a receipt that has been used. */
  #spend(receipt: Receipt, actual: unknown): readonly Adjustment[] {
    const adjustments = this.#policies.adjustments(receipt, actual);
    return this.#used.add(receipt) ? adjustments : [];
  }

  /** Calls the listeners, unless it was a peek. */
  #told(result: CheckResult, peek = false): CheckResult {
    for (const listener of peek ? [] : this.#listeners) listener(result as Decision);
    return result;
  }
}

/** A clock from outside, held to giving whole milliseconds. */
function checkedClock(clock: Clock): Clock {
  return {
    now() {
      return checkInteger('ERR_INVALID_CLOCK', 'the time of the clock', clock.now(), 0);
    },
    schedule: (delayMs, wake) => clock.schedule(delayMs, wake),
  };
}

/**
 * Builds a limiter.
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
