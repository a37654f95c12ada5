/**
 * Batches operations: those of the same turn of the event loop are sent as one command, which
 * executes them in order. In a Cluster there is one command for each slot. The size of a batch is
 * bounded, so that Redis is never blocked for long.
 */
import { atEndOfTurn, monotonicClock, systemClock } from '../../clock.ts';
import type { OnSent, Recipient, SentCommand } from '../../store.ts';
import type { Send } from './client.ts';
import { type Built, buildCommand } from './command.ts';
import { domainOfSlot, slotOf } from './keys.ts';
import type { RedisOperation } from './operation.ts';
import { Reply } from './reply.ts';
import { isMissingScript, isNotDone, NotSentError, type StoreReplyError } from './reply-errors.ts';
import { SCRIPT, SCRIPT_SHA } from './scripts.generated.ts';
import { SlowLane } from './slow-lane.ts';

/** The number of checks that Redis does in well under a millisecond. */
const MAX_KEYS = 64;
/** The delay before the one retry of an operation that was certainly not executed. */
const PAUSE_MS = 10;

export class Batcher {
  readonly #send: Send;
  readonly #isCluster: boolean;
  readonly #deadlineMs: number;
  /** Batches that wait for the end of this turn, by slot and given time. */
  readonly #waiting = new Map<string, Waiting>();
  #single: Waiting | undefined = undefined;
  /** Slow operations by failure domain: a silent node must not delay the others. */
  readonly #lanes = new Map<number, SlowLane<SlowOperation>>();
  #scheduled = false;

  /** No caller waits longer than `deadlineMs` for a reply. */
  constructor(send: Send, isCluster: boolean, deadlineMs: number) {
    this.#send = send;
    this.#isCluster = isCluster;
    this.#deadlineMs = deadlineMs;
  }

  /** Sends an operation with the others of this turn. Resolves to what it reads. */
  do<T>(operation: RedisOperation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((succeeded, failed) => {
      const recipient = { succeeded, failed };
      this.submit(operation, nowMs, onSent ? { ...recipient, sent: onSent } : recipient);
    });
  }

  submit<T>(
    operation: RedisOperation<T>,
    nowMs: number | undefined,
    recipient: Recipient<T>,
  ): void {
    operation.recipient = recipient;
    this.#add(operation as RedisOperation, nowMs);
  }

