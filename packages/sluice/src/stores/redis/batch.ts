/**
 * Sends operations to Redis. If no reply is pending, an operation is sent at once. Otherwise it is
 * sent together with other waiting operations, see `lane.ts`. In a Cluster, each slot has its own
 * commands. The size of a command is bounded, so that Redis is never blocked for long.
 */
import { atEndOfTurn, monotonicClock, systemClock } from '../../clock.ts';
import type { OnSent, Recipient } from '../../store.ts';
import type { Send } from './client.ts';
import { domainOfSlot, slotOf } from './keys.ts';
import { type Batch, Lane, MAX_WEIGHT } from './lane.ts';
import type { RedisOperation } from './operation.ts';
import { SlowQueue } from './slow-queue.ts';
import { hasPassed, Transmitter } from './transmitter.ts';

/** Operations wait for a pending reply for at most one to two of these intervals. */
const TICK_MS = 1;

export class Batcher {
  readonly #transmitter: Transmitter;
  readonly #isCluster: boolean;
  readonly #deadlineMs: number;
  /** The lane of a single server. */
  readonly #single: Lane;
  /** Lanes of a Cluster by slot, while they have operations. */
  readonly #lanes = new Map<number, Lane>();
  /** By failure domain, because a node that does not reply must not delay other nodes. */
  readonly #slowQueues = new Map<number, SlowQueue<SlowOperation>>();
  #isSlowScheduled = false;
  /** Whether `together` is running. */
  #isCollecting = false;
  /** Whether the timer is running that bounds the wait for a reply, see `#tick`. */
  #isTicking = false;

  /** Calls `onFirstReply` once, after the first reply. */
  constructor(send: Send, isCluster: boolean, deadlineMs: number, onFirstReply?: () => void) {
    this.#isCluster = isCluster;
    this.#deadlineMs = deadlineMs;
    const again = (operations: readonly RedisOperation[], nowMs: number | undefined): void =>
      this.#addAll(operations, nowMs);
    this.#transmitter = new Transmitter(send, deadlineMs, again, onFirstReply);
    this.#single = this.#newLane(undefined);
  }

  /** Sends an operation. Resolves to its result. */
  do<T>(operation: RedisOperation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((succeeded, failed) => {
      const recipient = { succeeded, failed };
      this.submit(operation, nowMs, onSent ? { ...recipient, sent: onSent } : recipient);
    });
  }

  /** Like `do`, but passes the result to `recipient`, which avoids allocating a promise. */
  submit<T>(
    operation: RedisOperation<T>,
    nowMs: number | undefined,
    recipient: Recipient<T>,
  ): void {
    operation.recipient = recipient;
    this.#add(operation as RedisOperation, nowMs);
  }

  /** Calls `work`, and sends the operations that it submits together, if they fit in a command. */
  together<T>(work: () => T): T {
    this.#isCollecting = true;
    try {
      return work();
    } finally {
      this.#isCollecting = false;
      this.#forEachLane((lane) => {
        if (lane.inFlight === 0 && !lane.isSettling) lane.flush();
      });
    }
  }

  #add(operation: RedisOperation, nowMs: number | undefined): void {
    const { weight, keys } = operation;
    const slot = this.#isCluster ? slotOf(keys[0]) : undefined;
    if (weight > keys.length || this.#isBehindSlow(keys, slot)) {
      this.#addSlow({ operation, keys, weight, nowMs, group: `${slot} ${nowMs}` }, slot);
      return;
    }
    const lane = this.#laneOf(slot);
    // A reply that has not arrived within the deadline may be lost: stop waiting for it.
    if (lane.inFlight > 0 && !lane.hasWaiting && hasPassed(lane.sentMs, this.#deadlineMs)) {
      lane.forgetInFlight();
    }
    if (lane.isFree && !this.#isCollecting) {
      this.#dispatch(lane, {
        operations: [operation],
        isFast: operation.fast !== undefined,
        nowMs,
      });
      return;
    }
    lane.add(operation, nowMs);
    this.#tick();
  }

  #newLane(slot: number | undefined): Lane {
    return new Lane(
      slot,
      (lane, batch) => this.#dispatch(lane, batch),
      () => void (slot !== undefined && this.#lanes.delete(slot)),
    );
  }

  #laneOf(slot: number | undefined): Lane {
    if (slot === undefined) return this.#single;
    let lane = this.#lanes.get(slot);
    if (lane === undefined) {
      lane = this.#newLane(slot);
      this.#lanes.set(slot, lane);
    }
    return lane;
  }

  #forEachLane(visit: (lane: Lane) => void): void {
    if (!this.#isCluster) visit(this.#single);
    else for (const lane of [...this.#lanes.values()]) visit(lane);
  }

  /** Starts the timer that sends waiting operations if the pending reply is slow. */
  #tick(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    monotonicClock.schedule(TICK_MS, () => {
      this.#isTicking = false;
      this.#forEachLane((lane) => {
        if (!lane.hasWaiting) return;
        if (lane.hasWaited) lane.flush();
        else lane.hasWaited = true;
        if (lane.hasWaiting) this.#tick();
      });
    });
  }

  #dispatch(lane: Lane, { operations, isFast, nowMs }: Batch): void {
    lane.inFlight++;
    lane.sentMs = systemClock.now();
    const domain = this.#domainOf(lane.slot);
    void this.#transmitter.transmit(operations, isFast, nowMs, domain, lane);
  }

  #domainOf(slot: number | undefined): number {
    return slot === undefined ? 0 : domainOfSlot(slot);
  }

  /** Whether a slow operation on one of the keys is waiting, which must be sent first. */
  #isBehindSlow(keys: readonly string[], slot: number | undefined): boolean {
    if (this.#slowQueues.size === 0) return false;
    return this.#slowQueues.get(this.#domainOf(slot))?.holds(keys) === true;
  }

  #addSlow(slow: SlowOperation, slot: number | undefined): void {
    const domain = this.#domainOf(slot);
    let queue = this.#slowQueues.get(domain);
    if (queue === undefined) {
      queue = new SlowQueue(MAX_WEIGHT, this.#deadlineMs);
      this.#slowQueues.set(domain, queue);
    }
    queue.add(slow);
    this.#scheduleSlow();
  }

  #scheduleSlow(): void {
    if (this.#isSlowScheduled) return;
    this.#isSlowScheduled = true;
    atEndOfTurn(() => {
      this.#isSlowScheduled = false;
      // Earlier operations on the same keys must be sent before the slow ones.
      this.#forEachLane((lane) => lane.flush());
      const send = (slow: readonly SlowOperation[]): Promise<void> => {
        const [{ keys, nowMs }] = slow;
        const domain = this.#domainOf(this.#isCluster ? slotOf(keys[0]) : undefined);
        const operations = slow.map(({ operation }) => operation);
        return this.#transmitter.transmit(operations, false, nowMs, domain, undefined);
      };
      for (const queue of this.#slowQueues.values()) queue.send(send, () => this.#scheduleSlow());
    });
  }

  #addAll(operations: readonly RedisOperation[], nowMs: number | undefined): void {
    this.together(() => {
      for (const operation of operations) this.#add(operation, nowMs);
    });
  }
}

/** An operation in a `SlowQueue`. */
interface SlowOperation {
  readonly operation: RedisOperation;
  readonly keys: readonly string[];
  readonly weight: number;
  readonly nowMs: number | undefined;
  readonly group: string;
}
