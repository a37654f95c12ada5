/**
 * Waiting for a check to pass.
 *
 * Everybody who waits stands in one lane for each limit asked for, in order of arrival, and asks
 * the store only when first in all of them. So nobody is overtaken, and a waiter that needs two
 * limits holds neither while it waits for the other. Whoever is first knows its wait exactly; the
 * others know how long it takes at the least, and those for whom that is too long leave at once.
 */
import type { Clock } from './clock.ts';
import { type Charge, type Decision, jointDecision, type Quote } from './decision.ts';
import { checkMethods, closed, expected } from './errors.ts';
import type { FailureAction } from './policy.ts';
import { type Adjustment, type Check, idOf, type Limit } from './store.ts';
import { turnOf } from './turn.ts';

export interface AcquireOptions {
  /** How long to wait at most, in ms. Default: as long as it takes. */
  readonly maxWaitMs?: number | undefined;
  /** Ends the wait: the promise rejects with the signal's reason, and nothing is charged. */
  readonly signal?: AbortSignal | undefined;
  /** What to do if the store cannot decide. Default: what the policy says, or the store. */
  readonly onFailure?: FailureAction | undefined;
}

/** What waiting needs of the limiter. */
export interface Gate {
  readonly clock: Clock;
  /** Decides; whether it is a peek says the check. */
  ask(check: Check): Quote | Promise<Quote>;
  giveBack(adjustments: readonly Adjustment[]): void;
  tell(decision: Decision): unknown;
}

interface Waiter {
  readonly check: Check;
  readonly limits: readonly Limit[];
  readonly lanes: readonly Waiter[][];
  readonly deadlineMs: number;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  /** Whether it has been first: the answer of the store says more than a judgement could. */
  asked?: boolean;
  asking?: boolean;
  /** Those who are judged when it has been answered: until then nothing can be said. */
  readonly unjudged: Waiter[];
  /** Whether something came free while it was asking, so that a denial may be out of date. */
  nudged?: boolean;
  gone?: boolean;
  stopTimer?: () => void;
  /** Lets go of its deadline and of its signal. */
  readonly stops: (() => void)[];
}

