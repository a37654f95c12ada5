/**
 * A send queue: the operations for one server, or for one slot of a Cluster, in order. If no
 * command of the queue is in flight, an operation is sent at once. If a reply is pending,
 * operations wait and are sent together:
 *
 *   - when a reply has arrived and the code that awaited it has run, or
 *   - when they fill a command, or
 *   - after 1 to 2 ms, so that a slow reply does not delay them further.
 *
 * So a process with few calls has no delay, and a busy process sends few large commands.
 */
import { atEndOfTurn } from '../../clock.ts';
import type { RedisOperation } from './operation.ts';

/** Maximum weight of a command: as many checks as Redis executes in well under a millisecond. */
export const MAX_WEIGHT = 64;

/** Calls `work` in this turn of the event loop, after the handlers of all settled promises. */
const afterMicrotasks: (work: () => void) => void =
  typeof process === 'object' && typeof process.nextTick === 'function'
    ? (work) => process.nextTick(work)
    : atEndOfTurn;

/** Operations that will be sent as one command. */
export interface Batch {
  readonly operations: RedisOperation[];
  /** Whether all operations are for one fast script. */
  readonly isFast: boolean;
  readonly nowMs: number | undefined;
}

export class SendQueue {
  /** The number of commands of the current epoch that have no reply. */
  inFlight = 0;
  /** Increased by `abandonInFlight`. Commands of earlier epochs do not count as in flight. */
  epoch = 0;
  /** When the last command was sent, by the system clock. */
  sentMs = 0;
  /** Whether a reply has arrived and the code that awaited it has not run yet. */
  isSettling = false;
  /** Whether operations were waiting at the last tick of the timer. */
  hasWaited = false;
  /** Checks for fast scripts, by group. */
  readonly #fast = new Map<string, RedisOperation[]>();
  /** Operations for the general script, and checks that arrived after them. */
  #general: RedisOperation[] = [];
  #weight = 0;
  /** The `nowMs` of the waiting operations, see `Store`. */
  #nowMs: number | undefined = undefined;

  constructor(
    /** The Cluster slot, or undefined. */
    readonly slot: number | undefined,
    /** Sends a command now. */
    readonly dispatch: (sendQueue: SendQueue, batch: Batch) => void,
    /** Called when no command is in flight and no operation waits. */
    readonly idle: () => void,
  ) {}

  get hasWaiting(): boolean {
    return this.#fast.size > 0 || this.#general.length > 0;
  }

  /** Whether an operation can be sent at once: no command is in flight and none waits. */
  get isFree(): boolean {
    return this.inFlight === 0 && !this.isSettling && !this.hasWaiting;
  }

  /** Stops waiting for the pending replies, which are probably lost. */
  abandonInFlight(): void {
    this.inFlight = 0;
    this.epoch++;
  }

  /**
   * Adds a waiting operation. Operations on one key keep their order: all fast checks of a key are
   * in the same list, and the lists are sent before the general operations. A check that arrives
   * after a general operation is sent with the general operations.
   */
  add(operation: RedisOperation, nowMs: number | undefined): void {
    if (nowMs !== this.#nowMs) {
      this.flush();
      this.#nowMs = nowMs;
    }
    const group = operation.fast?.group;
    if (group === undefined || this.#general.length > 0) {
      this.#addGeneral(operation);
      return;
    }
    const list = this.#fast.get(group);
    if (list === undefined) this.#fast.set(group, [operation]);
    else if (list.push(operation) >= MAX_WEIGHT) this.#sendFast(group, list);
  }

  #addGeneral(operation: RedisOperation): void {
    const { weight } = operation;
    if (this.#weight > 0 && this.#weight + weight > MAX_WEIGHT) this.flush();
    this.#general.push(operation);
    this.#weight += weight;
    if (this.#weight >= MAX_WEIGHT) this.flush();
  }

  /**
   * Call this when a command has ended, before its results are passed to the callers. The callers
   * then run one after the other, and their next operations are sent together after all have run.
   * If there is a single caller, its next operation is sent at once.
   */
  ended(count: number, epoch: number): void {
    if (epoch === this.epoch) this.inFlight--;
    if (this.isSettling) return;
    if (count > 1 || this.hasWaiting) {
      this.isSettling = true;
      afterMicrotasks(() => {
        this.isSettling = false;
        this.flush();
        if (this.isFree) this.idle();
      });
    } else if (this.isFree) this.idle();
  }

  #sendFast(group: string, operations: RedisOperation[]): void {
    this.#fast.delete(group);
    this.dispatch(this, { operations, isFast: true, nowMs: this.#nowMs });
  }

  /** Sends all operations that wait. */
  flush(): void {
    this.hasWaited = false;
    for (const [group, operations] of this.#fast) this.#sendFast(group, operations);
    const operations = this.#general;
    if (operations.length === 0) return;
    this.#general = [];
    this.#weight = 0;
    this.dispatch(this, { operations, isFast: false, nowMs: this.#nowMs });
  }
}
