/**
 * The limiter: policies by name, and what can be asked of them. It checks everything that comes
 * from outside, and leaves deciding to the store.
 */
import { type AcquireOptions, Waiters } from './acquire.ts';
import { type CostFields, PolicyBook } from './book.ts';
import { type Clock, systemClock } from './clock.ts';
import type { Decision, Quote, Receipt } from './decision.ts';
import { checkFields, expected, SluiceError } from './errors.ts';
import { type Key, keyText } from './key.ts';
import type { OperationOf, Policy, PolicyInput } from './policy.ts';
import type { Adjustment, KeyState, Limit, Store, SyncSpace, SyncStore } from './store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';

export type Policies = Readonly<Record<string, PolicyInput>>;

/** How much a call takes: a cost (default 1), or an operation that the policy has a cost for. */
export type CostOptions<Operation extends string = string> =
  | { readonly cost?: number; readonly operation?: never }
  | { readonly operation: Operation; readonly cost?: never };

/** One limit of a check, with the names that the limiter knows. */
export type LimitRequest<P extends Policies> =
  | {
      readonly policy: keyof P & string;
      readonly key: Key;
      readonly cost?: number;
      readonly operation?: never;
    }
  | {
      [Name in keyof P & string]: {
        readonly policy: Name;
        readonly key: Key;
        readonly operation: OperationOf<P[Name]>;
        readonly cost?: never;
      };
    }[keyof P & string];

export interface LimiterOptions<P extends Policies, S extends Store = Store> {
  /** What is allowed, by name: `{ perMinute: '100/1m' }`. */
  readonly policies: P;
  /** Where the counters are. Default: `memoryStore()`. */
  readonly store?: S;
  /** Whose time it is. Default: the store's own; for the memory store, this machine's. */
  readonly clock?: Clock;
}

/** Told of every decision that is not a peek. */
export type DecisionListener = (decision: Decision) => void;

export interface Limiter<P extends Policies> {
  /** Decides, and charges if allowed. A denial is a value, not an error. */
  check<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>>,
  ): Promise<Decision>;
  /** Decides several limits in one step: all are charged, or none. */
  check(limits: readonly LimitRequest<P>[]): Promise<Decision>;
  /** What a check would say, without charging. Without a cost it asks for 0. */
  peek<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>>,
  ): Promise<Quote>;
  peek(limits: readonly LimitRequest<P>[]): Promise<Quote>;
  /**
   * Waits until the check passes, in order of arrival for each key. Answers a denial at once, and
   * charges nothing, when the wait would be longer than `maxWaitMs`.
   */
  acquire<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & AcquireOptions,
  ): Promise<Decision>;
  acquire(limits: readonly LimitRequest<P>[], options?: AcquireOptions): Promise<Decision>;
  /** Takes a charge back, once. Answers how much cost was given back, over all its limits. */
  refund(receipt: Receipt): Promise<number>;
  /**
   * Makes a reserved cost the real one, once: refunds the difference, or charges it even past the
   * limit. Several limits may have an actual cost each. Answers the change that was made.
   */
  settle(receipt: Receipt, actual: number | readonly number[]): Promise<number>;
  /** Makes a key new. */
  reset(policy: keyof P & string, key: Key): Promise<void>;
  /** What is held about a key; undefined if nothing that counts is. */
  inspect(policy: keyof P & string, key: Key): Promise<KeyState | undefined>;
  /** How many keys the store holds, if it can tell. */
  readonly size: number | undefined;
  /** Calls `listener` after every decision until the answer is called. */
  onDecision(listener: DecisionListener): () => void;
  /** Lets everybody who waits go. The store is the caller's to close, and may serve others. */
  close(): Promise<void>;
}

/** What a limiter on a store in this process can do at once, without a promise. */
export interface SyncLimiter<P extends Policies> extends Limiter<P> {
  checkSync<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>>,
  ): Decision;
  checkSync(limits: readonly LimitRequest<P>[]): Decision;
  peekSync<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>>,
  ): Quote;
  peekSync(limits: readonly LimitRequest<P>[]): Quote;
  refundSync(receipt: Receipt): number;
  settleSync(receipt: Receipt, actual: number | readonly number[]): number;
  resetSync(policy: keyof P & string, key: Key): void;
  inspectSync(policy: keyof P & string, key: Key): KeyState | undefined;
  readonly size: number;
}

const LIMITER_OPTIONS = ['policies', 'store', 'clock'];
const ACQUIRE_FIELDS = ['cost', 'operation', 'maxWaitMs', 'signal'];

/** A name that no caller can ask for. */
const NOBODY = Symbol('nobody');

