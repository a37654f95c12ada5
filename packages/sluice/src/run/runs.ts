/**
 * `run`: waits for capacity, calls a function, and releases its holds when the function ends.
 *
 * This process regards a lease as ended at `sentMs + lease - margin`, by a monotonic clock.
 * `sentMs` is the time before the request was sent, so the lease never ends later here than in the
 * store. The holds of a run are renewed when a third of the lease has passed:
 *
 *     event                                   effect
 *     renewed                                 the lease starts again
 *     renewal failed                          sent again after a tenth of the lease
 *     renewal returned false                  signal aborts: ERR_LEASE_LOST
 *     lease has ended by this clock           signal aborts: ERR_LEASE_LOST
 *     `signal` option aborted                 signal aborts, no further renewals
 *     function returned or threw              holds released
 *
 * One timer serves all runs of a limiter. After a pause of the process it may fire late, so leases
 * are also checked before each decision of `acquire` and `run`, and before the work that it admits.
 */
import { inNextTurn, monotonicClock, scheduleInBackground } from '../clock.ts';
import type { Admitted, CheckResult } from '../decision.ts';
import { byTime, Heap } from '../heap.ts';
import type { Adjustment } from '../store.ts';
import { ActiveRun, leaseLost, refundsOf } from './active-run.ts';
import type { RunContext, RunOptions, RunResult, RunsContext, TimedCheck } from './context.ts';

/** The number of runs that are renewed in one turn of the event loop. */
const SLICE = 128;
/** The longest delay of `setTimeout`. With a longer delay, the timer fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const NEVER = Number.POSITIVE_INFINITY;

type Decided = CheckResult | Promise<CheckResult>;

export class Runs {
  readonly #context: RunsContext;
  /** Runs with holds, by the time of their next renewal or check. */
  readonly #active = new Heap<ActiveRun>(byTime);
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined = undefined;

  constructor(context: RunsContext) {
    this.#context = context;
  }

  async run<T>(
    check: TimedCheck,
    options: RunOptions,
    work: (context: RunContext) => T | PromiseLike<T>,
  ): Promise<RunResult<T>> {
    const { signal } = options;
    // Calls the listeners after `await`, so that they run in the caller's asynchronous context.
    const decision = this.#context.notify(await this.#context.acquire(check, options));
    this.checkLeases();
    if (!decision.allowed) return { allowed: false, decision };
    const run = new ActiveRun(decision, refundsOf(check, decision), check.sentMs!);
    const hasEnded = run.endsMs <= this.#now();
    if (signal?.aborted || hasEnded) {
      this.#context.release(refundsOf(check, decision));
      throw hasEnded ? leaseLost() : signal!.reason;
    }
    if (run.holds.length > 0) this.#add(run);
    const abort = signal && ((): void => run.abort(signal.reason));
    if (abort) signal.addEventListener('abort', abort);
    try {
      return { allowed: true, value: await work(run), decision };
    } finally {
      if (abort) signal.removeEventListener('abort', abort);
      this.#end(run);
    }
  }

  /** Renews the holds of an admitted check. The returned function stops this, and releases them. */
  keep(decision: Admitted, charges: readonly Adjustment[]): () => void {
    const run = new ActiveRun(decision, charges, this.#now());
    if (run.holds.length > 0) this.#add(run);
    return () => this.#end(run);
  }

  /** Decides a check of `acquire` or `run`. */
  decide(check: TimedCheck, decide: (check: TimedCheck) => Decided): Decided {
    this.checkLeases();
    check.sentMs = this.#now();
    return decide(check);
  }

  /**
   * Aborts runs whose lease has ended. Call immediately before other work is admitted, so that a
   * pause of the process between a decision and the work is noticed.
   */
  checkLeases(): void {
    const { first } = this.#active;
    if (first === undefined) return;
    const nowMs = this.#now();
    if (first.dueMs <= nowMs) this.#check(nowMs);
  }

  #now(): number {
    return (this.#context.clock ?? monotonicClock).now();
  }

  #add(run: ActiveRun): void {
    this.#active.add(run);
    if (run.dueMs < this.#timerMs) this.#setTimer();
  }

  #end(run: ActiveRun): void {
    if (run.hasEnded) return;
    run.hasEnded = true;
    if (run.holds.length === 0) return;
    this.#active.delete(run);
    this.#context.release(run.holds);
    // Stop a timer that no run needs: a timer of the `clock` option may keep the process alive.
    if (this.#context.clock !== undefined) this.#setTimer();
  }

  /** Aborts the runs whose lease has ended, then renews those that are due. */
  #check(nowMs: number): void {
    const due: ActiveRun[] = [];
    for (let run = this.#active.first; run && run.dueMs <= nowMs; run = this.#active.first) {
      this.#active.delete(run);
      if (run.endsMs <= nowMs) run.abort(leaseLost());
      else due.push(run);
    }
    this.#renewAll(due);
    this.#setTimer();
  }

  /** Renews runs in slices, one per turn of the event loop. */
  #renewAll(due: readonly ActiveRun[]): void {
    for (const run of due.slice(0, SLICE)) this.#renew(run);
    const rest = due.slice(SLICE);
    if (rest.length === 0) return;
    for (const run of rest) this.#schedule(run, run.endsMs);
    inNextTurn(() => this.#renewAll(rest));
  }

  /** Adds a run again, unless it has ended or its lease is lost. */
  #schedule(run: ActiveRun, dueMs: number): void {
    this.#active.delete(run);
    if (run.hasEnded) return;
    run.dueMs = Math.min(dueMs, run.endsMs);
    this.#add(run);
  }

  #renew(run: ActiveRun): void {
    // A run whose signal is aborted is not renewed.
    if (run.hasEnded || run.isAborted) return;
    const sentMs = this.#now();
    const done = (isRenewed: boolean): void => {
      if (run.hasEnded || run.isAborted) return;
      if (isRenewed) {
        run.extend(sentMs);
        this.#schedule(run, run.dueMs);
      } else {
        this.#active.delete(run);
        run.abort(leaseLost());
      }
    };
    const failed = (): void => {
      if (!run.isAborted) this.#schedule(run, this.#now() + run.leaseMs / 10);
    };
    // Until the store replies, check the run again only when its lease ends.
    this.#schedule(run, run.endsMs);
    try {
      const renewed = this.#context.renew(run.holds);
      if (typeof renewed === 'boolean') done(renewed);
      else renewed.then(done, failed);
    } catch {
      failed();
    }
  }

  #setTimer(): void {
    const dueMs = this.#active.first?.dueMs ?? NEVER;
    const { clock } = this.#context;
    // Keep a timer that is set for an earlier time: firing early is harmless.
    if (dueMs >= this.#timerMs && dueMs < NEVER) return;
    this.#stopTimer?.();
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.min(Math.max(1, Math.ceil(dueMs - this.#now())), MAX_TIMER_MS);
    const wake = (): void => {
      this.#timerMs = NEVER;
      this.#stopTimer = undefined;
      this.#check(this.#now());
    };
    this.#stopTimer = clock ? clock.schedule(delayMs, wake) : scheduleInBackground(delayMs, wake);
  }
}
