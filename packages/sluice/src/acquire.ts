/**
 * Waiting for a check to pass.
 *
 * Everybody who waits stands in one lane for each limit asked for, in order of arrival, and asks
 * the store only when first in all of them. So nobody is overtaken, and a waiter that needs two
 * limits holds neither while it waits for the other. Whoever is first knows its wait exactly; the
 * others know how long it takes at the least, and those for whom that is too long leave at once.
 */
import type { Clock } from './clock.ts';
import { type Decision, jointDecision, type Quote } from './decision.ts';
import { expected, SluiceError } from './errors.ts';
import { idOf, type Limit } from './store.ts';

export interface AcquireOptions {
  /** How long to wait at most, in ms. Default: as long as it takes. */
  readonly maxWaitMs?: number;
  /** Ends the wait: the promise rejects with the signal's reason, and nothing is charged. */
  readonly signal?: AbortSignal;
}

/** What waiting needs of the limiter. */
export interface Gate {
  readonly clock: Clock;
  take(limits: readonly Limit[]): Decision | Promise<Decision>;
  peek(limits: readonly Limit[]): Quote | Promise<Quote>;
  giveBack(decision: Decision): void;
}

interface Waiter {
  readonly limits: readonly Limit[];
  readonly lanes: readonly Waiter[][];
  readonly deadlineMs: number;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  /** Whether it has been said how long the wait is at the least. */
  judged: boolean;
  asking: boolean;
  gone: boolean;
  stopTimer: () => void;
  stopListening: () => void;
}

const nothing = (): void => {};

/** Calls `done` now or later, depending on how the answer comes. */
function whenAnswered<T>(
  ask: () => T | Promise<T>,
  done: (answer: T) => void,
  failed: (error: unknown) => void,
): void {
  try {
    const answer = ask();
    if (answer instanceof Promise) answer.then(done).catch(failed);
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
  #unjudged = 0;

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  acquire(limits: readonly Limit[], options: AcquireOptions): Promise<Decision> {
    const { maxWaitMs = Number.POSITIVE_INFINITY, signal } = options;
    if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
      throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
    }
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        limits,
        lanes: limits.map((limit) => this.#laneOf(limit)),
        deadlineMs: this.#gate.clock.now() + maxWaitMs,
        resolve,
        reject,
        judged: false,
        asking: false,
        gone: false,
        stopTimer: nothing,
        stopListening: nothing,
      };
      for (const lane of waiter.lanes) lane.push(waiter);
      this.#unjudged++;
      if (signal) {
        const abort = (): void => this.#fail(waiter, signal.reason);
        signal.addEventListener('abort', abort, { once: true });
        waiter.stopListening = () => signal.removeEventListener('abort', abort);
      }
      this.#callUp(waiter);
      this.#drain();
      this.#judgeBehind(waiter);
    });
  }

  /** Rejects everybody who waits. */
  close(): void {
    const waiters = new Set([...this.#lanes.values()].flat());
    for (const waiter of [...waiters].reverse()) {
      this.#fail(waiter, new SluiceError('ERR_CLOSED', 'The limiter was closed while waiting'));
    }
  }

  #laneOf(limit: Limit): Waiter[] {
    const id = idOf(limit);
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
    if (waiter.gone) return;
    waiter.asking = true;
    whenAnswered(
      () => this.#gate.take(waiter.limits),
      (decision) => this.#answered(waiter, decision),
      (error) => this.#fail(waiter, error),
    );
  }

  #answered(waiter: Waiter, decision: Decision): void {
    waiter.asking = false;
    this.#markJudged(waiter);
    if (waiter.gone) {
      // It was called off while the store was being asked, so what it got goes back.
      if (decision.allowed) this.#gate.giveBack(decision);
      return;
    }
    const { clock } = this.#gate;
    if (decision.allowed || clock.now() + decision.retryAfterMs > waiter.deadlineMs) {
      this.#leave(waiter);
      waiter.resolve(decision);
    } else {
      waiter.stopTimer = clock.schedule(decision.retryAfterMs, () => this.#ask(waiter));
    }
    const behind = this.#unjudged > 0 ? waiter.lanes.flat() : [];
    for (const other of behind) this.#judgeBehind(other);
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
    this.#markJudged(waiter);
    waiter.stopTimer();
    waiter.stopListening();
    for (const [place, lane] of waiter.lanes.entries()) {
      lane.splice(lane.indexOf(waiter), 1);
      if (lane.length === 0) this.#lanes.delete(idOf(waiter.limits[place]));
    }
    const next = new Set(waiter.lanes.flatMap((lane) => lane.slice(0, 1)));
    for (const first of next) if (!first.asking) this.#callUp(first);
  }

  #markJudged(waiter: Waiter): void {
    if (!waiter.judged) this.#unjudged--;
    waiter.judged = true;
  }

  /** Lets a waiter go whose turn, behind the others, must come after its deadline. */
  #judgeBehind(waiter: Waiter): void {
    // While the first in a lane is asking nothing can be said yet; its answer brings us back.
    if (waiter.judged || waiter.gone || waiter.lanes.some((lane) => lane[0].asking)) return;
    this.#markJudged(waiter);
    if (waiter.deadlineMs === Number.POSITIVE_INFINITY) return;
    const turns = waiter.limits.map((limit, place) => turnOf(waiter, limit, waiter.lanes[place]));
    whenAnswered(
      () => this.#gate.peek(turns.map((turn) => turn.limit)),
      (quote) => {
        const limits = quote.limits.map((each, place) => ({
          ...each,
          cost: waiter.limits[place].cost,
          allowed: false,
          retryAfterMs: Math.max(each.retryAfterMs + turns[place].laterMs, 1),
        }));
        const denial = jointDecision(limits, false) as Decision;
        if (waiter.gone || this.#gate.clock.now() + denial.retryAfterMs <= waiter.deadlineMs)
          return;
        this.#leave(waiter);
        waiter.resolve(denial);
        this.#drain();
      },
      (error) => this.#fail(waiter, error),
    );
  }
}

/**
 * The earliest turn of a waiter on one limit. With those before it, it needs `demand`. A key gives
 * out its capacity at most once in a turnover, so all but the last part of the demand takes whole
 * turnovers, and the last part takes what the key says now.
 */
function turnOf(waiter: Waiter, limit: Limit, lane: readonly Waiter[]) {
  const { policy, terms, key } = limit;
  let demand = limit.cost;
  for (const other of lane) {
    if (other === waiter) break;
    demand += other.limits.find((each) => each.policy === policy && each.key === key)!.cost;
  }
  const { perTurn, turnMs } = turnover(limit);
  const turns = Math.ceil(demand / perTurn) - 1;
  const cost = Math.min(demand - turns * perTurn, terms.capacity);
  return { limit: { ...limit, cost }, laterMs: turns * turnMs };
}

/** How much a key gives out at most, and in what time. */
function turnover({ policy, terms }: Limit): { perTurn: number; turnMs: number } {
  const { limit, capacity, windowMs } = terms;
  if (policy.algorithm === 'token-bucket') {
    return { perTurn: capacity, turnMs: Math.floor((capacity * windowMs) / limit) };
  }
  // The counter's estimate can let almost twice the limit through in one window.
  return { perTurn: policy.algorithm === 'sliding-counter' ? 2 * limit : limit, turnMs: windowMs };
}