  #add(operation: RedisOperation, nowMs: number | undefined): void {
    const { weight, keys } = operation;
    const lane = this.#lanes.size > 0 ? this.#lanes.get(this.#domainOf(keys[0])) : undefined;
    if (weight > keys.length || lane?.holds(keys)) {
      this.#laneOf(keys[0]).add({
        operation,
        keys,
        weight,
        nowMs,
        group: this.#groupOf(keys, nowMs),
      });
      this.#schedule();
      return;
    }
    let waiting = this.#waitingFor(operation, nowMs);
    if (waiting.keys > 0 && waiting.keys + weight > MAX_KEYS) {
      this.#dispatch(waiting);
      waiting = this.#waitingFor(operation, nowMs);
    }
    waiting.operations.push(operation);
    waiting.keys += weight;
    if (waiting.keys >= MAX_KEYS) this.#dispatch(waiting);
    else this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    atEndOfTurn(() => this.#flush());
  }

  #domainOf(key: string): number {
    return this.#isCluster ? domainOfSlot(slotOf(key)) : 0;
  }

  #laneOf(key: string): SlowLane<SlowOperation> {
    const domain = this.#domainOf(key);
    let lane = this.#lanes.get(domain);
    if (lane === undefined) {
      lane = new SlowLane(MAX_KEYS, this.#deadlineMs);
      this.#lanes.set(domain, lane);
    }
    return lane;
  }

  /** Returns the group of an operation: only operations of one group can share a command. */
  #groupOf(keys: readonly string[], nowMs: number | undefined): string {
    return `${this.#isCluster ? slotOf(keys[0]) : ''} ${nowMs}`;
  }

  #waitingFor({ keys }: RedisOperation, nowMs: number | undefined): Waiting {
    if (!this.#isCluster && nowMs === undefined) {
      this.#single ??= { operations: [], keys: 0, nowMs, id: '' };
      return this.#single;
    }
    const id = this.#groupOf(keys, nowMs);
    let waiting = this.#waiting.get(id);
    if (waiting === undefined) {
      waiting = { operations: [], keys: 0, nowMs, id };
      this.#waiting.set(id, waiting);
    }
    return waiting;
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#single !== undefined) this.#dispatch(this.#single);
    for (const waiting of [...this.#waiting.values()]) this.#dispatch(waiting);
    // Last: operations on the same keys that came before a slow one have been sent now.
    const send = (slow: readonly SlowOperation[]): Promise<void> =>
      this.#sendAll(
        slow.map(({ operation }) => operation),
        slow[0].nowMs,
      );
    for (const lane of this.#lanes.values()) lane.send(send, () => this.#schedule());
  }

  #dispatch(waiting: Waiting): void {
    if (waiting === this.#single) this.#single = undefined;
    else this.#waiting.delete(waiting.id);
    void this.#sendAll(waiting.operations, waiting.nowMs);
  }

  /** Sends operations in one command. Resolves when it has succeeded or failed. */
  async #sendAll(given: readonly RedisOperation[], nowMs: number | undefined): Promise<void> {
    const built = this.#build(given, nowMs);
    if (built === undefined) return;
    const { operations, args, key } = built;
    const sent: Sent = {
      operations,
      nowMs,
      sentMs: systemClock.now(),
      startedMs: monotonicClock.now(),
      command: { domain: this.#domainOf(key), outcome: undefined },
    };
    for (const { recipient } of operations) recipient.sent?.(sent.command);
    await this.#evaluate(args, key).then(
      (value) => this.#complete(sent, value),
      (error) => this.#failAll(sent, error),
    );
  }

  /**
   * Returns one command for these operations. An operation that cannot be encoded fails alone, with
   * an error of its caller, and the others are sent without it.
   */
  #build(operations: readonly RedisOperation[], nowMs: number | undefined): Built | undefined {
    try {
      return buildCommand(operations, nowMs);
    } catch (error) {
      if (operations.length === 1) {
        operations[0].recipient.failed(new NotSentError(error));
        return undefined;
      }
    }
    const valid = operations.filter((each) => this.#build([each], nowMs) !== undefined);
    return valid.length === 0 ? undefined : buildCommand(valid, nowMs);
  }

  /**
   * Reads the whole reply before it completes any operation: if a part is malformed, the command
   * has failed. An error of one key is not a failure of the command.
   */
  #complete(sent: Sent, value: unknown): void {
    let reply: Reply;
    try {
      reply = new Reply(value, sent.sentMs);
    } catch (error) {
      sent.command.outcome = 'failed';
      for (const { recipient } of sent.operations) recipient.failed(error);
      return;
    }
    const results: unknown[] = [];
    let isBroken = false;
    for (const operation of sent.operations) {
      try {
        results.push(operation.read(reply));
      } catch (error) {
        results.push(new Unread(error));
        isBroken ||= !(error as Partial<StoreReplyError> | undefined)?.isOfKey;
      }
    }
    sent.command.outcome = isBroken ? 'failed' : 'replied';
    for (let place = 0; place < results.length; place++) {
      const [operation, result] = [sent.operations[place], results[place]];
      if (result instanceof Unread) this.#fail(operation, sent, result.error);
      else operation.recipient.succeeded(result);
    }
  }

  #failAll(sent: Sent, error: unknown): void {
    sent.command.outcome = 'failed';
    for (const operation of sent.operations) this.#fail(operation, sent, error);
  }

  /**
   * Retries an operation once if it was certainly not executed and the reply can still be in time.
   * Any other operation might be executed twice, or too late.
   */
  #fail(operation: RedisOperation, { nowMs, startedMs }: Sent, error: unknown): void {
    const notDone = isNotDone(error);
    const isLate = monotonicClock.now() - startedMs + PAUSE_MS >= this.#deadlineMs;
    if (operation.repeated || isLate || !notDone) {
      operation.recipient.failed(notDone ? Object.assign(error as Error, { notDone }) : error);
      return;
    }
    operation.repeated = true;
    monotonicClock.schedule(PAUSE_MS, () => this.#add(operation, nowMs));
  }

  /** Sends the script's hash, and its text only if Redis does not have it. */
  async #evaluate(args: readonly string[], key: string): Promise<unknown> {
    try {
      return await this.#send(['EVALSHA', SCRIPT_SHA, ...args], key);
    } catch (error) {
      if (!isMissingScript(error)) throw error;
      return await this.#send(['EVAL', SCRIPT, ...args], key);
    }
  }
}

/** A command in flight. */
interface Sent {
  readonly operations: readonly RedisOperation[];
  readonly nowMs: number | undefined;
  /** When it was sent, by the system clock, for cached denials. */
  readonly sentMs: number;
  /** When it was sent, by the monotonic clock. */
  readonly startedMs: number;
  /** Passed to recipients. Without the operations, because a breaker keeps the last command. */
  readonly command: SentCommand;
}

/** Marks a result that could not be read. */
class Unread {
  constructor(readonly error: unknown) {}
}

/** An operation in a `SlowLane`. */
interface SlowOperation {
  readonly operation: RedisOperation;
  readonly keys: readonly string[];
  readonly weight: number;
  readonly nowMs: number | undefined;
  readonly group: string;
}

interface Waiting {
  readonly operations: RedisOperation[];
  readonly nowMs: number | undefined;
  readonly id: string;
  keys: number;
}
