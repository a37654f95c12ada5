/**
 * `acquire`: waits until a check passes.
 *
 * A waiter joins one queue for each limit of its check, in order of arrival. The store decides the
 * check only when the waiter is first in all its queues. So no waiter is overtaken, and a waiter of
 * two limits holds neither while it waits for the other. The delay of the first waiter is exact.
 * For later waiters, it is a lower bound. If the bound is after the deadline, the waiter is denied
 * at once.
 *
 *     state     event                                            next state
 *     queued    first in all its queues                          deciding
 *     queued    turn estimated after its deadline                done: denied
 *     queued    deadline passed                                  done: denied
 *     deciding  admitted, or denied until after its deadline     done: resolved
 *     deciding  denied                                           sleeping until it fits
 *     sleeping  wake-up time reached                             deciding
 *     sleeping  key refunded, settled, released or reset         deciding
 *     any       aborted, limiter closed, store error             done: rejected
 *
 * If a waiter is done while the store is still deciding, its charge is refunded. A hold may be
 * released at any time, so a concurrency limit denies a waiter only at its deadline.
 *
 * One event may affect many waiters: a reset, an aborted signal, a millisecond in which many
 * deadlines pass. The waiters are handled in slices, one slice per turn of the event loop.
 */
import { isConcurrency } from '../algorithms/index.ts';
import { inNextTurn } from '../clock.ts';
import { type Charge, type CheckResult, type Decision, jointDecision } from '../decision.ts';
import { closed } from '../errors.ts';
import { byTime, Heap, type Timed } from '../heap.ts';
import { type Check, idOf, type Limit } from '../store.ts';
import { type AcquireOptions, checkWait, type WaitingContext } from './context.ts';
import { estimateTurn, isAfter } from './estimates.ts';
import { KeyQueue, LinkedList, type QueueNode, ShardedMap } from './key-queue.ts';
import { RemoteReleases } from './remote-releases.ts';
import { SignalLists } from './signals.ts';

export type { AcquireOptions } from './context.ts';

/** The number of limits that are handled in one turn of the event loop. */
const SLICE = 128;

const NEVER = Number.POSITIVE_INFINITY;

interface Waiter extends Timed {
  readonly check: Check;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  readonly queues: readonly KeyQueue<Waiter>[];
  /** Its nodes in its queues, in the list of all waiters, and in the list of its signal. */
  places: readonly QueueNode<Waiter>[];
  state: 'queued' | 'deciding' | 'sleeping' | 'done';
  /** Whether capacity was freed during the decision, so that a denial may be out of date. */
  nudged?: boolean;
  /** When the check should pass, according to the last denial. */
  promisedMs?: number;
}

const isFirst = (waiter: Waiter): boolean =>
  waiter.queues.every(({ first }) => first!.item === waiter);

export class Waiters {
  readonly #context: WaitingContext;
  readonly #releases: RemoteReleases;
  readonly #queues = new ShardedMap<string, KeyQueue<Waiter>>();
  readonly #all = new LinkedList<Waiter>();
  readonly #signals = new SignalLists<Waiter>((list, reason) => this.#rejectAll(list, reason));
  /** Queued waiters by deadline, and sleeping waiters by wake-up time. */
  readonly #timed = new Heap<Waiter>(byTime);
  readonly #ready = new LinkedList<KeyQueue<Waiter>>();
  /** Lists of waiters to reject, each with its reason. */
  readonly #rejections: (readonly [LinkedList<Waiter>, unknown])[] = [];
  /** The number of checks that the store is deciding. */
  #deciding = 0;
  /** Whether the store is remote, so that other processes may use it. */
  #isRemote = false;
  /** The number of limits that may still be handled in this turn of the event loop. */
  #budget = SLICE;
  #isRunning = false;
  #isPaused = false;
  #nowMs = 0;
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined;

  constructor(context: WaitingContext) {
    this.#context = context;
    this.#releases = new RemoteReleases(context.onRelease, (charge) => this.nudge([{ charge }]));
  }

  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    const { maxWaitMs = NEVER, signal } = options;
    checkWait(options);
    return new Promise((resolve, reject) => {
      const deadlineMs = this.#now() + maxWaitMs;
      // Before any change, because an object that only resembles a signal may throw.
      const list = signal && this.#signals.of(signal);
      const queues = check.limits.map((limit) => this.#queueOf(limit));
      const waiter: Waiter = {
        check,
        deadlineMs,
        signal,
        resolve,
        reject,
        queues,
        places: [],
        state: 'queued',
        dueMs: deadlineMs,
      };
      waiter.places = [
        ...queues.map((queue, at) => queue.add(waiter, check.limits[at].cost)),
        this.#all.add(waiter),
        ...(list ? [list.add(waiter)] : []),
      ];
      if (deadlineMs < NEVER) {
        this.#timed.add(waiter);
        for (const queue of queues) queue.unestimated ??= queue.last;
      }
      this.#proceed(queues, queues.length);
    });
  }

