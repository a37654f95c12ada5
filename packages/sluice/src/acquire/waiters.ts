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
import { type Clock, inNextTurn } from '../clock.ts';
import { type Charge, type Decision, jointDecision, type Quote } from '../decision.ts';
import { checkMethods, closed, expected } from '../errors.ts';
import { Heap, Timed } from '../heap.ts';
import type { FailureAction } from '../policy.ts';
import { type Adjustment, type Check, idOf } from '../store.ts';
import { Lane, List, PartedMap, type Place } from './line.ts';
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
  /** Decides a check, or a peek, at a time of the clock. */
  ask(check: Check, nowMs: number): Quote | Promise<Quote>;
  giveBack(adjustments: readonly Adjustment[]): void;
  tell(decision: Decision): unknown;
}

/** How many limits are handled in one turn of the event loop before other events get theirs. */
const SLICE = 256;

const NEVER = Number.POSITIVE_INFINITY;

/** A timer may be early by this much. If it is earlier, the clock was set back. */
const EARLY_MS = 5;

/** In a heap by the time at which it wakes or, if it has not been first yet, gives up. */
class Waiter extends Timed {
  /** Never been first, then either waiting for a time or having reached it. */
  state: 'new' | 'asleep' | 'woken' | 'gone' = 'new';
  /** Whether the store is deciding its check. */
  asking = false;
  /** Whether something came free while the store was deciding, so a denial may be out of date. */
  nudged = false;
  places: readonly Place<Waiter>[] = [];
  lanes: readonly Lane<Waiter>[] = [];
  /** Whether its wait has been estimated, or need not be. */
  isJudged: boolean;
  /** Removes it from the list of its signal. */
  unlist: (() => void) | undefined;

  constructor(
    readonly check: Check,
    readonly deadlineMs: number,
    readonly signal: AbortSignal | undefined,
    readonly resolve: (decision: Decision) => void,
    readonly reject: (reason: unknown) => void,
  ) {
    super();
    this.isJudged = deadlineMs === NEVER;
  }

  get isFirst(): boolean {
    return this.lanes.every((lane) => lane.first!.item === this);
  }
}

const isQuiet = (lane: Lane<Waiter>): boolean => !lane.first?.item.asking;

