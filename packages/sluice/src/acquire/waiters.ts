/**
 * `acquire`: waits until a check is admitted.
 *
 * A waiter joins one queue for each limit of its check, in order of arrival. The store decides the
 * check only when the waiter is first in all its queues. So no waiter is overtaken, and a waiter of
 * two limits takes capacity of neither while it waits for the other. For the first waiter, the
 * store returns the exact wait. For later waiters, `estimates.ts` computes a lower bound. If a
 * waiter cannot be admitted before its deadline by this bound, it is denied at once.
 *
 *     state     event                                            next state
 *     queued    first in all its queues                          deciding
 *     queued    estimated turn is after its deadline             done: denied
 *     queued    deadline passed                                  done: denied
 *     deciding  admitted, or denied until after its deadline     done: resolved
 *     deciding  denied, may be admitted before its deadline      sleeping until it fits
 *     sleeping  wake-up time reached                             deciding
 *     sleeping  key refunded, settled, released or reset         deciding
 *     any       aborted, limiter closed, store error             done: rejected
 *
 * If a waiter is aborted while the store is deciding, and the store admits it, its charge is
 * refunded. A hold may be released at any time, so a concurrency limit denies a waiter only at its
 * deadline.
 *
 * One event may affect many waiters: a reset, an aborted signal, or many deadlines in the same
 * millisecond. The waiters are handled in slices, one slice per turn of the event loop.
 */
import { isConcurrency } from '../algorithms/index.ts';
import { inNextTurn } from '../clock.ts';
import { type Charge, type CheckResult, type Decision, jointDecision } from '../decision.ts';
import { closed } from '../errors.ts';
import { byTime, Heap } from '../heap.ts';
import { type Check, idOf, type Limit } from '../store.ts';
import { type AcquireOptions, checkWait, type WaitingContext } from './context.ts';
import { estimateTurn, isDeniedUntil } from './estimates.ts';
import { KeyQueue, LinkedList, type QueueNode, ShardedMap } from './key-queue.ts';
import { RemoteReleases } from './remote-releases.ts';
import { SignalLists } from './signals.ts';
import { isFirst, type Waiter } from './waiter.ts';

export type { AcquireOptions } from './context.ts';

/** Steps per turn of the event loop. Sending a check of n limits counts as n steps. */
const SLICE = 128;

const NEVER = Number.POSITIVE_INFINITY;

export class Waiters {
  readonly #context: WaitingContext;
  readonly #releases: RemoteReleases;
  readonly #queues = new ShardedMap<string, KeyQueue<Waiter>>();
  readonly #all = new LinkedList<Waiter>();
  readonly #signals = new SignalLists<Waiter>((list, reason) => this.#rejectAll(list, reason));
  /** Queued waiters by deadline, and sleeping waiters by wake-up time. */
  readonly #timed = new Heap<Waiter>(byTime);
  /** Queues with work to do. */
  readonly #ready = new LinkedList<KeyQueue<Waiter>>();
  /** Lists of waiters to reject, each with its reason. */
  readonly #rejections: (readonly [LinkedList<Waiter>, unknown])[] = [];
  /** The number of checks that the store is deciding. */
  #deciding = 0;
  /** Whether the store is remote: it returned a promise. Other processes may use the same keys. */
  #isRemote = false;
  /** The steps that remain in this turn of the event loop. */
  #budget = SLICE;
  #isRunning = false;
  #isResumeScheduled = false;
  #nowMs = 0;
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined;