export class Waiters {
  readonly #gate: Gate;
  readonly #lanes = new Map<string, Waiter[]>();
  /** Who waits on a signal: one listener serves all of them, as a process may have one signal. */
  readonly #bySignal = new WeakMap<AbortSignal, Set<Waiter>>();
  readonly #onAbort = ({ target }: Event): void => {
    const signal = target as AbortSignal;
    this.#fail(this.#bySignal.get(signal)!, signal.reason);
  };
  /** Waiters who may have come first in all their lanes; kept, so that no chain grows the stack. */
  readonly #ready = new Set<Waiter>();
  #draining = false;

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    const { maxWaitMs = Number.POSITIVE_INFINITY, signal } = options;
    if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
      throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
    }
    if (signal !== undefined) {
      checkMethods('`signal` to be an AbortSignal', signal, 'throwIfAborted');
      signal.throwIfAborted();
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        check,
        limits: check.limits,
        deadlineMs: this.#gate.clock.now() + maxWaitMs,
        lanes: check.limits.map((limit) => this.#laneOf(limit)),
        resolve,
        reject,
        unjudged: [],
        stops: [],
      };
      for (const lane of waiter.lanes) lane.push(waiter);
      if (signal) this.#heed(signal, waiter);
      this.#ready.add(waiter);
      this.#proceed([]);
      if (waiter.gone || maxWaitMs === Number.POSITIVE_INFINITY) return;
      // Others may take what it hopes for, so its patience has an end of its own. Who is due this
      // very moment, or is asking, is answered first.
      const giveUp = (): void => {
        if (!waiter.gone && !waiter.asking) this.#letGo(waiter, true);
      };
      const atDeadline = (): void => queueMicrotask(giveUp);
      waiter.stops.push(this.#gate.clock.schedule(maxWaitMs, atDeadline));
      this.#judge(waiter);
    });
  }

  /** Lets those ask again who wait for something that may have come free. */
  nudge(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (this.#lanes.size === 0) return;
    for (const { charge } of changes) {
      const first = this.#lanes.get(idOf(charge.policy, charge.key))?.[0];
      if (first === undefined) continue;
      first.nudged = true;
      this.#ready.add(first);
    }
    this.#proceed([]);
  }

  /** Rejects everybody who waits. */
  close(): void {
    this.#fail([...this.#lanes.values()].flat(), closed());
  }

  /** Lets a waiter go when the signal is aborted, and the signal when nobody waits on it. */
  #heed(signal: AbortSignal, waiter: Waiter): void {
    const waiters = this.#bySignal.get(signal) ?? new Set();
    this.#bySignal.set(signal, waiters.add(waiter));
    // The same listener is added only once.
    signal.addEventListener('abort', this.#onAbort);
    waiter.stops.push(() => {
      waiters.delete(waiter);
      if (waiters.size === 0) signal.removeEventListener('abort', this.#onAbort);
    });
  }

  #laneOf({ policy, key }: Limit): Waiter[] {
    const id = idOf(policy.name, key);
    const lane = this.#lanes.get(id) ?? [];
    this.#lanes.set(id, lane);
    return lane;
  }

  /** Judges those who could not be while these were asking, then lets ask whose turn it is. */
  #proceed(answered: readonly Waiter[]): void {
    for (const { unjudged } of answered) {
      for (const other of unjudged.splice(0)) this.#judge(other);
    }
    if (this.#draining) return;
    this.#draining = true;
    for (const waiter of this.#ready) {
      this.#ready.delete(waiter);
      this.#ask(waiter);
    }
    this.#draining = false;
  }

  /** Asks the store for a waiter who stands first everywhere; who is gone stands nowhere. */
  #ask(waiter: Waiter): void {
    if (waiter.asking || waiter.lanes.some((lane) => lane[0] !== waiter)) return;
    waiter.stopTimer?.();
    waiter.asked = true;
    waiter.asking = true;
    waiter.nudged = false;
    this.#put(waiter, waiter.check, (decision) => this.#answered(waiter, decision as Decision));
  }

  /** Asks the store, and calls `done` now or later, depending on how the answer comes. */
  #put(waiter: Waiter, check: Check, done: (quote: Quote) => void): void {
    const failed = (error: unknown): void => this.#fail([waiter], error);
    try {
      const answer = this.#gate.ask(check);
      if ('then' in answer) answer.then(done).catch(failed);
      else done(answer);
    } catch (error) {
      failed(error);
    }
  }

  #answered(waiter: Waiter, decision: Decision): void {
    waiter.asking = false;
    if (waiter.gone) {
      // It was called off while the store was being asked, so what it got goes back.
      const back = decision.receipt?.charges.map((charge, at) => ({
        ...waiter.limits[at],
        charge,
        delta: -charge.cost,
      }));
      if (back) this.#gate.giveBack(back);
      return;
    }
    if (waiter.nudged && !decision.allowed) this.#ready.add(waiter);
    else if (
      decision.allowed ||
      this.#gate.clock.now() + decision.retryAfterMs > waiter.deadlineMs
    ) {
      this.#leave(waiter);
      waiter.resolve(decision);
    } else {
      waiter.stopTimer = this.#gate.clock.schedule(decision.retryAfterMs, () => this.#ask(waiter));
    }
    this.#proceed([waiter]);
  }

  /** Rejects waiters, all before the next one asks: nobody asks who is about to go as well. */
  #fail(waiters: Iterable<Waiter>, reason: unknown): void {
    const leaving = [...waiters];
    for (const waiter of leaving) {
      if (waiter.gone) continue;
      this.#leave(waiter);
      waiter.reject(reason);
    }
    this.#proceed(leaving);
  }

  /** Takes a waiter out of its lanes. Those who thereby come first may ask. */
  #leave(waiter: Waiter): void {
    waiter.gone = true;
    waiter.stopTimer?.();
    for (const stop of waiter.stops) stop();
    for (const [place, lane] of waiter.lanes.entries()) {
      const { policy, key } = waiter.limits[place];
      const at = lane.indexOf(waiter);
      lane.splice(at, 1);
      if (lane.length === 0) this.#lanes.delete(idOf(policy.name, key));
      else if (at === 0) this.#ready.add(lane[0]);
    }
  }

  /** Lets a waiter go whose turn, behind the others, must come after its deadline. */
  #judge(waiter: Waiter): void {
    if (waiter.asked || waiter.gone) return;
    const first = waiter.lanes.find((lane) => lane[0].asking)?.[0];
    // While the first in a lane is asking nothing can be said yet; its answer brings us back.
    if (first) first.unjudged.push(waiter);
    else this.#letGo(waiter, false);
  }

  /** Denies a waiter whose deadline has come, or cannot be met. */
  #letGo(waiter: Waiter, isDue: boolean): void {
    const turns = waiter.limits.map((limit, place) =>
      turnOf(limit, demandOf(waiter, waiter.lanes[place])),
    );
    const check = { ...waiter.check, limits: turns.map(({ asked }) => asked), peek: true };
    this.#put(waiter, check, (quote) => {
      const waits = quote.limits.map((each, place) => ({
        ...each,
        cost: waiter.limits[place].cost,
        allowed: false,
        retryAfterMs: turns[place].earliestMs(each),
      }));
      const patienceMs = waiter.deadlineMs - this.#gate.clock.now();
      if (waiter.gone || !(isDue || waits.some((each) => each.retryAfterMs > patienceMs))) return;
      // Who is behind others has to wait, even if not for the key.
      waits[0].retryAfterMs ||= 1;
      const denial = jointDecision(waits, false) as Decision;
      this.#leave(waiter);
      this.#gate.tell(denial);
      waiter.resolve(denial);
      this.#proceed([waiter]);
    });
  }
}

/** What a waiter and those before it in a lane ask for, all in all. */
function demandOf(waiter: Waiter, lane: Waiter[]): number {
  let demand = 0;
  for (const other of lane) {
    demand += other.limits[other.lanes.indexOf(lane)].cost;
    if (other === waiter) break;
  }
  return demand;
}