export class Waiters {
  readonly #gate: Gate;
  readonly #lanes = new PartedMap<string, Lane<Waiter>>();
  /** The waiters of each signal. One listener serves all of them. */
  readonly #signals = new PartedMap<AbortSignal, List<Waiter>>();
  readonly #onAbort = ({ target }: Event): void => {
    const signal = target as AbortSignal;
    this.#dismiss([this.#signals.get(signal)!], signal.reason);
  };
  /** Waiters that are asleep, by the time at which their checks may pass. */
  readonly #sleepers = new Heap<Waiter>();
  /** Waiters that have not been first yet, by their deadlines. */
  readonly #deadlines = new Heap<Waiter>();
  readonly #ready = new List<Lane<Waiter>>();
  /** Aborted signals and closing: what is left of them to do. */
  readonly #dismissals: Iterator<void>[] = [];
  #count = 0;
  /** How many checks the store is deciding. */
  #asking = 0;
  /** What may still be done in this turn of the event loop. */
  #budget = SLICE;
  #isRunning = false;
  #isResting = false;
  #lastMs = 0;
  /** By how much the clock has been set back, all in all. */
  #aheadMs = 0;
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
    const { limits } = check;
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(check, this.#now() + maxWaitMs, signal, resolve, reject);
      this.#count++;
      waiter.lanes = limits.map(({ policy, key }) => {
        const id = idOf(policy.name, key);
        return this.#lanes.get(id) ?? this.#lanes.add(id, new Lane(id));
      });
      waiter.places = waiter.lanes.map((lane, at) => lane.join(waiter, limits[at].cost));
      if (signal) this.#heed(signal, waiter);
      if (maxWaitMs < NEVER) this.#deadlines.add(waiter, waiter.deadlineMs);
      this.#proceed(waiter.lanes, limits.length);
    });
  }

  /** Lets the first waiters of the keys that were changed ask again. */
  nudge(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (this.#count === 0) return;
    const lanes = changes.flatMap(
      ({ charge }) => this.#lanes.get(idOf(charge.policy, charge.key)) ?? [],
    );
    for (const lane of lanes) {
      const { item } = lane.first!;
      // Estimates that are being made do not count, as the position they are for has changed.
      lane.served++;
      lane.late = undefined;
      item.nudged = true;
      if (item.state === 'asleep') item.state = 'woken';
    }
    this.#proceed(lanes, lanes.length);
  }

  /** Rejects all waiters. */
  close(): void {
    this.#dismiss(this.#lanes.values(), closed());
  }

  /** Rejects a waiter when its signal is aborted. */
  #heed(signal: AbortSignal, waiter: Waiter): void {
    let list = this.#signals.get(signal);
    if (list === undefined) {
      list = this.#signals.add(signal, new List());
      signal.addEventListener('abort', this.#onAbort);
    }
    const place = list.add(waiter);
    waiter.unlist = () => {
      list.remove(place);
      if (list.first) return;
      this.#signals.delete(signal);
      signal.removeEventListener('abort', this.#onAbort);
    };
  }

  /** The clock's time. If the clock is set back, waits last as long as they would have. */
  #now(): number {
    const nowMs = this.#gate.clock.now();
    this.#aheadMs += Math.max(0, this.#lastMs - nowMs);
    this.#lastMs = nowMs;
    return nowMs + this.#aheadMs;
  }

  /**
   * Adds lanes to those that are ready, and does what can be done in this turn of the event loop:
   * at least as many steps as `least`, so that a call does what it is for.
   */
  #proceed(lanes: readonly Lane<Waiter>[], least = 0): void {
    for (const lane of lanes) lane.ready ??= this.#ready.add(lane);
    if (this.#isRunning) return;
    this.#budget = Math.max(this.#budget, least);
    this.#isRunning = true;
    try {
      while (this.#budget > 0 && this.#step()) this.#budget--;
    } finally {
      this.#isRunning = false;
    }
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
    const [wakeMs = NEVER, deadlineMs = NEVER] = [
      this.#sleepers.first?.dueMs,
      this.#deadlines.first?.dueMs,
    ];
    const dueMs = Math.min(wakeMs, deadlineMs);
    // A timer that is too early does no harm, but without waiters it would keep a process alive.
    if (dueMs >= this.#timerMs && dueMs < NEVER) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#now()));
    this.#stopTimer = this.#gate.clock.schedule(delayMs, () => {
      const earlyMs = dueMs - this.#now();
      if (earlyMs > EARLY_MS) this.#aheadMs += earlyMs;
      this.#timerMs = NEVER;
      this.#resume();
    });
  }

  /** Does the next thing. Returns false if there is nothing to do. */
  #step(): boolean {
    const dismissal = this.#dismissals.at(-1);
    if (dismissal) {
      if (dismissal.next().done) this.#dismissals.pop();
      return true;
    }
    const sleeper = this.#sleepers.first;
    if (sleeper && sleeper.dueMs <= this.#now()) {
      this.#sleepers.delete(sleeper);
      sleeper.state = 'woken';
      sleeper.lanes[0].ready ??= this.#ready.add(sleeper.lanes[0]);
    }
    const place = this.#ready.first;
    if (place) {
      this.#ready.remove(place);
      place.item.ready = undefined;
      this.#work(place.item);
      return true;
    }
    const waiter = this.#deadlines.first;
    // In its last millisecond a waiter may still be served, once the store has decided the others.
    if (!waiter || this.#now() < waiter.dueMs + Math.min(this.#asking, 1)) return false;
    this.#deadlines.delete(waiter);
    this.#letGo(waiter, true);
    return true;
  }

  /** Estimates the wait of the next new waiter of a lane. After the last, the first may ask. */
  #work(lane: Lane<Waiter>): void {
    // While the store decides nothing can be said. Its reply makes the lane ready again.
    if (!isQuiet(lane)) return;
    const waiter = lane.unjudged?.item;
    lane.unjudged = lane.unjudged?.after;
    if (waiter && !waiter.isJudged && !waiter.isFirst) this.#letGo(waiter, false);
    const first = lane.first?.item;
    if (lane.unjudged) this.#proceed([lane]);
    else if (first && first.state !== 'asleep' && first.isFirst) this.#ask(first);
  }

  #ask(waiter: Waiter): void {
    this.#sleepers.delete(waiter);
    this.#deadlines.delete(waiter);
    waiter.state = 'woken';
    waiter.isJudged = true;
    waiter.nudged = false;
    waiter.asking = true;
    this.#asking++;
    const askedMs = this.#now();
    this.#put(waiter, waiter.check, (decision) =>
      this.#answered(waiter, decision as Decision, askedMs),
    );
  }

  /** Asks the store, and calls `done` now or later, depending on how the decision comes. */
  #put(waiter: Waiter, check: Check, done: (quote: Quote) => void): void {
    this.#budget -= check.limits.length - 1;
    const settle = (): void => {
      if (check.peek || !waiter.asking) return;
      waiter.asking = false;
      this.#asking--;
    };
    const decided = (quote: Quote): void => {
      settle();
      done(quote);
    };
    const failed = (error: unknown): void => {
      settle();
      this.#fail(waiter, error);
    };
    try {
      const answer = this.#gate.ask(check, this.#lastMs);
      if ('then' in answer) answer.then(decided).catch(failed);
      else decided(answer);
    } catch (error) {
      failed(error);
    }
  }

  #answered(waiter: Waiter, decision: Decision, askedMs: number): void {
    const { signal } = waiter;
    if (signal?.aborted) this.#fail(waiter, signal.reason);
    if (waiter.state === 'gone') {
      // It left while the store was deciding, so its charge is refunded.
      const back = decision.receipt?.charges.map((charge, at) => ({
        ...waiter.check.limits[at],
        charge,
        delta: -charge.cost,
      }));
      if (back) this.#gate.giveBack(back);
    } else if (waiter.nudged && !decision.allowed) {
      // The first in its lanes, it asks again.
    } else if (decision.allowed || askedMs + decision.retryAfterMs > waiter.deadlineMs) {
      this.#leave(waiter, decision.allowed);
      waiter.resolve(decision);
    } else {
      // A store that uses this clock has decided when it was asked; any other, at some time since.
      const isExact = decision.atMs + this.#aheadMs === askedMs;
      const wakeMs = (isExact ? askedMs : this.#now()) + decision.retryAfterMs;
      waiter.state = 'asleep';
      this.#sleepers.add(waiter, Math.min(wakeMs, waiter.deadlineMs));
    }
    this.#proceed(waiter.lanes);
  }

  /** Rejects all waiters of some lists, in slices. */
  #dismiss(lists: Iterable<List<Waiter>>, reason: unknown): void {
    this.#dismissals.push(this.#dismissal(lists, reason));
    this.#proceed([], 1);
  }

  *#dismissal(lists: Iterable<List<Waiter>>, reason: unknown): Iterator<void> {
    for (const list of lists) {
      for (let place = list.first; place; place = list.first) {
        this.#fail(place.item, reason);
        yield;
      }
    }
  }

  #fail(waiter: Waiter, reason: unknown): void {
    if (waiter.state !== 'gone') {
      this.#leave(waiter, false);
      waiter.reject(reason);
    }
    this.#proceed(waiter.lanes);
  }

  /** Removes a waiter from its lanes. A waiter that becomes first in one may ask. */
  #leave(waiter: Waiter, isServed: boolean): void {
    waiter.state = 'gone';
    this.#count--;
    this.#sleepers.delete(waiter);
    this.#deadlines.delete(waiter);
    waiter.unlist?.();
    for (const [at, lane] of waiter.lanes.entries()) {
      lane.remove(waiter.places[at]);
      if (isServed) lane.served += waiter.check.limits[at].cost;
      if (!lane.first) this.#lanes.delete(lane.id);
    }
  }

  /** Denies a waiter whose deadline has come, or whose turn must come after it. */
  #letGo(waiter: Waiter, isDue: boolean): void {
    const { check, lanes, places, deadlineMs } = waiter;
    const turns = check.limits.map((limit, at) => turnOf(limit, lanes[at].demandAt(places[at])));
    // The bound of a lane whose first waiter is asking is too high if that has been served.
    const quiet = lanes.map(isQuiet);
    const positions = (): number[] =>
      lanes.map((lane, at) => lane.served + lane.demandAt(places[at]));
    const asked = positions();
    waiter.isJudged = quiet.every(Boolean);
    const nowMs = this.#now();
    const peek = { ...check, limits: turns.map(({ asked }) => asked), peek: true };
    this.#put(waiter, peek, (quote) => {
      // The store's decision about the check itself says more than an estimate.
      if (waiter.state !== 'new') return;
      const waits = quote.limits.map((each, at) => ({
        ...each,
        cost: check.limits[at].cost,
        allowed: false,
        retryAfterMs: turns[at].earliestMs(each),
      }));
      // If waiters before it have left since, it has moved up, and what was found may not hold.
      const found = isDue ? [] : positions();
      const at = found.findIndex(
        (position, place) =>
          quiet[place] &&
          nowMs + waits[place].retryAfterMs > deadlineMs &&
          (position === asked[place] || lanes[place].isLate(position, deadlineMs)),
      );
      if (!isDue && at < 0) return;
      if (!isDue) lanes[at].late = { position: found[at], deadlineMs };
      // A waiter behind others has to wait, even if not for the key.
      waits[0].retryAfterMs ||= 1;
      const denial = jointDecision(waits, false) as Decision;
      this.#leave(waiter, false);
      this.#gate.tell(denial);
      waiter.resolve(denial);
      this.#proceed(lanes);
    });
  }
}
