/**
 * What happens when a store does not answer: decided here, for any store, and nowhere else.
 *
 * A call has a deadline. Calls that are in flight are bounded. A store that keeps failing is not
 * asked for a while. Whoever cannot be answered by the store gets what the call, the policy or the
 * store's options say: `allow`, `deny`, `local` or `throw`; and the decision tells so.
 */
import type { Terms } from '../algorithms/algorithm.ts';
import { type Clock, systemClock } from '../clock.ts';
import type { Quote } from '../decision.ts';
import { checkFields, expected, SluiceError } from '../errors.ts';
import { checkAction, type FailureAction, type Policy } from '../policy.ts';
import type { Adjustment, Check, KeyState, Store } from '../store.ts';
import { Breaker, type BreakerState } from './breaker.ts';
import { Deadline, Deadlines } from './deadlines.ts';
import { type Reason, Substitute } from './substitute.ts';

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

export const FAILURE_OPTIONS = ['onFailure', 'deadlineMs', 'maxInFlight', 'localShare'];

/** A store whose failures are taken care of. */
export interface GuardedStore extends Store {
  /** Whether the store is asked: `closed` is yes, `open` is no, `probing` is being found out. */
  readonly breaker: BreakerState;
}

interface Settings {
  readonly deadlineMs: number;
  readonly maxInFlight: number;
}

/** What calls in flight have in common. */
class InFlight {
  count = 0;

  constructor(
    readonly breaker: Breaker,
    readonly deadlines: Deadlines,
  ) {}
}

/** The answer when the store has none; may throw. */
type Instead<T> = (reason: Reason, cause: unknown) => T;

/** Told of an answer that came after `told` had been given instead; that is undefined if it threw. */
type Late<T> = (answer: T, told: T | undefined) => void;

/** A denial that is repeated from this process's memory says nothing about the store. */
const isCached = (answer: unknown): boolean =>
  (answer as readonly Quote[] | undefined)?.[0]?.cached === true;

/** One call that waits for the store. */
class Call<T> extends Deadline {
  #isDone = false;
  #told: T | undefined = undefined;

  constructor(
    private readonly inFlight: InFlight,
    private readonly kind: 'call' | 'probe' | undefined,
    private readonly resolve: (answer: T) => void,
    private readonly reject: (error: unknown) => void,
    private readonly instead: Instead<T>,
    private readonly late: Late<T> | undefined,
  ) {
    super();
  }

  start(ask: () => Promise<T>): void {
    this.inFlight.count++;
    this.inFlight.deadlines.start(this);
    try {
      ask().then(
        (answer) => this.#answered(answer),
        (error) => this.#failed(error),
      );
    } catch (error) {
      this.#failed(error);
    }
  }

  #answered(answer: T): void {
    if (this.#isDone) {
      this.late?.(answer, this.#told);
      return;
    }
    this.#end();
    if (isCached(answer)) this.inFlight.breaker.passedOver(this.kind!);
    else this.inFlight.breaker.succeeded(this.kind!);
    this.resolve(answer);
  }

  #failed(error: unknown): void {
    if (this.#isDone) return;
    this.#end();
    this.inFlight.breaker.failed(this.kind!);
    this.giveUp('error', error);
  }

  override expire(): void {
    this.#isDone = true;
    this.inFlight.count--;
    this.inFlight.breaker.failed(this.kind!);
    this.giveUp('timeout', undefined);
  }

  giveUp(reason: Reason, cause: unknown): void {
    try {
      this.#told = this.instead(reason, cause);
      this.resolve(this.#told);
    } catch (error) {
      this.reject(error);
    }
  }

  #end(): void {
    this.#isDone = true;
    this.inFlight.count--;
    this.inFlight.deadlines.end(this);
  }
}

class Guard implements GuardedStore {
  readonly #store: Store;
  readonly #settings: Settings;
  readonly #breaker: Breaker;
  readonly #substitute: Substitute;
  readonly #inFlight: InFlight;

  constructor(store: Store, settings: Settings, substitute: Substitute, clock: Clock) {
    this.#store = store;
    this.#settings = settings;
    this.#substitute = substitute;
    this.#breaker = new Breaker(clock);
    this.#inFlight = new InFlight(this.#breaker, new Deadlines(clock, settings.deadlineMs));
  }

  get breaker(): BreakerState {
    return this.#breaker.state;
  }

