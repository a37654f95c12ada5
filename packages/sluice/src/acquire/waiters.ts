/**
 * Waiting for a check to pass.
 *
 * A waiter joins one lane for each limit of its check, in order of arrival. The store decides its
 * check only when it is first in all of them. So no waiter is overtaken, and a waiter that needs
 * two limits holds neither while it waits for the other. The wait of the first is exact. For the
 * others there is a lower bound, and a waiter for which that is too long is denied at once.
 *
 * An event may concern any number of waiters: a reset, an aborted signal, a millisecond in which
 * many deadlines end. They are handled in slices, one in each turn of the event loop.
 */
import type { QueueEstimate } from '../algorithms/algorithm.ts';
import { algorithms } from '../algorithms/index.ts';
import { type Clock, inNextTurn } from '../clock.ts';
import { type Charge, type CheckResult, type Decision, jointDecision } from '../decision.ts';
import { checkMethods, closed, expected } from '../errors.ts';
import { Heap, type Timed } from '../heap.ts';
import type { FailureAction } from '../policy.ts';
import { type Adjustment, type Check, idOf, type Limit } from '../store.ts';
import { KeyQueue, LinkedList, type QueueNode, ShardedMap } from './key-queue.ts';

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
  /** Decides a check, or a peek. */
  ask(check: Check): CheckResult | Promise<CheckResult>;
  giveBack(adjustments: readonly Adjustment[]): void;
  tell(decision: Decision): unknown;
}

/** How many limits are handled in one turn of the event loop before other events get theirs. */
const SLICE = 128;

const NEVER = Number.POSITIVE_INFINITY;

interface Waiter extends Timed {
  readonly check: Check;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  readonly lanes: readonly KeyQueue<Waiter>[];
  /** Its places in its lanes, then in the lists of those that may be dismissed together. */
  places: readonly QueueNode<Waiter>[];
  /** New until it is first in all its lanes. Then it asks, or sleeps until it asks again. */
  state: 'new' | 'asking' | 'asleep' | 'gone';
  /** Whether something came free while it was asking, so that a denial may be out of date. */
  nudged?: boolean;
}

const isFirst = (waiter: Waiter): boolean =>
  waiter.lanes.every(({ first }) => first!.item === waiter);

/** Estimates the turn of the last of the waiters whose cost together is `demand`. */
export const estimateTurn = ({ policy, params, cost }: Limit, demand: number): QueueEstimate =>
  algorithms[policy.algorithm].queueEstimate(params, cost, demand);

