/**
 * Fair queueing for `acquire` calls with a `flow`. Calls with a flow that wait for the same limits
 * form a group. One call of each group at a time waits in the queues of `waiters.ts`, so among the
 * calls without a flow, a whole group counts as one waiter. The other calls of the group wait here,
 * in one list per flow, in order of arrival.
 *
 * Self-clocked fair queueing chooses the next call of a group. V is the virtual time of the group,
 * c the cost of a call and w its weight. When a call becomes the first of its flow, it gets
 *
 *     finish = max(V, finish of the previous call of the flow) + c / w
 *
 * The call with the smallest finish is next, and V becomes its finish. So when a flow has no
 * waiting calls, the finish of its last call is at most V, and the flow can be deleted. Choosing a
 * call takes O(log flows).
 */
import { type Clock, inNextTurn } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { closed } from '../errors.ts';
import { byTime, Heap, type HeapEntry, type TimedEntry } from '../heap.ts';
import { type Check, idOf } from '../store.ts';
import { type AcquireOptions, checkFlow, checkWait } from './context.ts';
import { LinkedList, type QueueNode } from './key-queue.ts';
import { SignalLists } from './signals.ts';
import type { Waiters } from './waiters.ts';

/** Calls that are rejected or denied per turn of the event loop. */
const SLICE = 128;

const NEVER = Number.POSITIVE_INFINITY;

interface Call extends TimedEntry {
  readonly check: Check;
  readonly options: AcquireOptions;
  readonly group: Group;
  readonly flow: Flow;
  readonly resolve: (decision: Decision | Promise<Decision>) => void;
  readonly reject: (reason: unknown) => void;
  /** The nodes of this call in the lists of its flow, of all calls, and of its signal. */
  places: readonly QueueNode<Call>[];
}

/** The waiting calls of one flow in one group. */
interface Flow extends HeapEntry {
  readonly name: string;
  readonly calls: LinkedList<Call>;
  /** Virtual times at which the first call starts and finishes, see the formula above. */
  start: number;
  finish: number;
}

interface Group {
  readonly id: string;
  readonly flows: Map<string, Flow>;
  /** The flows, ordered by the finish of their first call. */
  readonly flowsByFinish: Heap<Flow>;
  virtualTime: number;
}

/** Computes the finish of a flow's first call, and adds the flow to the heap of its group. */
function addToHeap(group: Group, flow: Flow, start: number): void {
  const { check, options } = flow.calls.first!.item;
  flow.start = start;
  flow.finish = start + check.limits[0].cost / (options.weight ?? 1);
  group.flowsByFinish.add(flow);
}

export class FairQueues {
  readonly #clock: Clock;
  readonly #waiters: Pick<Waiters, 'acquire'>;
  /** The groups by id. Of each group, one call was passed to `Waiters.acquire`. */
  readonly #groups = new Map<string, Group>();
  readonly #all = new LinkedList<Call>();
  readonly #signals = new SignalLists<Call>((list, reason) => this.#rejectAll(list, reason));
  readonly #deadlines = new Heap<Call>(byTime);
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined = undefined;
  #isClosed = false;

  constructor(clock: Clock, waiters: Pick<Waiters, 'acquire'>) {
    this.#clock = clock;
    this.#waiters = waiters;
  }

  /** Like `Waiters.acquire`, but calls with a `flow` are queued fairly. */
  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    checkFlow(options);
    const { flow: name, maxWaitMs = NEVER, signal } = options;
    if (name === undefined) return this.#waiters.acquire(check, options);
    const id = check.limits.map(({ policy, key }) => idOf(policy.name, key)).join();
    const group = this.#groups.get(id);
    if (group === undefined) {
      const flows = new Map();
      const flowsByFinish = new Heap<Flow>(({ finish }) => finish);
      return this.#send({ id, flows, flowsByFinish, virtualTime: 0 }, check, options);
    }
    checkWait(options);
    if (maxWaitMs === 0) return this.#waiters.acquire(check, options);
    return new Promise((resolve, reject) => {
      const list = signal && this.#signals.listOf(signal);
      const flow = group.flows.get(name) ?? {
        name,
        calls: new LinkedList<Call>(),
        start: 0,
        finish: 0,
      };
      const dueMs = this.#clock.now() + maxWaitMs;
      const call: Call = { check, options, group, flow, resolve, reject, dueMs, places: [] };
      call.places = [flow.calls, this.#all, ...(list ? [list] : [])].map((each) => each.add(call));
      if (flow.calls.first?.item === call) {
        group.flows.set(name, flow);
        addToHeap(group, flow, group.virtualTime);
      }
      if (dueMs === NEVER) return;
      this.#deadlines.add(call);
      this.#setTimer();
    });
  }