  get size(): number | undefined {
    return this.#store.size;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly Quote[]> {
    if (checks.length === 1) return this.#decideOne(checks[0], nowMs);
    const all = checks.map((check) => this.#decideOne(check, nowMs));
    return Promise.all(all).then((quotes) => quotes.flat());
  }

  #decideOne(check: Check, nowMs: number | undefined): Promise<readonly Quote[]> {
    return this.#attempt(
      () => this.#store.decide([check], nowMs),
      (reason, cause) => [
        this.#substitute.decide(check, nowMs, reason, this.#breaker.waitMs, cause),
      ],
      (answer, told) => {
        // The caller is gone, so there is nobody to tell if this fails.
        this.#tooLate(check, answer, told, nowMs).catch(() => {});
      },
    );
  }

  /**
   * Asks the store. If it does not answer in time or at all, the answer is `instead`, which may
   * throw; an answer that comes after that goes to `late`.
   */
  #attempt<T>(ask: () => Promise<T>, instead: Instead<T>, late?: Late<T>): Promise<T> {
    const isFull = this.#inFlight.count >= this.#settings.maxInFlight;
    const kind = isFull ? undefined : this.#breaker.admits();
    return new Promise<T>((resolve, reject) => {
      const call = new Call(this.#inFlight, kind, resolve, reject, instead, late);
      if (kind === undefined) call.giveUp(isFull ? 'overload' : 'open', undefined);
      else call.start(ask);
    });
  }

  /** Whoever was told no is not charged: what the store admitted after that is given back. */
  async #tooLate(
    { limits, peek, id }: Check,
    [quote]: readonly Quote[],
    told: readonly Quote[] | undefined,
    nowMs: number | undefined,
  ): Promise<void> {
    if (peek || !quote.allowed || id !== undefined || told?.[0].allowed) return;
    const adjustments = limits.map(({ policy, terms, key, cost }, place) => {
      const charge = { policy: policy.name, key, cost, atMs: quote.limits[place].atMs };
      return { policy, terms, charge, delta: -cost };
    });
    await this.#store.adjust(adjustments, nowMs);
  }

  async adjust(adjustments: readonly Adjustment[], nowMs?: number): Promise<readonly number[]> {
    const changes = adjustments.map((each) =>
      each.charge.degraded ? this.#substitute.adjust(each, nowMs) : 0,
    );
    const own = adjustments.filter(({ charge }) => !charge.degraded);
    if (own.length === 0) return changes;
    const answers = [...(await this.#required(() => this.#store.adjust(own, nowMs)))];
    return adjustments.map(({ charge }, place) =>
      charge.degraded ? changes[place] : answers.shift()!,
    );
  }

  reset(policy: Policy, key: string): Promise<void> {
    this.#substitute.reset(policy, key);
    return this.#required(() => this.#store.reset(policy, key));
  }

  async inspect(
    policy: Policy,
    terms: Terms,
    key: string,
    nowMs?: number,
  ): Promise<KeyState | undefined> {
    return this.#required(async () => this.#store.inspect?.(policy, terms, key, nowMs));
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  /** For what only the store can do: the same deadline and breaker, and then an error. */
  #required<T>(ask: () => Promise<T>): Promise<T> {
    return this.#attempt(ask, (reason, cause) => {
      throw unavailable(reason, cause, reason === 'open' || reason === 'overload');
    });
  }
}

/** The error for a store that could not do it; `notDone` if it surely has not. */
export function unavailable(reason: Reason, cause: unknown, notDone = false): SluiceError {
  const why = cause === undefined ? '' : `: ${(cause as Error)?.message ?? cause}`;
  const error = new SluiceError('ERR_STORE_UNAVAILABLE', `${MESSAGES[reason]}${why}`, { cause });
  const isNotDone = notDone || (cause as { notDone?: true } | undefined)?.notDone === true;
  return isNotDone ? Object.assign(error, { notDone: true }) : error;
}

const MESSAGES: Readonly<Record<Reason, string>> = {
  timeout: 'The store did not answer in time',
  error: 'The store answered with an error',
  open: 'The store has been failing, and is not asked for a while',
  overload: 'Too many calls wait for the store',
};

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
  const { onFailure, deadlineMs = 50, maxInFlight = 10_000, localShare = 1 } = options;
  const isWait = Number.isSafeInteger(deadlineMs) && deadlineMs >= 1;
  checkNumber('deadlineMs', deadlineMs, isWait, 'an integer >= 1');
  const isCount = Number.isSafeInteger(maxInFlight) && maxInFlight >= 1;
  checkNumber('maxInFlight', maxInFlight, isCount, 'an integer >= 1');
  const isShare = localShare > 0 && localShare <= 1;
  checkNumber('localShare', localShare, isShare, 'above 0 and at most 1');
  const action = checkAction(onFailure) ?? 'local';
  const substitute = new Substitute(action, localShare, unavailable);
  return new Guard(store, { deadlineMs, maxInFlight }, substitute, systemClock);
}
