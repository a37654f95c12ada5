/**
 * Batches operations: all operations of one turn of the event loop are sent as one command, which
 * executes them in order. In a Cluster there is one command for each slot. The size of a batch is
 * bounded, so that Redis is never blocked for long.
 */
import { atEndOfTurn, monotonicClock, systemClock } from '../../clock.ts';
import type { OnSent, Recipient, SentCommand } from '../../store.ts';
import type { Send } from './client.ts';
import { buildCommand, type RedisCommand } from './command.ts';
import { domainOfSlot, slotOf } from './keys.ts';
import type { RedisOperation } from './operation.ts';
import { Reply } from './reply.ts';
import { isMissingScript, isNotDone, NotSentError, type StoreReplyError } from './reply-errors.ts';
import { SCRIPT, SCRIPT_SHA } from './scripts.generated.ts';
import { SlowQueue } from './slow-queue.ts';

/** Maximum weight of a batch: as many checks as Redis executes in well under a millisecond. */
const MAX_WEIGHT = 64;
/** Delay before the only retry of an operation that Redis has certainly not executed. */
const RETRY_DELAY_MS = 10;

export class Batcher {
  readonly #send: Send;
  readonly #isCluster: boolean;
  readonly #deadlineMs: number;
  /** Batches to send at the end of this turn, by slot and given time. */
  readonly #batches = new Map<string, Batch>();
  /** The only batch if there is no Cluster and no given time. */
  #singleBatch: Batch | undefined = undefined;
  /** Queues by failure domain, because a silent node must not delay operations on other nodes. */
  readonly #slowQueues = new Map<number, SlowQueue<SlowOperation>>();
  #scheduled = false;

  /** Callers wait up to `deadlineMs` for a reply, so no operation is retried after that time. */
  constructor(send: Send, isCluster: boolean, deadlineMs: number) {
    this.#send = send;
    this.#isCluster = isCluster;
    this.#deadlineMs = deadlineMs;
  }

  /** Sends an operation with the other operations of this turn. Resolves to its result. */
  do<T>(operation: RedisOperation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((succeeded, failed) => {
      const recipient = { succeeded, failed };
      this.submit(operation, nowMs, onSent ? { ...recipient, sent: onSent } : recipient);
    });
  }