  /** Rejects all calls that wait here. */
  close(): void {
    this.#isClosed = true;
    this.#rejectAll(this.#all, closed());
  }

  /**
   * Passes a call of a group to `Waiters.acquire`. When that call is decided, passes on the next
   * call of the group.
   */
  #send(group: Group, check: Check, options: AcquireOptions): Promise<Decision> {
    const decided = this.#waiters.acquire(check, options);
    this.#groups.set(group.id, group);
    const next = (): void => this.#sendNext(group);
    decided.then(next, next);
    return decided;
  }

  #sendNext(group: Group): void {
    for (;;) {
      const flow = group.flowsByFinish.first;
      if (flow === undefined) {
        this.#groups.delete(group.id);
        return;
      }
      group.virtualTime = flow.finish;
      const call = flow.calls.first!.item;
      this.#leave(call, flow.finish);
      this.#setTimer();
      try {
        if (this.#isClosed) throw closed();
        call.resolve(this.#send(group, call.check, this.#remainingOptions(call)));
        return;
      } catch (error) {
        // The signal of the call is aborted, or the limiter is closed.
        call.reject(error);
      }
    }
  }

  /** Returns the options of a call, with `maxWaitMs` reduced to the time until its deadline. */
  #remainingOptions({ options, dueMs }: Call): AcquireOptions {
    if (dueMs === NEVER) return options;
    return { ...options, maxWaitMs: Math.max(0, dueMs - this.#clock.now()) };
  }

  /**
   * Removes a call. If it was the first of its flow, the next call of the flow starts at the
   * virtual time `start`.
   */
  #leave(call: Call, start: number): void {
    const { group, flow } = call;
    const wasFirst = flow.calls.first?.item === call;
    for (const place of call.places) place.list.remove(place);
    this.#deadlines.delete(call);
    if (!wasFirst) return;
    group.flowsByFinish.delete(flow);
    if (flow.calls.first) addToHeap(group, flow, start);
    else group.flows.delete(flow.name);
  }

  /** Rejects the calls of a list, `SLICE` calls per turn of the event loop. */
  #rejectAll(list: LinkedList<Call>, reason: unknown): void {
    for (let budget = SLICE; budget > 0 && list.first; budget--) {
      const { item } = list.first;
      this.#leave(item, item.flow.start);
      item.reject(reason);
    }
    this.#setTimer();
    if (list.first) inNextTurn(() => this.#rejectAll(list, reason));
  }

  /**
   * Passes the calls whose deadline has passed to `Waiters.acquire` with a `maxWaitMs` of 0, which
   * decides them without a wait. Handles `SLICE` calls per turn of the event loop.
   */
  #endWaits(): void {
    for (let budget = SLICE; budget > 0; budget--) {
      const { first: call } = this.#deadlines;
      if (call === undefined || call.dueMs > this.#clock.now()) {
        this.#setTimer();
        return;
      }
      this.#leave(call, call.flow.start);
      try {
        call.resolve(this.#waiters.acquire(call.check, this.#remainingOptions(call)));
      } catch (error) {
        call.reject(error);
      }
    }
    inNextTurn(() => this.#endWaits());
  }

  #setTimer(): void {
    const dueMs = this.#deadlines.first?.dueMs ?? NEVER;
    // Keep a timer that is set for an earlier time: firing early is harmless. Stop a timer that no
    // call needs, because it would keep the process alive.
    if (dueMs < NEVER && dueMs >= this.#timerMs) return;
    this.#stopTimer?.();
    this.#timerMs = dueMs;
    if (dueMs === NEVER) return;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#clock.now()));
    this.#stopTimer = this.#clock.schedule(delayMs, () => {
      this.#timerMs = NEVER;
      this.#endWaits();
    });
  }
}
