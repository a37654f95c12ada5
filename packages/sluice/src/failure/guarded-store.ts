/**
 * What happens when a store does not answer: decided here, for any store, and nowhere else.
 *
 * A call has a deadline. Calls that are in flight are bounded. A store that keeps failing is not
 * asked for a while. Whoever cannot be answered by the store gets what the call, the policy or the
 * store's options say: `allow`, `deny`, `local` or `throw`; and the decision tells so.
 */
import type { Terms } from '../algorithms/algorithm.ts';
import { systemClock } from '../clock.ts';
import type { Quote } from '../decision.ts';
import { checkFields, expected, isInteger } from '../errors.ts';
import { checkAction, type FailureAction, type Policy } from '../policy.ts';
import { type Adjustment, type Check, type KeyState, refundOf, type Store } from '../store.ts';
import { Breaker, type BreakerState } from './breaker.ts';
import { Call, type InFlight, type Reason } from './call.ts';
import { Deadlines } from './deadlines.ts';
import { Substitute, unavailable } from './substitute.ts';

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
  /** Whether the store is asked: `closed` is yes, `open` is no, `probing` is being found out. */
  readonly breaker: BreakerState;
}

/** What a call needs to know of the store and its stand-in. */
interface Parts {
  readonly store: Store;
  readonly substitute: Substitute;
  readonly inFlight: InFlight;
}

/** A check, for which there is always an answer. */
class CheckCall extends Call<readonly Quote[]> {
  constructor(
    private readonly parts: Parts,
    private readonly check: Check,
    private readonly nowMs: number | undefined,
  ) {
    super(parts.inFlight);
  }

  protected override ask(): void {
    const { store } = this.parts;
    if (store.submit !== undefined) store.submit(this.check, this.nowMs, this);
    else this.await(store.decide([this.check], this.nowMs));
  }

  protected override instead(reason: Reason, cause: unknown): readonly Quote[] {
    const { substitute, inFlight } = this.parts;
    return [substitute.decide(this.check, this.nowMs, reason, inFlight.breaker.waitMs, cause)];
  }

  /** A denial that is repeated from this process's memory says nothing about the store. */
  protected override proof(answer: readonly Quote[] | undefined) {
    const quote = answer?.[0];
    if (typeof quote !== 'object') return 'broken';
    return quote.cached === true ? 'nothing' : 'works';
  }

  /** Whoever was told no is not charged: what the store admitted after that is given back. */
  protected override late(answer: readonly Quote[], told: readonly Quote[] | undefined): void {
    const { limits, peek, id } = this.check;
    const quote = answer?.[0];
    if (peek || !quote?.allowed || id !== undefined || told?.[0].allowed) return;
    const adjustments = limits.map((limit, place) => refundOf(limit, quote.limits[place].atMs));
    // Past the breaker: it is open when a store wakes up and all its late answers come, but one
    // that has just answered can be asked. The caller is gone, so nobody is told if this fails.
    this.parts.store.adjust(adjustments, this.nowMs).catch(() => {});
  }
}

/** What only the store can do: the same deadline and breaker, and then an error. */
class RequiredCall<T> extends Call<T> {
  constructor(
    { inFlight }: Parts,
    private readonly work: () => Promise<T>,
  ) {
    super(inFlight);
  }

  protected override ask(): void {
    this.await(this.work());
  }

  protected override instead(reason: Reason, cause: unknown): never {
    throw unavailable(reason, cause, reason === 'open' || reason === 'overload');
  }
}

class Guard implements GuardedStore {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get breaker(): BreakerState {
    return this.#parts.inFlight.breaker.state;
  }

  get size(): number | undefined {
    return this.#parts.store.size;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly Quote[]> {
    if (checks.length === 1) return new CheckCall(this.#parts, checks[0], nowMs).run();
    const all = checks.map((check) => new CheckCall(this.#parts, check, nowMs).run());
    return Promise.all(all).then((quotes) => quotes.flat());
  }

  async adjust(adjustments: readonly Adjustment[], nowMs?: number): Promise<readonly number[]> {
    const changes = adjustments.map((each) =>
      each.charge.degraded ? this.#parts.substitute.adjust(each, nowMs) : 0,
    );
    const own = adjustments.filter(({ charge }) => !charge.degraded);
    if (own.length === 0) return changes;
    const answers = [...(await this.#required(() => this.#parts.store.adjust(own, nowMs)))];
    return adjustments.map(({ charge }, place) =>
      charge.degraded ? changes[place] : answers.shift()!,
    );
  }

  reset(policy: Policy, key: string, nowMs?: number): Promise<void> {
    this.#parts.substitute.reset(policy, key, nowMs);
    return this.#required(() => this.#parts.store.reset(policy, key, nowMs));
  }

  async inspect(
    policy: Policy,
    terms: Terms,
    key: string,
    nowMs?: number,
  ): Promise<KeyState | undefined> {
    return this.#required(async () => this.#parts.store.inspect?.(policy, terms, key, nowMs));
  }

  close(): Promise<void> {
    return this.#parts.store.close();
  }

  #required<T>(work: () => Promise<T>): Promise<T> {
    return new RequiredCall(this.#parts, work).run();
  }
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
  const substitute = new Substitute(action, localShare);
  const inFlight = {
    count: 0,
    most: maxInFlight,
    breaker: new Breaker(systemClock),
    deadlines: new Deadlines(systemClock, deadlineMs),
  };
  return new Guard({ store, substitute, inFlight });
}
