/**
 * What happens when a store does not answer: decided here, for any store, and nowhere else.
 *
 * A call has a deadline. Calls that are in flight are bounded. A store that keeps failing is not
 * asked for a while. Whoever cannot be answered by the store gets what the call, the policy or the
 * store's options say: `allow`, `deny`, `local` or `throw`; and the decision tells so.
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
   * What to do when the store cannot decide, unless the policy or the call says otherwise.
   * Default `'local'`: each process goes on limiting by itself.
   */
  readonly onFailure?: FailureAction;
  /** How long a caller waits for the store, in ms. Default 50. */
  readonly deadlineMs?: number;
  /** How many calls may wait for the store at once. Default 10,000. */
  readonly maxInFlight?: number;
  /** For `'local'`: the part of each limit that one process admits. Default 1. */
  readonly localShare?: number;
}

export const DEFAULT_DEADLINE_MS = 50;
export const FAILURE_OPTIONS = ['onFailure', 'deadlineMs', 'maxInFlight', 'localShare'];

/** A store whose failures are taken care of. */
export interface GuardedStore extends Store {
  /**
   * Whether the store is asked: `closed` is yes, `open` is no, `probing` is being found out. If the
   * store has several failure domains, the worst of them.
   */
  readonly breaker: BreakerState;
}

class Guard implements GuardedStore {
  readonly #parts: CallContext;
  readonly #domains: FailureDomains;
  readonly #removeListener: (() => void) | undefined;
  /** Not there if the store does not have it. */
  readonly adjustOnce?: Once;

  constructor(parts: CallContext) {
    this.#parts = parts;
    this.#domains = parts.inFlight.domains;
    this.#removeListener = parts.store.onReady?.(() => this.#domains.ready());
    const once = onceOf(parts.store);
    if (once === undefined) return;
    this.adjustOnce = (id, adjustments, nowMs) => this.#adjustOnce(once, id, adjustments, nowMs);
  }

  get breaker(): BreakerState {
    return this.#domains.state;
  }

  get size(): number | undefined {
    return this.#parts.store.size;
  }

  get evicted(): number | undefined {
    return this.#parts.store.evicted;
  }

  get guaranteedKeys(): number | undefined {
    return this.#parts.store.guaranteedKeys;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    if (checks.length === 1) return new CheckCall(this.#parts, checks[0], nowMs).run();
    const all = checks.map((check) => new CheckCall(this.#parts, check, nowMs).run());
    return Promise.all(all).then((results) => results.flat());
  }

  async adjust(adjustments: readonly Adjustment[], nowMs?: number): Promise<readonly number[]> {
    const { store, fallback, lateCharges } = this.#parts;
    const [own, degraded] = apart(adjustments);
    const changes = fallback.adjust(degraded, nowMs);
    lateCharges.settle(degraded, nowMs);
    if (own.length === 0) return changes;
    const done = await this.#required(
      (domains) => domains.ofAdjustments(own),
      (onSent) => store.adjust(own, nowMs, onSent),
    );
    return together(adjustments, done, changes);
  }

  async #adjustOnce(
    once: Once,
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number | undefined,
  ): Promise<readonly number[] | undefined> {
    const { fallback, lateCharges } = this.#parts;
    const [own, degraded] = apart(adjustments);
    let done: readonly number[] | undefined = [];
    if (own.length > 0) {
      done = await this.#required(
        (domains) => domains.ofAdjustments(own),
        (onSent) => once(id, own, nowMs, onSent),
      );
      if (done === undefined) return undefined;
    }
    const changes = degraded.length === 0 ? [] : fallback.adjustOnce(id, degraded, nowMs);
    if (changes === undefined)
      return own.length === 0 ? undefined : together(adjustments, done, []);
    lateCharges.settle(degraded, nowMs);
    return together(adjustments, done, changes);
  }

  async adjustLater(adjustments: readonly Adjustment[], nowMs?: number): Promise<void> {
    const { fallback, lateCharges } = this.#parts;
    const [own, degraded] = apart(adjustments);
    fallback.adjust(degraded, nowMs);
    lateCharges.settle(degraded, nowMs);
    if (own.length > 0) await this.#domains.adjustLater(own, nowMs);
  }

  reset(policy: Policy, key: string, nowMs?: number): Promise<void> {
    const { store, fallback } = this.#parts;
    fallback.reset(policy, key, nowMs);
    return this.#required(
      (domains) => domains.ofKey(policy, key).alone,
      (onSent) => store.reset(policy, key, nowMs, onSent),
    );
  }

  async inspect(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
  ): Promise<KeyState | undefined> {
    const inspect = inspectOf(this.#parts.store);
    return this.#required(
      (domains) => domains.ofKey(policy, key).alone,
      async (onSent) => inspect?.(policy, params, key, nowMs, onSent),
    );
  }

  close(): Promise<void> {
    this.#removeListener?.();
    this.#domains.close();
    this.#parts.fallback.close();
    return this.#parts.store.close();
  }

  #required<T>(
    domainsOf: (domains: FailureDomains) => readonly FailureDomain[],
    work: (onSent: OnSent) => Promise<T>,
  ): Promise<T> {
    return new RequiredCall(this.#parts, domainsOf, work).run();
  }
}

/** The adjustments of the store's charges, and those of the fallback's. */
function apart(adjustments: readonly Adjustment[]): [own: Adjustment[], degraded: Adjustment[]] {
  return [
    adjustments.filter(({ charge }) => !charge.degraded),
    adjustments.filter(({ charge }) => charge.degraded),
  ];
}

/** The changes in the order of their adjustments; 0 for what has none. */
function together(
  adjustments: readonly Adjustment[],
  own: readonly number[],
  degraded: readonly number[],
): readonly number[] {
  const [rest, others] = [own.values(), degraded.values()];
  return adjustments.map(({ charge }) => (charge.degraded ? others : rest).next().value ?? 0);
}

function checkNumber(name: string, value: number, isFine: boolean, what: string): void {
  if (typeof value === 'number' && isFine) return;
  throw expected('ERR_INVALID_OPTION', `\`${name}\` to be ${what}`, value);
}

/**
 * Takes care of a store's failures.
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
