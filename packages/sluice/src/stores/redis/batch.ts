/**
 * Sends operations to Redis. If no reply is pending, an operation is sent at once. Otherwise it is
 * sent together with other waiting operations, see `send-queue.ts`. In a Cluster, each slot has its
 * own commands. The size of a command is bounded, so that Redis is never blocked for long.
 */
import { atEndOfTurn, monotonicClock, systemClock } from '../../clock.ts';
import type { OnSent, Recipient } from '../../store.ts';
import type { Send } from './client.ts';
import { domainOfSlot, slotOf } from './keys.ts';
import type { RedisOperation } from './operation.ts';
import { type Batch, MAX_WEIGHT, SendQueue } from './send-queue.ts';
import { SlowQueue } from './slow-queue.ts';
import { hasPassed, Transmitter } from './transmitter.ts';

/** After one to two of these intervals, waiting operations are sent without the pending reply. */
const TICK_MS = 1;

export class Batcher {
  readonly #transmitter: Transmitter;
  readonly #isCluster: boolean;
  readonly #deadlineMs: number;
  /** The send queue of a single server. */
  readonly #single: SendQueue;
  /** Send queues of a Cluster by slot, while they have operations. */
  readonly #sendQueues = new Map<number, SendQueue>();
  /** By failure domain: a node that does not reply must not delay operations on other nodes. */
  readonly #slowQueues = new Map<number, SlowQueue<SlowOperation>>();
  #isSlowScheduled = false;
  /** Whether `together` is running. */
  #isCollecting = false;
  /** Whether the timer of `#tick` is running. */
  #isTicking = false;

  /** Calls `onFirstReply` once, after the first reply. */
  constructor(send: Send, isCluster: boolean, deadlineMs: number, onFirstReply?: () => void) {
    this.#isCluster = isCluster;
    this.#deadlineMs = deadlineMs;
    const resubmit = (operations: readonly RedisOperation[], nowMs: number | undefined): void =>
      this.#addAll(operations, nowMs);
    this.#transmitter = new Transmitter(send, deadlineMs, resubmit, onFirstReply);
    this.#single = this.#newSendQueue(undefined);
  }

  /** Sends an operation. Resolves to its result. */
  do<T>(operation: RedisOperation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((succeeded, failed) => {
      const recipient = { succeeded, failed };
      this.submit(operation, nowMs, onSent ? { ...recipient, sent: onSent } : recipient);
    });
  }

  /** Sends an operation in a command of its own, before all operations that wait. */
  doFirst<T>(operation: RedisOperation<T>): Promise<T> {
    const slot = this.#isCluster ? slotOf(operation.keys[0]) : undefined;
    return new Promise<T>((succeeded, failed) => {
      operation.recipient = { succeeded, failed };
      const operations = [operation as RedisOperation];
      const domain = this.#domainOf(slot);
      void this.#transmitter.transmit(operations, false, undefined, domain, undefined);
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

  /** Calls `work`. Sends the operations that `work` submits in one command, if they fit. */
  together<T>(work: () => T): T {
    this.#isCollecting = true;
    try {
      return work();
    } finally {
      this.#isCollecting = false;
      this.#forEachSendQueue((sendQueue) => {
        if (sendQueue.inFlight === 0 && !sendQueue.isSettling) sendQueue.flush();
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
    const sendQueue = this.#sendQueueOf(slot);
    // A reply that has not arrived within the deadline may be lost: stop waiting for it.
    if (
      sendQueue.inFlight > 0 &&
      !sendQueue.hasWaiting &&
      hasPassed(sendQueue.sentMs, this.#deadlineMs)
    ) {
      sendQueue.abandonInFlight();
    }
    if (sendQueue.isFree && !this.#isCollecting) {
      this.#dispatch(sendQueue, {
        operations: [operation],
        isFast: operation.fast !== undefined,
        nowMs,
      });
      return;
    }
    sendQueue.add(operation, nowMs);
    this.#tick();
  }

  #newSendQueue(slot: number | undefined): SendQueue {
    return new SendQueue(
      slot,
      (sendQueue, batch) => this.#dispatch(sendQueue, batch),
      () => void (slot !== undefined && this.#sendQueues.delete(slot)),
    );
  }

  #sendQueueOf(slot: number | undefined): SendQueue {
    if (slot === undefined) return this.#single;
    let sendQueue = this.#sendQueues.get(slot);
    if (sendQueue === undefined) {
      sendQueue = this.#newSendQueue(slot);
      this.#sendQueues.set(slot, sendQueue);
    }
    return sendQueue;
  }

  #forEachSendQueue(visit: (sendQueue: SendQueue) => void): void {
    if (!this.#isCluster) visit(this.#single);
    else for (const sendQueue of [...this.#sendQueues.values()]) visit(sendQueue);
  }

  /** Starts the timer that sends waiting operations if the reply that they wait for is late. */
  #tick(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    monotonicClock.schedule(TICK_MS, () => {
      this.#isTicking = false;
      this.#forEachSendQueue((sendQueue) => {
        if (!sendQueue.hasWaiting) return;
        if (sendQueue.hasWaited) sendQueue.flush();
        else sendQueue.hasWaited = true;
        if (sendQueue.hasWaiting) this.#tick();
      });
    });
  }

  #dispatch(sendQueue: SendQueue, { operations, isFast, nowMs }: Batch): void {
    sendQueue.inFlight++;
    sendQueue.sentMs = systemClock.now();
    const domain = this.#domainOf(sendQueue.slot);
    void this.#transmitter.transmit(operations, isFast, nowMs, domain, sendQueue);
  }

  #domainOf(slot: number | undefined): number {
    return slot === undefined ? 0 : domainOfSlot(slot);
  }

  /** Whether a slow operation on one of the keys is waiting. A new operation must follow it. */
  #isBehindSlow(keys: readonly string[], slot: number | undefined): boolean {
    if (this.#slowQueues.size === 0) return false;
    return this.#slowQueues.get(this.#domainOf(slot))?.hasKey(keys) === true;
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
      this.#forEachSendQueue((sendQueue) => sendQueue.flush());
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