export class Waiters {
  readonly #gate: Gate;
  readonly #lanes = new ShardedMap<string, KeyQueue<Waiter>>();
  readonly #all = new LinkedList<Waiter>();
  /** The waiters of each signal. One listener serves all of them. */
  readonly #signals = new ShardedMap<AbortSignal, LinkedList<Waiter>>();
  /** New waiters by their deadlines, and sleeping ones by the time at which they wake. */
  readonly #timed = new Heap<Waiter>();
  readonly #ready = new LinkedList<KeyQueue<Waiter>>();
  /** What is to be rejected, and why. */
  readonly #dismissals: (readonly [LinkedList<Waiter>, unknown])[] = [];
  /** How many checks the store is deciding. */
  #asking = 0;
  /** How many limits may still be handled in this turn of the event loop. */
  #budget = SLICE;
  #isRunning = false;
  #isResting = false;
  #nowMs = 0;
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined;

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    const { maxWaitMs = NEVER, signal } = options;
    if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
      throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
    }
    if (signal !== undefined) {
      checkMethods('`signal` to be an AbortSignal', signal, 'throwIfAborted');
      signal.throwIfAborted();
    }
    return new Promise((resolve, reject) => {
      const deadlineMs = this.#now() + maxWaitMs;
      // First, as a signal that is none may throw.
      const list = signal && this.#listOf(signal);
      const lanes = check.limits.map((limit) => this.#laneOf(limit));
      const waiter: Waiter = {
        check,
        deadlineMs,
        signal,
        resolve,
        reject,
        lanes,
        places: [],
        state: 'new',
        dueMs: deadlineMs,
      };
      waiter.places = [
        ...lanes.map((lane, at) => lane.add(waiter, check.limits[at].cost)),
        this.#all.add(waiter),
        ...(list ? [list.add(waiter)] : []),
      ];
      if (deadlineMs < NEVER) {
        this.#timed.add(waiter);
        for (const lane of lanes) lane.unjudged ??= lane.last;
      }
      this.#proceed(lanes, lanes.length);
    });
  }

  /** Lets the first waiters of the keys that were changed ask again. */
  nudge(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (!this.#all.first) return;
    const lanes = changes.flatMap(
      ({ charge }) => this.#lanes.get(idOf(charge.policy, charge.key)) ?? [],
    );
    for (const lane of lanes) {
      const { item } = lane.first!;
      item.nudged = true;
      if (item.state === 'asleep') this.#sleep(item, 0);
      // Moves all positions, so that estimates that are being made do not count.
      lane.served++;
      lane.late = undefined;
    }
    this.#proceed([], lanes.length);
  }

  /** Rejects all waiters. */
  close(): void {
    this.#dismiss(this.#all, closed());
  }

  #laneOf({ policy, key }: Limit): KeyQueue<Waiter> {
    const id = idOf(policy.name, key);
    return this.#lanes.get(id) ?? this.#lanes.add(id, new KeyQueue(() => this.#lanes.delete(id)));
  }

  #listOf(signal: AbortSignal): LinkedList<Waiter> {
    const known = this.#signals.get(signal);
    if (known) return known;
    const list = new LinkedList<Waiter>(() => {
      signal.removeEventListener('abort', dismiss);
      this.#signals.delete(signal);
    });
    const dismiss = (): void => this.#dismiss(list, signal.reason);
    signal.addEventListener('abort', dismiss);
    return this.#signals.add(signal, list);
  }

  /** The clock's time, or the latest so far if the clock was set back. */
  #now(): number {
    this.#nowMs = Math.max(this.#nowMs, this.#gate.clock.now());
    return this.#nowMs;
  }

  /**
   * Makes lanes ready, and does what can be done in this turn of the event loop. The first `free`
   * steps are free, so that a call does what it is for.
   */
  #proceed(lanes: readonly KeyQueue<Waiter>[], free = 0): void {
    for (const lane of lanes) lane.ready ??= this.#ready.add(lane);
    if (this.#isRunning) return;
    const budget = this.#budget;
    this.#budget += free;
    this.#isRunning = true;
    try {
      while (this.#budget > 0 && this.#step()) this.#budget--;
    } finally {
      this.#isRunning = false;
    }
    this.#budget = Math.min(this.#budget, budget);
    if (this.#budget > 0) this.#setTimer();
    if (this.#budget >= SLICE || this.#isResting) return;
    this.#isResting = true;
    inNextTurn(() => {
      this.#isResting = false;
      this.#resume();
    });
  }

  #resume(): void {
    this.#budget = SLICE;
    this.#proceed([]);
  }

  /** Sets the timer for the next waiter that wakes or gives up. */
  #setTimer(): void {
    const dueMs = this.#timed.first?.dueMs ?? NEVER;
    // A timer that is too early does no harm. One that no waiter needs keeps the process alive.
    if (dueMs < NEVER && dueMs >= this.#timerMs) return;
    this.#stopTimer?.();
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#now()));
    this.#stopTimer = this.#gate.clock.schedule(delayMs, () => {
      // If the clock was set back, it still is as late as the timer says.
      this.#nowMs = Math.max(this.#nowMs, dueMs);
      this.#timerMs = NEVER;
      this.#resume();
    });
  }

  /** Does the next thing. Returns false if there is nothing to do. */
  #step(): boolean {
    const dismissal = this.#dismissals.at(-1);
    if (dismissal) {
      const [{ first }, reason] = dismissal;
      if (first) this.#fail(first.item, reason);
      else this.#dismissals.pop();
      return true;
    }
    const next = this.#timed.first;
    if (next?.state === 'asleep' && next.dueMs <= this.#now()) {
      this.#ask(next);
      return true;
    }
    const ready = this.#ready.first;
    if (ready) {
      this.#ready.remove(ready);
      ready.item.ready = undefined;
      this.#work(ready.item);
      return true;
    }
    // In its last millisecond a waiter may still be served, after those that are asking.
    if (next?.state !== 'new' || this.#now() < next.dueMs + Math.min(this.#asking, 1)) return false;
    this.#deny(next);
    return true;
  }

  /** Estimates the wait of the next new waiter of a lane. After the last, the first may ask. */
  #work(lane: KeyQueue<Waiter>): void {
    // While the first is asking nothing can be said. The reply makes the lane ready again.
    if (lane.first?.item.state === 'asking') return;
    const place = lane.unjudged;
    if (place) {
      lane.unjudged = place.after;
      if (place.item.dueMs < NEVER && !isFirst(place.item)) this.#judge(lane, place);
    }
    const first = lane.first?.item;
    if (lane.unjudged) this.#proceed([lane]);
    else if (first?.state === 'new' && isFirst(first)) this.#ask(first);
  }

  #ask(waiter: Waiter): void {
    this.#timed.delete(waiter);
    waiter.state = 'asking';
    waiter.nudged = false;
    this.#asking++;
    const askedMs = this.#now();
    const done = (result: CheckResult): void => this.#answered(waiter, result as Decision, askedMs);
    this.#put(waiter.check, done, (error) => this.#fail(waiter, error));
  }

  /** Asks the store, and calls `done` now or later, depending on how the decision comes. */
  #put(check: Check, done: (result: CheckResult) => void, failed: (error: unknown) => void): void {
    this.#budget -= check.limits.length - 1;
    try {
      const answer = this.#gate.ask(check);
      if ('then' in answer) answer.then(done).catch(failed);
      else done(answer);
    } catch (error) {
      failed(error);
    }
  }

  #answered(waiter: Waiter, decision: Decision, askedMs: number): void {
    const { check, lanes, signal } = waiter;
    if (signal?.aborted) this.#fail(waiter, signal.reason);
    // By this clock the store decided at some time since it was asked.
    const decidedMs = Math.min(Math.max(askedMs, decision.atMs), this.#now());
    const wakeMs = decidedMs + decision.retryAfterMs;
    if (waiter.state === 'gone') {
      // It left while it was asking, so its charge is refunded.
      const back = decision.receipt?.charges.map((charge, at) => ({
        ...check.limits[at],
        charge,
        delta: -charge.cost,
      }));
      if (back) this.#gate.giveBack(back);
    } else if (decision.allowed || (!waiter.nudged && wakeMs > waiter.deadlineMs)) {
      this.#leave(waiter);
      for (const [at, lane] of lanes.entries()) lane.served += check.limits[at].cost;
      waiter.resolve(decision);
    } else {
      this.#asking--;
      this.#sleep(waiter, waiter.nudged ? 0 : wakeMs);
    }
    this.#proceed(lanes);
  }

  #sleep(waiter: Waiter, dueMs: number): void {
    this.#timed.delete(waiter);
    waiter.state = 'asleep';
    waiter.dueMs = dueMs;
    // Before the deadlines of that millisecond, so that waiters behind it may still be served.
    this.#timed.add(waiter, -1);
  }

  /** Rejects the waiters of a list, in slices. */
  #dismiss(list: LinkedList<Waiter>, reason: unknown): void {
    this.#dismissals.push([list, reason]);
    this.#proceed([], 1);
  }

  #fail(waiter: Waiter, reason: unknown): void {
    if (waiter.state === 'gone') return;
    this.#leave(waiter);
    waiter.reject(reason);
    this.#proceed(waiter.lanes);
  }

  #leave(waiter: Waiter): void {
    if (waiter.state === 'asking') this.#asking--;
    waiter.state = 'gone';
    this.#timed.delete(waiter);
    for (const place of waiter.places) place.list.remove(place);
  }

  /** Denies a new waiter if its turn in a lane must come after its deadline. */
  #judge(lane: KeyQueue<Waiter>, place: QueueNode<Waiter>): void {
    const waiter = place.item;
    const { check, lanes, deadlineMs } = waiter;
    const demand = lane.demandAt(place);
    const position = lane.served + demand;
    const limit = check.limits[lanes.indexOf(lane)];
    const turn = estimateTurn(limit, demand);
    const nowMs = this.#now();
    const done = (result: CheckResult): void => {
      const earliestMs = nowMs + turn.earliestMs(result);
      if (waiter.state !== 'new' || earliestMs <= deadlineMs) return;
      // If waiters before it have left since, it has moved up, and may be in time.
      const found = lane.served + lane.demandAt(place);
      if (found === position) lane.late = { position, earliestMs };
      const { late } = lane;
      if (late && found >= late.position && late.earliestMs > deadlineMs) this.#deny(waiter);
    };
    const peek = { ...check, limits: [{ ...limit, cost: turn.cost }], peek: true };
    this.#put(peek, done, (error) => this.#fail(waiter, error));
  }

  /** Denies a waiter, with the wait that it would have had behind the others. */
  #deny(waiter: Waiter): void {
    const { check, lanes, places, resolve, reject } = waiter;
    const turns = check.limits.map((limit, at) =>
      estimateTurn(limit, lanes[at].demandAt(places[at])),
    );
    const done = (result: CheckResult): void => {
      const waits = result.limits.map((each, at) => ({
        ...each,
        cost: check.limits[at].cost,
        allowed: false,
        retryAfterMs: turns[at].earliestMs(each),
      }));
      // A waiter behind others has to wait, even if not for the key.
      waits[0].retryAfterMs ||= 1;
      const denial = jointDecision(waits, false) as Decision;
      this.#gate.tell(denial);
      resolve(denial);
    };
    this.#leave(waiter);
    const limits = check.limits.map((limit, at) => ({ ...limit, cost: turns[at].cost }));
    this.#put({ ...check, limits, peek: true }, done, reject);
    this.#proceed(lanes);
  }
}
