/**
 * Failure handling for any store.
 *
 * Each call has a deadline, the number of calls in flight is bounded, and a circuit breaker stops
 * calls to a store that keeps failing. If the store cannot decide, the `onFailure` action of the
 * call, the policy or the store applies: `allow`, `deny`, `local` or `throw`. The decision is then
 * marked as `degraded`.
 */
import type { LimitParams } from '../algorithms/algorithm.ts';
import { monotonicClock } from '../clock.ts';
import type { CheckResult } from '../decision.ts';
import { checkFields, expected, isInteger } from '../errors.ts';
import { checkAction, type FailureAction, type Policy } from '../policy.ts';
import type { Adjustment, Check, KeyState, OnSent, Store } from '../store.ts';
import type { BreakerState } from './breaker.ts';
import { Deadlines } from './deadlines.ts';
import { type FailureDomain, FailureDomains } from './failure-domains.ts';
import { Fallback } from './fallback.ts';
import { LateCharges } from './late-charges.ts';
import { type CallContext, CheckCall, RequiredCall } from './store-calls.ts';
import { inspectOf, type Once, onceOf } from './store-methods.ts';

export interface FailureOptions {
  /**
   * What to do if the store cannot decide. The policy and the call can override it. Default
   * `'local'`: each process limits on its own.
   *
   * @example onFailure: 'deny'
   */
  readonly onFailure?: FailureAction;
  /**
   * The longest wait for the store, in ms. Default 50.
   *
   * @example deadlineMs: 20
   */
  readonly deadlineMs?: number;
  /**
   * Maximum number of calls that wait for the store. Default 10,000.
   *
   * @example maxInFlight: 2000
   */
  readonly maxInFlight?: number;
  /**
   * For `'local'`: the fraction of each limit that one process admits. Default 1.
   *
   * @example localShare: 0.25
   */
  readonly localShare?: number;
}

export const DEFAULT_DEADLINE_MS = 50;
export const FAILURE_OPTIONS = ['onFailure', 'deadlineMs', 'maxInFlight', 'localShare'];

/** A store with failure handling. */
export interface GuardedStore extends Store {
  /**
   * The state of the circuit breaker: `closed` sends calls, `open` does not, `probing` has sent one
   * call to test the store. With several failure domains, this is the worst state.
   */
  readonly breaker: BreakerState;
}

class Guard implements GuardedStore {
  readonly #context: CallContext;
  readonly #domains: FailureDomains;
  readonly #removeListener: (() => void) | undefined;
  /** Undefined if the wrapped store has no `adjustOnce`. */
  readonly adjustOnce?: Once;

  constructor(context: CallContext) {
    this.#context = context;
    this.#domains = context.inFlight.domains;
    this.#removeListener = context.store.onReady?.(() => this.#domains.ready());
    const once = onceOf(context.store);
    if (once === undefined) return;
    this.adjustOnce = (id, adjustments, nowMs, _onSent, client) =>
      this.#adjustOnce(once, id, adjustments, nowMs, client);
  }

  get breaker(): BreakerState {
    return this.#domains.state;
  }

  get features(): Store['features'] {
    return this.#context.store.features;
  }

  get onRelease(): Store['onRelease'] {
    return this.#context.store.onRelease;
  }

  get size(): number | undefined {
    return this.#context.store.size;
  }

  get evicted(): number | undefined {
    return this.#context.store.evicted;
  }

  get guaranteedKeys(): number | undefined {
    return this.#context.store.guaranteedKeys;
  }

  decideLocally(check: Check, nowMs?: number): CheckResult | undefined {
    return this.#context.store.decideLocally?.(check, nowMs);
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    // Borrowed units can be spent while the store is unavailable.
    const local = checks.length === 1 ? this.decideLocally(checks[0], nowMs) : undefined;
    if (local !== undefined) return Promise.resolve([local]);
    if (checks.length === 1) return new CheckCall(this.#context, checks[0], nowMs).run();
    const all = checks.map((check) => new CheckCall(this.#context, check, nowMs).run());
    return Promise.all(all).then((results) => results.flat());
  }

  async adjust(adjustments: readonly Adjustment[], nowMs?: number): Promise<readonly number[]> {
    const { store, fallback, lateCharges } = this.#context;
    const [own, degraded] = split(adjustments);
    const changes = fallback.adjust(degraded, nowMs);
    lateCharges.settle(degraded, nowMs);
    if (own.length === 0) return changes;
    const done = await this.#required(
      (domains) => domains.ofAdjustments(own),
      (onSent) => store.adjust(own, nowMs, onSent),
    );
    return merge(adjustments, done, changes);
  }

  async #adjustOnce(
    once: Once,
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number | undefined,
    client: string | undefined,
  ): Promise<readonly number[] | undefined> {
    const { fallback, lateCharges } = this.#context;
    const [own, degraded] = split(adjustments);
    let done: readonly number[] | undefined = [];
    if (own.length > 0) {
      done = await this.#required(
        (domains) => domains.ofAdjustments(own),
        (onSent) => once(id, own, nowMs, onSent, client),
      );
      if (done === undefined) return undefined;
    }
    const changes = degraded.length === 0 ? [] : fallback.adjustOnce(id, degraded, nowMs, client);
    if (changes === undefined) return own.length === 0 ? undefined : merge(adjustments, done, []);
    lateCharges.settle(degraded, nowMs);
    return merge(adjustments, done, changes);
  }

