/**
 * Fair shares for calls with a `flow`. Calls with a flow that wait for the same limits form a
 * group. Of each group, one call at a time waits in the queues of `waiters.ts`, so a group has the
 * place of one waiter among calls without a flow. The others wait here, in order within their flow.
 *
 * The next call of a group is chosen by self-clocked fair queueing. V is the virtual time of a
 * group, c the cost of a call and w its weight. When a call becomes the first of its flow, it gets
 *
 *     finish = max(V, finish of the call before it) + c / w
 *
 * The call with the least finish is next, and V becomes its finish. So a flow that has nothing
 * waiting has no finish after V, and needs no record. Choosing takes O(log flows).
 */
import { type Clock, inNextTurn } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { closed } from '../errors.ts';
import { byTime, Heap, type HeapEntry, type Timed } from '../heap.ts';
import { type Check, idOf } from '../store.ts';
import { type AcquireOptions, checkFlow, checkWait } from './context.ts';
import { LinkedList, type QueueNode } from './key-queue.ts';
import { SignalLists } from './signals.ts';

/** The number of calls that are rejected in one turn of the event loop. */
const SLICE = 128;

const NEVER = Number.POSITIVE_INFINITY;

interface Call extends Timed {
  readonly check: Check;
  readonly options: AcquireOptions;
  readonly group: Group;
  readonly flow: Flow;
  readonly resolve: (decision: Decision | Promise<Decision>) => void;
  readonly reject: (reason: unknown) => void;
  /** Its places in its flow, in the list of all calls, and in the list of its signal. */
  places: readonly QueueNode<Call>[];
}

/** The calls of a flow that wait in a group, the first of them with its finish. */
interface Flow extends HeapEntry {
  readonly name: string;
  readonly calls: LinkedList<Call>;
  start: number;
  finish: number;
}

interface Group {
  readonly id: string;
  readonly flows: Map<string, Flow>;
  /** Flows by the finish of their first call. */
  readonly next: Heap<Flow>;
  virtualTime: number;
}

/** Ranks a flow by its first call. */
function rank({ next }: Group, flow: Flow, start: number): void {
  const { check, options } = flow.calls.first!.item;
  flow.start = start;
  flow.finish = start + check.limits[0].cost / (options.weight ?? 1);
  next.add(flow);
}

interface Waiting {
  acquire(check: Check, options: AcquireOptions): Promise<Decision>;
}

export class Flows {
  readonly #clock: Clock;
  readonly #waiters: Waiting;
  /** The groups that have a call in the queues of the waiters. */
  readonly #groups = new Map<string, Group>();
  readonly #all = new LinkedList<Call>();
  readonly #signals = new SignalLists<Call>((list, reason) => this.#rejectAll(list, reason));
  readonly #deadlines = new Heap<Call>(byTime);
  #timerMs = NEVER;
  #stopTimer: (() => void) | undefined = undefined;
  #isClosed = false;

  constructor(clock: Clock, waiters: Waiting) {
    this.#clock = clock;
    this.#waiters = waiters;
  }

  /** Waits as `Waiters.acquire` does. */
  acquire(check: Check, options: AcquireOptions): Promise<Decision> {
    checkFlow(options);
    const { flow: name, maxWaitMs = NEVER, signal } = options;
    if (name === undefined) return this.#waiters.acquire(check, options);
    const id = check.limits.map(({ policy, key }) => idOf(policy.name, key)).join();
    const group = this.#groups.get(id);
    if (group === undefined) {
      const flows = new Map();
      const next = new Heap<Flow>(({ finish }) => finish);
      return this.#send({ id, flows, next, virtualTime: 0 }, check, options);
    }
    checkWait(options);
    if (maxWaitMs === 0) return this.#waiters.acquire(check, options);
    return new Promise((resolve, reject) => {
      const list = signal && this.#signals.of(signal);
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
        rank(group, flow, group.virtualTime);
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

  /** Lets a call of a group wait in the queues of the waiters, and then the next one. */
  #send(group: Group, check: Check, options: AcquireOptions): Promise<Decision> {
    const decided = this.#waiters.acquire(check, options);
    this.#groups.set(group.id, group);
    const next = (): void => this.#sendNext(group);
    decided.then(next, next);
    return decided;
  }

  #sendNext(group: Group): void {
    for (;;) {
      const flow = group.next.first;
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
        call.resolve(this.#send(group, call.check, this.#remaining(call)));
        return;
      } catch (error) {
        // Its signal is aborted, or the limiter is closed.
        call.reject(error);
      }
    }
  }

  /** Returns the options of a call with the rest of its wait. */
  #remaining({ options, dueMs }: Call): AcquireOptions {
    if (dueMs === NEVER) return options;
    return { ...options, maxWaitMs: Math.max(0, dueMs - this.#clock.now()) };
  }

  /** Removes a call. The next call of its flow, if any, starts at a virtual time. */
  #leave(call: Call, start: number): void {
    const { group, flow } = call;
    const wasFirst = flow.calls.first?.item === call;
    for (const place of call.places) place.list.remove(place);
    this.#deadlines.delete(call);
    if (!wasFirst) return;
    group.next.delete(flow);
    if (flow.calls.first) rank(group, flow, start);
    else group.flows.delete(flow.name);
  }

  /** Rejects the calls of a list, in slices. */
  #rejectAll(list: LinkedList<Call>, reason: unknown): void {
    for (let left = SLICE; left > 0 && list.first; left--) {
      const { item } = list.first;
      this.#leave(item, item.flow.start);
      item.reject(reason);
    }
    this.#setTimer();
    if (list.first) inNextTurn(() => this.#rejectAll(list, reason));
  }

  /** Lets calls whose deadline has passed wait for 0 ms, so that they are denied, in slices. */
  #endWaits(): void {
    for (let left = SLICE; left > 0; left--) {
      const { first: call } = this.#deadlines;
      if (call === undefined || call.dueMs > this.#clock.now()) {
        this.#setTimer();
        return;
      }
      this.#leave(call, call.flow.start);
      try {
        call.resolve(this.#waiters.acquire(call.check, this.#remaining(call)));
      } catch (error) {
        call.reject(error);
      }
    }
    inNextTurn(() => this.#endWaits());
  }

  #setTimer(): void {
    const dueMs = this.#deadlines.first?.dueMs ?? NEVER;
    // An early timer is harmless. One that no call needs would keep the process alive.
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
