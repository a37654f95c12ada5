/**
 * A lane: the operations for one server, or for one slot of a Cluster, in order. An operation is
 * sent at once if no command of the lane is in flight. Operations that arrive while a reply is
 * pending wait, and are sent together with the next ones:
 *
 *   - when a reply has arrived and its callers have continued, or
 *   - when they fill a command, or
 *   - after 1 to 2 ms, so that a slow reply does not delay them further.
 *
 * So a quiet process has no delay, and a busy one sends few large commands.
 */
import { atEndOfTurn } from '../../clock.ts';
import type { RedisOperation } from './operation.ts';

/** Maximum weight of a command: as many checks as Redis executes in well under a millisecond. */
export const MAX_WEIGHT = 64;

/** Calls `work` when all promises that are settled by now have been handled, in the same turn. */
const afterMicrotasks: (work: () => void) => void =
  typeof process === 'object' && typeof process.nextTick === 'function'
    ? (work) => process.nextTick(work)
    : atEndOfTurn;

/** Operations that will be sent as one command. */
export interface Batch {
  readonly operations: RedisOperation[];
  /** Whether all of them are for one fast script. */
  readonly isFast: boolean;
  readonly nowMs: number | undefined;
}

export class Lane {
  /** The number of commands of this epoch without a reply. */
  inFlight = 0;
  /** Increased when replies are no longer waited for. Commands of earlier epochs do not count. */
  epoch = 0;
  /** When the last command was sent, by the system clock. */
  sentMs = 0;
  /** Whether a reply has arrived whose callers have not continued yet. */
  isSettling = false;
  /** Whether its operations waited at the last tick of the timer. */
  hasWaited = false;
  /** Checks for fast scripts, by group. */
  readonly #fast = new Map<string, RedisOperation[]>();
  /** All other operations, and checks that follow them. */
  #general: RedisOperation[] = [];
  #weight = 0;
  /** The given time of the waiting operations, see `Store`. */
  #nowMs: number | undefined = undefined;

  constructor(
    /** The Cluster slot, or undefined. */
    readonly slot: number | undefined,
    /** Sends a command now. */
    readonly dispatch: (lane: Lane, batch: Batch) => void,
    /** Called when nothing is in flight or waits. */
    readonly idle: () => void,
  ) {}

  get hasWaiting(): boolean {
    return this.#fast.size > 0 || this.#general.length > 0;
  }

  /** Whether an operation can be sent at once: nothing is in flight or waits. */
  get isFree(): boolean {
    return this.inFlight === 0 && !this.isSettling && !this.hasWaiting;
  }

  /** Stops waiting for replies, which are probably lost. */
  forgetInFlight(): void {
    this.inFlight = 0;
    this.epoch++;
  }

  /**
   * Adds an operation to those that wait. All checks of a key are in the same list, and lists are
   * sent before the general operations. So operations on one key keep their order if checks that
   * follow a general operation join it.
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
   * Call when a command has ended, before its callers are notified. The callers of a command
   * continue one after the other. Their next operations are sent together when all have continued.
   * A single caller needs no such delay.
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