  async adjustLater(adjustments: readonly Adjustment[], nowMs?: number): Promise<void> {
    const { fallback, lateCharges } = this.#context;
    const [own, degraded] = split(adjustments);
    fallback.adjust(degraded, nowMs);
    lateCharges.settle(degraded, nowMs);
    if (own.length > 0) await this.#domains.adjustLater(own, nowMs);
  }

  reset(policy: Policy, key: string, nowMs?: number): Promise<void> {
    const { store, fallback } = this.#context;
    fallback.reset(policy, key, nowMs);
    return this.#required(
      (domains) => domains.ofKey(policy, key).alone,
      (onSent) => store.reset(policy, key, nowMs, onSent),
    );
  }

  block(policy: Policy, key: string, forMs: number, nowMs?: number): Promise<void> {
    const { store, fallback } = this.#context;
    fallback.block(policy, key, forMs, nowMs);
    return this.#required(
      (domains) => domains.ofKey(policy, key).alone,
      async (onSent) => store.block?.(policy, key, forMs, nowMs, onSent),
    );
  }

  async inspect(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
  ): Promise<KeyState | undefined> {
    const inspect = inspectOf(this.#context.store);
    return this.#required(
      (domains) => domains.ofKey(policy, key).alone,
      async (onSent) => inspect?.(policy, params, key, nowMs, onSent),
    );
  }

  close(): Promise<void> {
    this.#removeListener?.();
    this.#domains.close();
    this.#context.fallback.close();
    return this.#context.store.close();
  }

  #required<T>(
    domainsOf: (domains: FailureDomains) => readonly FailureDomain[],
    work: (onSent: OnSent) => Promise<T>,
  ): Promise<T> {
    return new RequiredCall(this.#context, domainsOf, work).run();
  }
}

/** Splits adjustments by who made the charge: the store, or a fallback. */
function split(adjustments: readonly Adjustment[]): [own: Adjustment[], degraded: Adjustment[]] {
  return [
    adjustments.filter(({ charge }) => !charge.degraded),
    adjustments.filter(({ charge }) => charge.degraded),
  ];
}

/** Returns the changes in the order of their adjustments; 0 where there is none. */
function merge(
  adjustments: readonly Adjustment[],
  own: readonly number[],
  degraded: readonly number[],
): readonly number[] {
  const [rest, others] = [own.values(), degraded.values()];
  return adjustments.map(({ charge }) => (charge.degraded ? others : rest).next().value ?? 0);
}

function checkNumber(name: string, value: number, isValid: boolean, what: string): void {
  if (typeof value === 'number' && isValid) return;
  throw expected('ERR_INVALID_OPTION', `\`${name}\` to be ${what}`, value);
}

/**
 * Adds failure handling to a store.
 *
 *     const store = withFailurePolicy(myStore(), { onFailure: 'deny', deadlineMs: 20 });
 */
export function withFailurePolicy(store: Store, options: FailureOptions = {}): GuardedStore {
  checkFields(options, FAILURE_OPTIONS);
  if (typeof store?.decide !== 'function') {
    throw expected('ERR_INVALID_OPTION', 'a store', store);
  }
  const {
    onFailure,
    deadlineMs = DEFAULT_DEADLINE_MS,
    maxInFlight = 10_000,
    localShare = 1,
  } = options;
  checkNumber('deadlineMs', deadlineMs, isInteger(deadlineMs, 1), 'an integer >= 1');
  checkNumber('maxInFlight', maxInFlight, isInteger(maxInFlight, 1), 'an integer >= 1');
  const isShare = localShare > 0 && localShare <= 1;
  checkNumber('localShare', localShare, isShare, 'above 0 and at most 1');
  const action = checkAction(onFailure) ?? 'local';
  const fallback = new Fallback(action, localShare);
  const domains = new FailureDomains(store, monotonicClock, maxInFlight);
  const inFlight = { domains, deadlines: new Deadlines(monotonicClock, deadlineMs) };
  const lateCharges = new LateCharges(
    monotonicClock,
    (adjustments, nowMs) => void domains.adjustLater(adjustments, nowMs),
  );
  return new Guard({ store, fallback, inFlight, lateCharges });
}