  /** Like `do`, but reports the result to `recipient`, which avoids a promise. */
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
    const queue =
      this.#slowQueues.size > 0 ? this.#slowQueues.get(this.#domainOf(keys[0])) : undefined;
    if (weight > keys.length || queue?.holds(keys)) {
      this.#slowQueueOf(keys[0]).add({
        operation,
        keys,
        weight,
        nowMs,
        group: this.#groupOf(keys, nowMs),
      });
      this.#schedule();
      return;
    }
    let batch = this.#batchFor(operation, nowMs);
    if (batch.weight > 0 && batch.weight + weight > MAX_WEIGHT) {
      this.#dispatch(batch);
      batch = this.#batchFor(operation, nowMs);
    }
    batch.operations.push(operation);
    batch.weight += weight;
    if (batch.weight >= MAX_WEIGHT) this.#dispatch(batch);
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

  #slowQueueOf(key: string): SlowQueue<SlowOperation> {
    const domain = this.#domainOf(key);
    let queue = this.#slowQueues.get(domain);
    if (queue === undefined) {
      queue = new SlowQueue(MAX_WEIGHT, this.#deadlineMs);
      this.#slowQueues.set(domain, queue);
    }
    return queue;
  }

  /** Returns the group of an operation: only operations of one group can share a command. */
  #groupOf(keys: readonly string[], nowMs: number | undefined): string {
    return `${this.#isCluster ? slotOf(keys[0]) : ''} ${nowMs}`;
  }

  #batchFor({ keys }: RedisOperation, nowMs: number | undefined): Batch {
    if (!this.#isCluster && nowMs === undefined) {
      this.#singleBatch ??= { operations: [], weight: 0, nowMs, id: '' };
      return this.#singleBatch;
    }
    const id = this.#groupOf(keys, nowMs);
    let batch = this.#batches.get(id);
    if (batch === undefined) {
      batch = { operations: [], weight: 0, nowMs, id };
      this.#batches.set(id, batch);
    }
    return batch;
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#singleBatch !== undefined) this.#dispatch(this.#singleBatch);
    for (const batch of [...this.#batches.values()]) this.#dispatch(batch);
    // Slow operations are sent last, because earlier operations on their keys must come first.
    const send = (slow: readonly SlowOperation[]): Promise<void> =>
      this.#sendAll(
        slow.map(({ operation }) => operation),
        slow[0].nowMs,
      );
    for (const queue of this.#slowQueues.values()) queue.send(send, () => this.#schedule());
  }

  #dispatch(batch: Batch): void {
    if (batch === this.#singleBatch) this.#singleBatch = undefined;
    else this.#batches.delete(batch.id);
    void this.#sendAll(batch.operations, batch.nowMs);
  }

  /** Sends operations in one command. Resolves when the command has succeeded or failed. */
  async #sendAll(given: readonly RedisOperation[], nowMs: number | undefined): Promise<void> {
    const command = this.#build(given, nowMs);
    if (command === undefined) return;
    const { operations, args, key } = command;
    const sent: InFlightCommand = {
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
   * Returns one command for these operations. An operation that cannot be encoded fails with a
   * `NotSentError`, and the command has the remaining ones. Returns undefined if there are none.
   */
  #build(
    operations: readonly RedisOperation[],
    nowMs: number | undefined,
  ): RedisCommand | undefined {
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
   * Reads the complete reply before it completes any operation, because a malformed part means that
   * the command has failed. An error about one key is not a failure of the command.
   */
  #complete(sent: InFlightCommand, value: unknown): void {
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
        results.push(new FailedResult(error));
        isBroken ||= !(error as Partial<StoreReplyError> | undefined)?.isOfKey;
      }
    }
    sent.command.outcome = isBroken ? 'failed' : 'replied';
    for (let index = 0; index < results.length; index++) {
      const [operation, result] = [sent.operations[index], results[index]];
      if (result instanceof FailedResult) this.#fail(operation, sent, result.error);
      else operation.recipient.succeeded(result);
    }
  }

  #failAll(sent: InFlightCommand, error: unknown): void {
    sent.command.outcome = 'failed';
    for (const operation of sent.operations) this.#fail(operation, sent, error);
  }

  /**
   * Retries an operation once if Redis has certainly not executed it and the deadline has not
   * passed. A retry in other cases might execute the operation twice, or too late.
   */
  #fail(operation: RedisOperation, { nowMs, startedMs }: InFlightCommand, error: unknown): void {
    const notDone = isNotDone(error);
    const isLate = monotonicClock.now() - startedMs + RETRY_DELAY_MS >= this.#deadlineMs;
    if (operation.isRetried || isLate || !notDone) {
      operation.recipient.failed(notDone ? Object.assign(error as Error, { notDone }) : error);
      return;
    }
    operation.isRetried = true;
    monotonicClock.schedule(RETRY_DELAY_MS, () => this.#add(operation, nowMs));
  }

  /** Sends the hash of the script. Sends its text only if Redis does not have the script. */
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
interface InFlightCommand {
  readonly operations: readonly RedisOperation[];
  readonly nowMs: number | undefined;
  /** When it was sent, by the system clock, for cached denials. */
  readonly sentMs: number;
  /** When it was sent, by the monotonic clock. */
  readonly startedMs: number;
  /** Passed to recipients. Has no operations, because circuit breakers keep the last command. */
  readonly command: SentCommand;
}

/** The error of an operation, among the results of a reply. */
class FailedResult {
  constructor(readonly error: unknown) {}
}

/** An operation in a `SlowQueue`. */
interface SlowOperation {
  readonly operation: RedisOperation;
  readonly keys: readonly string[];
  readonly weight: number;
  readonly nowMs: number | undefined;
  readonly group: string;
}

/** Operations that will be sent as one command. */
interface Batch {
  readonly operations: RedisOperation[];
  readonly nowMs: number | undefined;
  readonly id: string;
  weight: number;
}