  constructor(context: WaitingContext) {
    this.#context = context;
    this.#releases = new RemoteReleases(context.onRelease, (charge) => this.wake([{ charge }]));
  }

  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    const { maxWaitMs = NEVER, signal } = options;
    checkWait(options);
    return new Promise((resolve, reject) => {
      const deadlineMs = this.#now() + maxWaitMs;
      // Before any other change: an object that is not a real `AbortSignal` may throw here.
      const list = signal && this.#signals.listOf(signal);
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

  /** Repeats the check of the first waiter of each key whose charges or block were changed. */
  wake(changes: readonly { charge: Pick<Charge, 'policy' | 'key'> }[]): void {
    if (!this.#all.first) return;
    const queues = changes.flatMap(
      ({ charge }) => this.#queues.get(idOf(charge.policy, charge.key)) ?? [],
    );
    for (const queue of queues) {
      const { item } = queue.first!;
      item.retryAtOnce = true;
      if (item.state === 'sleeping') this.#sleep(item, 0);
      // Changes the positions of all waiters, so that results of estimates in flight are ignored.
      queue.served++;
      queue.late = undefined;
      queue.slots.released();
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
   * Adds queues to `#ready` and runs steps until the budget of this turn is used up. The rest
   * follows in the next turn. The first `free` steps do not use the budget, so that the calling
   * method makes progress in this turn even if the budget is used up.
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
    if (this.#budget >= SLICE || this.#isResumeScheduled) return;
    this.#isResumeScheduled = true;
    inNextTurn(() => {
      this.#isResumeScheduled = false;
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
    // Keep a timer that is set for an earlier time: firing early is harmless. Stop a timer that no
    // waiter needs, because it would keep the process alive.
    if (dueMs < NEVER && dueMs >= this.#timerMs) return;
    this.#stopTimer?.();
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#now()));
    this.#stopTimer = this.#context.clock.schedule(delayMs, () => {
      // `dueMs` has passed, even if the clock was set back meanwhile.
      this.#nowMs = Math.max(this.#nowMs, dueMs);
      this.#timerMs = NEVER;
      this.#resume();
    });
  }

  /** Runs one step. Returns false if there is no work. */
  #step(): boolean {
    const rejection = this.#rejections.at(-1);
    if (rejection) {
      const [{ first }, reason] = rejection;
      if (first) this.#fail(first.item, reason);
      else this.#rejections.pop();
      return true;
    }
    const next = this.#timed.first;
    if (next?.state === 'sleeping' && (next.dueMs <= this.#nowMs || next.dueMs <= this.#now())) {
      this.#startDecision(next);
      return true;
    }
    const ready = this.#ready.first;
    if (ready) {
      this.#ready.remove(ready);
      ready.item.ready = undefined;
      this.#advance(ready.item);
      return true;
    }
    // While the store is deciding other waiters, deny this waiter only 1 ms after its deadline.
    // Until then, it may become the first in all its queues and be admitted.
    if (next?.state !== 'queued' || this.#now() < next.dueMs + Math.min(this.#deciding, 1))
      return false;
    this.#deny(next);
    return true;
  }

  /** Estimates the turn of one waiter. If all are estimated, decides the first waiter's check. */
  #advance(queue: KeyQueue<Waiter>): void {
    // While the store decides the first waiter, no estimate is valid. When the store replies,
    // `#finishDecision` adds the queue to `#ready` again.
    if (queue.first?.item.state === 'deciding') return;
    const place = queue.unestimated;
    if (place) {
      queue.unestimated = place.after;
      if (place.item.dueMs < NEVER && !isFirst(place.item)) this.#estimate(queue, place);
    }
    const first = queue.first?.item;
    if (queue.unestimated) this.#proceed([queue]);
    else if (first?.state === 'queued' && isFirst(first)) {
      const pausedMs = Math.max(
        ...first.queues.map(({ pacing, slots }, at) =>
          Math.max(pacing.pausedUntilMs, slots.untilMs(first.check.limits[at])),
        ),
      );
      if (pausedMs > this.#now() && pausedMs < first.deadlineMs) this.#sleep(first, pausedMs);
      else this.#startDecision(first);
    }
  }

  #startDecision(waiter: Waiter): void {
    this.#timed.delete(waiter);
    waiter.state = 'deciding';
    waiter.retryAtOnce = false;
    this.#deciding++;
    const sentMs = this.#now();
    const done = (result: CheckResult): void =>
      this.#finishDecision(waiter, result as Decision, sentMs);
    this.#send(waiter.check, done, (error) => this.#fail(waiter, error));
  }

  /** Sends a check to the store. Calls `done` or `failed` when the store has decided. */
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
    // The store's clock may differ from this process's clock. By the latter, the store decided
    // between `sentMs` and now.
    const nowMs = this.#now();
    const decidedMs = Math.min(Math.max(sentMs, decision.atMs), nowMs);
    const wakeMs = decidedMs + decision.retryAfterMs;
    const isLate = isDeniedUntil(waiter.deadlineMs, check, decision, decidedMs, nowMs);
    if (waiter.state === 'done') {
      const refunds = decision.receipt?.charges.map((charge, at) => ({
        ...check.limits[at],
        charge,
        delta: -charge.cost,
      }));
      if (refunds) this.#context.refund(refunds);
    } else if (decision.allowed || (!waiter.retryAtOnce && isLate)) {
      this.#leave(waiter);
      for (const [at, queue] of queues.entries()) {
        queue.served += check.limits[at].cost;
        if (decision.allowed && !waiter.retryAtOnce)
          queue.slots.admitted(check.limits[at], decision.limits[at], nowMs);
        if (decision.allowed && this.#isRemote && !isConcurrency(check.limits[at].policy))
          queue.pacing.onAdmitted(check.limits[at], decision.limits[at].remaining, nowMs);
      }
      waiter.resolve(decision);
    } else {
      this.#deciding--;
      const isPredicted = decidedMs >= (waiter.predictedMs ?? NEVER);
      const isLost = this.#isRemote && !waiter.retryAtOnce && isPredicted;
      const early = queues.map(({ pacing }, at) => pacing.onDenied(check.limits[at], isLost));
      waiter.predictedMs = waiter.retryAtOnce ? NEVER : wakeMs;
      const pollMs = this.#isRemote ? this.#releases.pollIntervalMs(decision, check) : NEVER;
      for (const [at, { slots }] of queues.entries())
        slots.denied(check.limits[at], decision.limits[at], decidedMs, pollMs);
      const dueMs = Math.min(wakeMs - Math.min(...early), nowMs + pollMs, waiter.deadlineMs);
      this.#sleep(waiter, waiter.retryAtOnce ? 0 : dueMs);
    }
    this.#proceed(queues);
  }

  #sleep(waiter: Waiter, dueMs: number): void {
    this.#timed.delete(waiter);
    waiter.state = 'sleeping';
    waiter.dueMs = dueMs;
    // Order -1 puts the wake-up before the deadlines of the same millisecond. So a later waiter can
    // still be admitted in the millisecond of its deadline.
    this.#timed.add(waiter, -1);
  }

  /** Rejects the waiters of a list, one per step. */
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
      // If earlier waiters have left the queue without a charge since the peek was sent, this
      // waiter has a lower position, and may be admitted before its deadline.
      const found = queue.served + queue.demandAt(place);
      if (found === position) queue.late = { position, earliestMs };
      const { late } = queue;
      if (late && found >= late.position && late.earliestMs > deadlineMs) this.#deny(waiter);
    };
    const peek = { ...check, limits: [{ ...limit, cost: turn.cost }], peek: true };
    this.#send(peek, done, (error) => this.#fail(waiter, error));
  }

  /** Denies a waiter. The `retryAfterMs` includes the estimated wait for earlier waiters. */
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
        // The estimate does not include a block of the key. `each.retryAfterMs` does.
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