  /** Retries the first waiters of keys whose charges were changed. */
  nudge(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (!this.#all.first) return;
    const queues = changes.flatMap(
      ({ charge }) => this.#queues.get(idOf(charge.policy, charge.key)) ?? [],
    );
    for (const queue of queues) {
      const { item } = queue.first!;
      item.nudged = true;
      if (item.state === 'sleeping') this.#sleep(item, 0);
      // Changes all positions, so that estimates that are under way are ignored.
      queue.served++;
      queue.late = undefined;
    }
    this.#proceed([], queues.length);
  }

  /** Rejects all waiters. */
  close(): void {
    this.#releases.close();
    this.#rejectAll(this.#all, closed());
  }

  #queueOf({ policy, key }: Limit): KeyQueue<Waiter> {
    const id = idOf(policy.name, key);
    return (
      this.#queues.get(id) ?? this.#queues.add(id, new KeyQueue(() => this.#queues.delete(id)))
    );
  }

  /** Returns the clock's time, or the latest time so far if the clock was set back. */
  #now(): number {
    this.#nowMs = Math.max(this.#nowMs, this.#context.clock.now());
    return this.#nowMs;
  }

  /**
   * Marks queues as ready, and works as far as the budget of this turn allows. The first `free`
   * steps do not use the budget, so that the work of the calling method is always done.
   */
  #proceed(queues: readonly KeyQueue<Waiter>[], free = 0): void {
    for (const queue of queues) queue.ready ??= this.#ready.add(queue);
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
    if (this.#budget >= SLICE || this.#isPaused) return;
    this.#isPaused = true;
    inNextTurn(() => {
      this.#isPaused = false;
      this.#resume();
    });
  }

  #resume(): void {
    this.#budget = SLICE;
    this.#proceed([]);
  }

  /** Sets the timer for the next wake-up or deadline. */
  #setTimer(): void {
    const dueMs = this.#timed.first?.dueMs ?? NEVER;
    // A timer that fires early is kept. A timer that no waiter needs would keep the process alive.
    if (dueMs < NEVER && dueMs >= this.#timerMs) return;
    this.#stopTimer?.();
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#now()));
    this.#stopTimer = this.#context.clock.schedule(delayMs, () => {
      // Even if the clock was set back, `dueMs` has passed.
      this.#nowMs = Math.max(this.#nowMs, dueMs);
      this.#timerMs = NEVER;
      this.#resume();
    });
  }

  /** Does one unit of work. Returns false if there is none. */
  #step(): boolean {
    const rejection = this.#rejections.at(-1);
    if (rejection) {
      const [{ first }, reason] = rejection;
      if (first) this.#fail(first.item, reason);
      else this.#rejections.pop();
      return true;
    }
    const next = this.#timed.first;
    if (next?.state === 'sleeping' && next.dueMs <= this.#now()) {
      this.#startDecision(next);
      return true;
    }
    const ready = this.#ready.first;
    if (ready) {
      this.#ready.remove(ready);
      ready.item.ready = undefined;
      this.#work(ready.item);
      return true;
    }
    // In the millisecond of its deadline, a waiter may still pass after those that are deciding.
    if (next?.state !== 'queued' || this.#now() < next.dueMs + Math.min(this.#deciding, 1))
      return false;
    this.#deny(next);
    return true;
  }

  /** Estimates the turn of the next waiter. If none is left, starts the first one's decision. */
  #work(queue: KeyQueue<Waiter>): void {
    // While the first waiter is deciding, no estimate is valid. Its reply marks the queue as ready.
    if (queue.first?.item.state === 'deciding') return;
    const place = queue.unestimated;
    if (place) {
      queue.unestimated = place.after;
      if (place.item.dueMs < NEVER && !isFirst(place.item)) this.#estimate(queue, place);
    }
    const first = queue.first?.item;
    if (queue.unestimated) this.#proceed([queue]);
    else if (first?.state === 'queued' && isFirst(first)) {
      const pausedMs = Math.max(...first.queues.map(({ turns }) => turns.pausedUntilMs));
      if (pausedMs > this.#now() && pausedMs < first.deadlineMs) this.#sleep(first, pausedMs);
      else this.#startDecision(first);
    }
  }

  #startDecision(waiter: Waiter): void {
    this.#timed.delete(waiter);
    waiter.state = 'deciding';
    waiter.nudged = false;
    this.#deciding++;
    const sentMs = this.#now();
    const done = (result: CheckResult): void =>
      this.#finishDecision(waiter, result as Decision, sentMs);
    this.#send(waiter.check, done, (error) => this.#fail(waiter, error));
  }

  /** Sends a check to the store, and calls `done` or `failed`, now or later. */
  #send(check: Check, done: (result: CheckResult) => void, failed: (error: unknown) => void): void {
    this.#budget -= check.limits.length - 1;
    try {
      const result = this.#context.decide(check);
      if ('then' in result) {
        this.#isRemote = true;
        result.then(done).catch(failed);
      } else done(result);
    } catch (error) {
      failed(error);
    }
  }

  #finishDecision(waiter: Waiter, decision: Decision, sentMs: number): void {
    const { check, queues, signal } = waiter;
    if (signal?.aborted) this.#fail(waiter, signal.reason);
    // The store's clock may differ from this one, by which it decided between `sentMs` and now.
    const decidedMs = Math.min(Math.max(sentMs, decision.atMs), this.#now());
    const wakeMs = decidedMs + decision.retryAfterMs;
    const isLate = isAfter(waiter.deadlineMs, check, decision, decidedMs, this.#now());
    if (waiter.state === 'done') {
      const refunds = decision.receipt?.charges.map((charge, at) => ({
        ...check.limits[at],
        charge,
        delta: -charge.cost,
      }));
      if (refunds) this.#context.refund(refunds);
    } else if (decision.allowed || (!waiter.nudged && isLate)) {
      this.#leave(waiter);
      for (const [at, queue] of queues.entries()) {
        queue.served += check.limits[at].cost;
        if (decision.allowed && this.#isRemote && !isConcurrency(check.limits[at].policy))
          queue.turns.admitted(check.limits[at], decision.limits[at].remaining, this.#now());
      }
      waiter.resolve(decision);
    } else {
      this.#deciding--;
      const isPromised = decidedMs >= (waiter.promisedMs ?? NEVER);
      const isLost = this.#isRemote && !waiter.nudged && isPromised;
      const early = queues.map(({ turns }, at) => turns.denied(check.limits[at], isLost));
      waiter.promisedMs = waiter.nudged ? NEVER : wakeMs;
      const pollMs = this.#isRemote ? this.#releases.pollMs(decision, check) : NEVER;
      const dueMs = Math.min(wakeMs - Math.min(...early), this.#now() + pollMs, waiter.deadlineMs);
      this.#sleep(waiter, waiter.nudged ? 0 : dueMs);
    }
    this.#proceed(queues);
  }

  #sleep(waiter: Waiter, dueMs: number): void {
    this.#timed.delete(waiter);
    waiter.state = 'sleeping';
    waiter.dueMs = dueMs;
    // Order -1: before the deadlines of the same millisecond, so that later waiters may still pass.
    this.#timed.add(waiter, -1);
  }

  /** Rejects the waiters of a list, in slices. */
  #rejectAll(list: LinkedList<Waiter>, reason: unknown): void {
    this.#rejections.push([list, reason]);
    this.#proceed([], 1);
  }

  #fail(waiter: Waiter, reason: unknown): void {
    if (waiter.state === 'done') return;
    this.#leave(waiter);
    waiter.reject(reason);
    this.#proceed(waiter.queues);
  }

  #leave(waiter: Waiter): void {
    if (waiter.state === 'deciding') this.#deciding--;
    waiter.state = 'done';
    this.#timed.delete(waiter);
    for (const place of waiter.places) place.list.remove(place);
  }

  /** Denies a queued waiter if its turn in a queue is certain to be after its deadline. */
  #estimate(queue: KeyQueue<Waiter>, place: QueueNode<Waiter>): void {
    const waiter = place.item;
    const { check, queues, deadlineMs } = waiter;
    const demand = queue.demandAt(place);
    const position = queue.served + demand;
    const limit = check.limits[queues.indexOf(queue)];
    if (isConcurrency(limit.policy)) return;
    const turn = estimateTurn(limit, demand);
    const nowMs = this.#now();
    const done = (result: CheckResult): void => {
      const earliestMs = nowMs + turn.earliestMs(result);
      if (waiter.state !== 'queued' || earliestMs <= deadlineMs) return;
      // If earlier waiters have left meanwhile, this waiter has moved up and may be in time.
      const found = queue.served + queue.demandAt(place);
      if (found === position) queue.late = { position, earliestMs };
      const { late } = queue;
      if (late && found >= late.position && late.earliestMs > deadlineMs) this.#deny(waiter);
    };
    const peek = { ...check, limits: [{ ...limit, cost: turn.cost }], peek: true };
    this.#send(peek, done, (error) => this.#fail(waiter, error));
  }

  /** Denies a waiter. Its `retryAfterMs` includes the estimated wait for earlier waiters. */
  #deny(waiter: Waiter): void {
    const { check, queues, places, resolve, reject } = waiter;
    const turns = check.limits.map((limit, at) =>
      estimateTurn(limit, queues[at].demandAt(places[at])),
    );
    const done = (result: CheckResult): void => {
      const waits = result.limits.map((each, at) => ({
        ...each,
        cost: check.limits[at].cost,
        allowed: false,
        // Not before a block has ended, which the estimate does not include.
        retryAfterMs: Math.max(turns[at].earliestMs(each), each.retryAfterMs),
      }));
      // A waiter behind others waits at least 1 ms, even if its own cost fits.
      waits[0].retryAfterMs ||= 1;
      resolve(jointDecision(waits, false) as Decision);
    };
    this.#leave(waiter);
    const limits = check.limits.map((limit, at) => ({ ...limit, cost: turns[at].cost }));
    this.#send({ ...check, limits, peek: true }, done, reject);
    this.#proceed(queues);
  }
}
