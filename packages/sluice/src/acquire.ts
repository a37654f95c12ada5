/**
 * Waiting for a check to pass.
 *
 * Everybody who waits stands in one lane for each limit asked for, in order of arrival, and asks
 * the store only when first in all of them. So nobody is overtaken, and a waiter that needs two
 * limits holds neither while it waits for the other. Whoever is first knows its wait exactly; the
 * others know how long it takes at the least, and those for whom that is too long leave at once.
 */
import type { Clock } from './clock.ts';
import { type Charge, type Decision, jointDecision, type Quote, type Receipt } from './decision.ts';
import { closed, expected } from './errors.ts';
import type { FailureAction } from './policy.ts';
import { type Check, idOf, type Limit } from './store.ts';
import { askedFor, earliestTurnMs } from './turn.ts';

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
  giveBack(receipt: Receipt): void;
  tell(decision: Decision): unknown;
}

interface Waiter {
  readonly check: Check;
  readonly limits: readonly Limit[];
  readonly lanes: readonly Waiter[][];
  readonly deadlineMs: number;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  /** Whether it has been said how long the wait is at the least. */
  judged: boolean;
  asking: boolean;
  /** Whether something came free while it was asking, so that a denial may be out of date. */
  nudged: boolean;
  gone: boolean;
  stopTimer: () => void;
  /** Lets go of its deadline and of its signal. */
  readonly stops: (() => void)[];
}

/** Calls `done` now or later, depending on how the answer comes. */
function whenAnswered<T extends object>(
  ask: () => T | Promise<T>,
  done: (answer: T) => void,
  failed: (error: unknown) => void,
): void {
  try {
    const answer = ask();
    if ('then' in answer) answer.then(done).catch(failed);
    else done(answer);
  } catch (error) {
    failed(error);
  }
}