class LimiterCore {
  readonly #book: PolicyBook;
  readonly #store: Store;
  readonly #sync: SyncStore | undefined;
  readonly #clock: Clock;
  readonly #hasOwnClock: boolean;
  readonly #spent = new WeakSet<Receipt>();
  readonly #waiters: Waiters;
  /** The policy that was checked last, and its keys: most callers ask for one again and again. */
  #lastName: unknown = NOBODY;
  #lastPolicy: Policy | undefined = undefined;
  #lastSpace: SyncSpace | undefined = undefined;
  /** Undefined when nobody listens, so that then it costs one comparison. */
  #listeners: readonly DecisionListener[] | undefined = undefined;

  constructor(book: PolicyBook, store: Store, clock: Clock | undefined) {
    this.#book = book;
    this.#store = store;
    this.#sync = 'decideSync' in store ? (store as SyncStore) : undefined;
    this.#clock = clock === undefined ? systemClock : checkedClock(clock);
    this.#hasOwnClock = clock !== undefined;
    this.#waiters = new Waiters({
      clock: this.#clock,
      take: (limits) => this.#decide(limits, false) as Decision | Promise<Decision>,
      peek: (limits) => this.#decide(limits, true),
      giveBack: (decision) => void this.refund(decision.receipt!),
    });
  }

  checkSync(name: string | readonly unknown[], key?: Key, options?: CostFields): Decision {
    if (name !== this.#lastName && !this.#recall(name)) return this.#checkJointSync(name);
    const policy = this.#lastPolicy!;
    const text = keyText(key!);
    const terms = policy.terms ?? policy.termsFor(text);
    const cost = options === undefined ? 1 : this.#book.costOf(policy, terms, options, 1);
    const decision = this.#lastSpace!.takeSync(terms, text, cost, this.#clock.now()) as Decision;
    if (this.#listeners !== undefined) this.#tell(decision);
    return decision;
  }

  /** Looks a policy up and remembers it; false if this is not the name of one in this process. */
  #recall(name: unknown): boolean {
    if (typeof name !== 'string' || this.#sync === undefined) return false;
    this.#lastPolicy = this.#book.policy(name);
    this.#lastSpace = this.#sync.open(this.#lastPolicy);
    this.#lastName = name;
    return true;
  }

  #checkJointSync(requests: unknown): Decision {
    const sync = this.#sync ?? notSynchronous();
    const limits = this.#book.limits(requests, 1);
    const decision = sync.decideSync({ limits, peek: false }, this.#clock.now()) as Decision;
    if (this.#listeners !== undefined) this.#tell(decision);
    return decision;
  }

  async check(
    policy: string | readonly unknown[],
    key?: Key,
    options?: CostFields,
  ): Promise<Decision> {
    if (this.#sync !== undefined) return this.checkSync(policy, key, options);
    const limits = this.#limits(policy, key, options, 1);
    return (await this.#decide(limits, false)) as Decision;
  }

  peekSync(policy: string | readonly unknown[], key?: Key, options?: CostFields): Quote {
    const sync = this.#sync ?? notSynchronous();
    const limits = this.#limits(policy, key, options, 0);
    return sync.decideSync({ limits, peek: true }, this.#clock.now());
  }

  async peek(policy: string | readonly unknown[], key?: Key, options?: CostFields): Promise<Quote> {
    return this.#decide(this.#limits(policy, key, options, 0), true);
  }

  async acquire(
    policy: string | readonly unknown[],
    keyOrOptions?: Key | AcquireOptions,
    options: CostFields & AcquireOptions = {},
  ): Promise<Decision> {
    if (typeof policy !== 'string') {
      const waiting = (keyOrOptions ?? {}) as AcquireOptions;
      checkFields(waiting, ACQUIRE_FIELDS.slice(2));
      return this.#waiters.acquire(this.#book.limits(policy, 1), waiting);
    }
    checkFields(options, ACQUIRE_FIELDS);
    const limit = this.#book.limit(policy, keyOrOptions as Key, options, 1);
    return this.#waiters.acquire([limit], options);
  }

  refundSync(receipt: Receipt): number {
    return 0 - this.settleSync(receipt, 0);
  }

  async refund(receipt: Receipt): Promise<number> {
    return 0 - (await this.settle(receipt, 0));
  }

  settleSync(receipt: Receipt, actual: number | readonly number[]): number {
    const sync = this.#sync ?? notSynchronous();
    const nowMs = this.#clock.now();
    let change = 0;
    for (const adjustment of this.#spend(receipt, actual)) {
      change += sync.adjustSync(adjustment, nowMs);
    }
    return change;
  }

  async settle(receipt: Receipt, actual: number | readonly number[]): Promise<number> {
    if (this.#sync !== undefined) return this.settleSync(receipt, actual);
    const nowMs = this.#ownNow();
    const changes = await this.#store.adjust(this.#spend(receipt, actual), nowMs);
    return changes.reduce((sum, change) => sum + change, 0);
  }

  resetSync(policy: string, key: Key): void {
    const sync = this.#sync ?? notSynchronous();
    sync.resetSync(this.#book.policy(policy), keyText(key));
  }

  async reset(policy: string, key: Key): Promise<void> {
    await this.#store.reset(this.#book.policy(policy), keyText(key));
  }

  inspectSync(name: string, asked: Key): KeyState | undefined {
    const sync = this.#sync ?? notSynchronous();
    const { policy, terms, key } = this.#book.limit(name, asked, undefined, 0);
    return sync.inspectSync(policy, terms, key, this.#clock.now());
  }

  async inspect(name: string, asked: Key): Promise<KeyState | undefined> {
    const { policy, terms, key } = this.#book.limit(name, asked, undefined, 0);
    return this.#store.inspect?.(policy, terms, key, this.#ownNow());
  }

  get size(): number | undefined {
    return this.#store.size;
  }

  onDecision(listener: DecisionListener): () => void {
    this.#listeners = [...(this.#listeners ?? []), listener];
    return () => {
      const rest = this.#listeners?.filter((each) => each !== listener) ?? [];
      this.#listeners = rest.length > 0 ? rest : undefined;
    };
  }

  async close(): Promise<void> {
    this.#lastName = NOBODY;
    this.#book.close();
    this.#waiters.close();
  }

  #limits(
    policy: string | readonly unknown[],
    key: Key | undefined,
    options: CostFields | undefined,
    least: 0 | 1,
  ): readonly Limit[] {
    if (typeof policy !== 'string') return this.#book.limits(policy, least);
    const limit = this.#book.limit(policy, key!, options, least);
    if (options !== undefined) this.#book.costOf(limit.policy, limit.terms, options, least);
    return [limit];
  }

  /** Decides limits that have been checked: at once if the store can. */
  #decide(limits: readonly Limit[], peek: boolean): Quote | Promise<Quote> {
    const told = (quote: Quote): Quote => {
      if (!peek && this.#listeners !== undefined) this.#tell(quote as Decision);
      return quote;
    };
    if (this.#sync !== undefined)
      return told(this.#sync.decideSync({ limits, peek }, this.#clock.now()));
    return this.#store.decide([{ limits, peek }], this.#ownNow()).then(([quote]) => told(quote!));
  }

  /** What settling changes, the first time; nothing for a receipt that has been used. */
  #spend(receipt: Receipt, actual: unknown): readonly Adjustment[] {
    const adjustments = this.#book.adjustments(receipt, actual);
    if (this.#spent.has(receipt)) return [];
    this.#spent.add(receipt);
    return adjustments;
  }

  /** A listener's own failure is reported as such, and never changes a decision. */
  #tell(decision: Decision): void {
    for (const listener of this.#listeners!) {
      try {
        listener(decision);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  /** The time for a store that has a clock of its own, unless the limiter was given one. */
  #ownNow(): number | undefined {
    return this.#hasOwnClock ? this.#clock.now() : undefined;
  }
}

/** A clock from outside, held to giving whole milliseconds. */
function checkedClock(clock: Clock): Clock {
  return {
    now() {
      const nowMs = clock.now();
      if (Number.isSafeInteger(nowMs) && nowMs >= 0) return nowMs;
      throw expected('ERR_INVALID_CLOCK', 'the clock to give whole ms since the epoch', nowMs);
    },
    schedule: (delayMs, wake) => clock.schedule(delayMs, wake),
  };
}

function notSynchronous(): never {
  throw new SluiceError(
    'ERR_NOT_SYNCHRONOUS',
    'Expected a store in this process for a synchronous call, got one that answers later',
  );
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
  checkFields(options, LIMITER_OPTIONS);
  const { policies, store = memoryStore(), clock } = options;
  if (typeof store?.decide !== 'function') {
    throw expected('ERR_INVALID_OPTION', '`store` to be a store such as memoryStore()', store);
  }
  if (clock !== undefined && !(clock?.now instanceof Function && clock.schedule)) {
    throw expected('ERR_INVALID_OPTION', '`clock` to be a clock such as systemClock', clock);
  }
  return new LimiterCore(new PolicyBook(policies), store, clock);
}