export class Waiters {
  readonly #gate: Gate;
  readonly #lanes = new Map<string, Waiter[]>();
  /** Waiters who have come first in all their lanes; a list, so that no chain grows the stack. */
  readonly #ready: Waiter[] = [];
  #draining = false;

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    const { limits } = check;
    const { maxWaitMs = Number.POSITIVE_INFINITY, signal } = options;
    if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
      throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
    }
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        check,
        limits,
        lanes: limits.map((limit) => this.#laneOf(limit)),
        deadlineMs: this.#gate.clock.now() + maxWaitMs,
        resolve,
        reject,
        judged: false,
        asking: false,
        nudged: false,
        gone: false,
        stopTimer: () => {},
        stops: [],
      };
      for (const lane of waiter.lanes) lane.push(waiter);
      if (signal) {
        const abort = (): void => this.#fail(waiter, signal.reason);
        signal.addEventListener('abort', abort, { once: true });
        waiter.stops.push(() => signal.removeEventListener('abort', abort));
      }
      this.#callUp(waiter);
      this.#drain();
      this.#judge(waiter);
      this.#setDeadline(waiter, maxWaitMs);
    });
  }

  /** Lets those ask again who wait for something that may have come free. */
  nudge(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (this.#lanes.size === 0) return;
    for (const { charge } of changes) {
      const first = this.#lanes.get(idOf(charge.policy, charge.key))?.[0];
      if (first?.asking) first.nudged = true;
      else if (first !== undefined) this.#callUp(first);
    }
    this.#drain();
  }

  /** Rejects everybody who waits. */
  close(): void {
    const waiters = new Set([...this.#lanes.values()].flat());
    for (const waiter of [...waiters].reverse()) this.#fail(waiter, closed());
  }

  #laneOf({ policy, key }: Limit): Waiter[] {
    const id = idOf(policy.name, key);
    const lane = this.#lanes.get(id) ?? [];
    this.#lanes.set(id, lane);
    return lane;
  }

  /** Marks a waiter as ready if nobody stands before it. */
  #callUp(waiter: Waiter): void {
    if (waiter.lanes.every((lane) => lane[0] === waiter)) this.#ready.push(waiter);
  }

  #drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    for (let waiter = this.#ready.shift(); waiter; waiter = this.#ready.shift()) this.#ask(waiter);
    this.#draining = false;
  }

  #ask(waiter: Waiter): void {
    if (waiter.gone || waiter.asking) return;
    waiter.stopTimer();
    waiter.asking = true;
    waiter.nudged = false;
    whenAnswered(
      () => this.#gate.ask(waiter.check) as Decision | Promise<Decision>,
      (decision) => this.#answered(waiter, decision),
      (error) => this.#fail(waiter, error),
    );
  }

  #answered(waiter: Waiter, decision: Decision): void {
    waiter.asking = false;
    waiter.judged = true;
    if (waiter.gone) {
      // It was called off while the store was being asked, so what it got goes back.
      if (decision.allowed) this.#gate.giveBack(decision.receipt);
      return;
    }
    const { clock } = this.#gate;
    if (waiter.nudged && !decision.allowed) this.#ready.push(waiter);
    else if (decision.allowed || clock.now() + decision.retryAfterMs > waiter.deadlineMs) {
      this.#leave(waiter);
      waiter.resolve(decision);
    } else {
      waiter.stopTimer = clock.schedule(decision.retryAfterMs, () => this.#ask(waiter));
    }
    for (const other of waiter.lanes.flat()) this.#judge(other);
    this.#drain();
  }

  #fail(waiter: Waiter, reason: unknown): void {
    if (waiter.gone) return;
    this.#leave(waiter);
    waiter.reject(reason);
    this.#drain();
  }

  /** Takes a waiter out of its lanes and calls up those who thereby come first. */
  #leave(waiter: Waiter): void {
    waiter.gone = true;
    waiter.stopTimer();
    for (const stop of waiter.stops) stop();
    const firsts: Waiter[] = [];
    for (const [place, lane] of waiter.lanes.entries()) {
      const { policy, key } = waiter.limits[place];
      const at = lane.indexOf(waiter);
      lane.splice(at, 1);
      if (lane.length === 0) this.#lanes.delete(idOf(policy.name, key));
      else if (at === 0) firsts.push(lane[0]);
    }
    for (const first of firsts) this.#callUp(first);
  }

  /** Lets a waiter go whose turn, behind the others, must come after its deadline. */
  #judge(waiter: Waiter): void {
    // While the first in a lane is asking nothing can be said yet; its answer brings us back.
    if (waiter.judged || waiter.gone || waiter.lanes.some((lane) => lane[0].asking)) return;
    waiter.judged = true;
    if (waiter.deadlineMs !== Number.POSITIVE_INFINITY) this.#letGo(waiter, false);
  }

  /** Others may take what a waiter hopes for, so its patience has an end of its own. */
  #setDeadline(waiter: Waiter, maxWaitMs: number): void {
    if (waiter.gone || maxWaitMs === Number.POSITIVE_INFINITY) return;
    // Who is due this very moment, or is asking, is answered first.
    const giveUp = (): void => {
      if (!waiter.gone && !waiter.asking) this.#letGo(waiter, true);
    };
    const { clock } = this.#gate;
    waiter.stops.push(clock.schedule(maxWaitMs, () => queueMicrotask(giveUp)));
  }

  /** Denies a waiter whose deadline has come, or cannot be met. */
  #letGo(waiter: Waiter, isDue: boolean): void {
    const demands = waiter.limits.map((limit, place) =>
      demandOf(waiter, limit, waiter.lanes[place]),
    );
    const limits = waiter.limits.map((limit, at) => askedFor(limit, demands[at]));
    whenAnswered(
      () => this.#gate.ask({ ...waiter.check, limits, peek: true }),
      (quote) => {
        const turns = quote.limits.map((each, place) => ({
          ...each,
          cost: waiter.limits[place].cost,
          allowed: false,
          retryAfterMs: earliestTurnMs(waiter.limits[place], demands[place], each),
        }));
        const waitMs = Math.max(...turns.map((each) => each.retryAfterMs));
        if (waiter.gone || !(isDue || this.#gate.clock.now() + waitMs > waiter.deadlineMs)) return;
        // Who is behind others has to wait, even if not for the key.
        turns[0].retryAfterMs = Math.max(turns[0].retryAfterMs, 1);
        const denial = jointDecision(turns, false) as Decision;
        this.#leave(waiter);
        this.#gate.tell(denial);
        waiter.resolve(denial);
        this.#drain();
      },
      (error) => this.#fail(waiter, error),
    );
  }
}

/** What a waiter and those before it in a lane ask for, all in all. */
function demandOf(waiter: Waiter, { policy, key, cost }: Limit, lane: readonly Waiter[]): number {
  let demand = cost;
  for (const other of lane) {
    if (other === waiter) break;
    demand += other.limits.find((each) => each.policy === policy && each.key === key)!.cost;
  }
  return demand;
}
