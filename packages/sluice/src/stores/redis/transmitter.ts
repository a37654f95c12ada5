/**
 * Sends commands and handles their replies: passes results to the operations, sends checks that a
 * fast script handed over to the general script, and retries operations that Redis has not
 * executed.
 */
import { monotonicClock, systemClock } from '../../clock.ts';
import type { SentCommand } from '../../store.ts';
import type { Send } from './client.ts';
import { buildFastCommand, buildGeneralCommand, type RedisCommand } from './command.ts';
import type { RedisOperation } from './operation.ts';
import { HandedOver, Reply } from './reply.ts';
import { isMissingScript, isNotDone, NotSentError, type StoreReplyError } from './reply-errors.ts';
import type { SendQueue } from './send-queue.ts';

/** Delay before the only retry of an operation that Redis has certainly not executed. */
const RETRY_DELAY_MS = 10;

/** Whether `delayMs` have passed since `sinceMs`, or the system clock was set back. */
export function hasPassed(sinceMs: number, delayMs: number): boolean {
  const elapsedMs = systemClock.now() - sinceMs;
  return elapsedMs < 0 || elapsedMs >= delayMs;
}

export class Transmitter {
  readonly #send: Send;
  readonly #deadlineMs: number;
  readonly #resubmit: (operations: readonly RedisOperation[], nowMs: number | undefined) => void;
  /** Called once, after the first reply. */
  #onFirstReply: (() => void) | undefined;

  /**
   * Callers wait up to `deadlineMs` for a reply, so no operation is retried after that time.
   * `resubmit` is called to send operations that are retried or handed over.
   */
  constructor(
    send: Send,
    deadlineMs: number,
    resubmit: (operations: readonly RedisOperation[], nowMs: number | undefined) => void,
    onFirstReply?: () => void,
  ) {
    this.#send = send;
    this.#deadlineMs = deadlineMs;
    this.#resubmit = resubmit;
    this.#onFirstReply = onFirstReply;
  }

  /** Sends operations in one command. Resolves when the command has succeeded or failed. */
  transmit(
    given: readonly RedisOperation[],
    isFast: boolean,
    nowMs: number | undefined,
    domain: number,
    sendQueue: SendQueue | undefined,
  ): Promise<void> {
    const built = this.#build(given, isFast, nowMs);
    if (built === undefined) {
      sendQueue?.ended(given.length, sendQueue.epoch);
      return Promise.resolve();
    }
    const { operations, command } = built;
    const sent: InFlightCommand = {
      operations,
      nowMs,
      sentMs: systemClock.now(),
      command: { domain, outcome: undefined },
      sendQueue,
      epoch: sendQueue?.epoch ?? 0,
    };
    for (const { recipient } of operations) recipient.sent?.(sent.command);
    const [key] = operations[0].keys;
    return this.#call(command.args, key).then(
      (value) => this.#complete(sent, value),
      (error) => {
        if (!isMissingScript(error)) return this.#failAll(sent, error);
        // Send the text of the script only if Redis does not have the script.
        return this.#call(['EVAL', command.script.text, ...command.args.slice(2)], key).then(
          (value) => this.#complete(sent, value),
          (other) => this.#failAll(sent, other),
        );
      },
    );
  }

  /**
   * Returns one command for these operations. An operation that cannot be encoded fails with a
   * `NotSentError`, and the command contains the others. Returns undefined if no operation is left.
   */
  #build(
    operations: readonly RedisOperation[],
    isFast: boolean,
    nowMs: number | undefined,
  ): BuiltCommand | undefined {
    const build = isFast ? buildFastCommand : buildGeneralCommand;
    try {
      return { operations, command: build(operations, nowMs) };
    } catch (error) {
      if (operations.length === 1) {
        operations[0].recipient.failed(new NotSentError(error));
        return undefined;
      }
    }
    const valid = operations.filter((each) => this.#build([each], isFast, nowMs) !== undefined);
    if (valid.length === 0) return undefined;
    return { operations: valid, command: build(valid, nowMs) };
  }

  /**
   * Handles the reply to a command. Reads the whole reply before it completes any operation,
   * because one malformed value means that the command has failed. An error about one key is not a
   * failure of the command.
   */
  #complete(sent: InFlightCommand, value: unknown): void {
    const { operations, command, sendQueue } = sent;
    this.#onFirstReply?.();
    this.#onFirstReply = undefined;
    sendQueue?.ended(operations.length, sent.epoch);
    let reply: Reply;
    try {
      reply = new Reply(value, sent.sentMs);
    } catch (error) {
      command.outcome = 'failed';
      for (const { recipient } of operations) recipient.failed(error);
      return;
    }
    const results: unknown[] = [];
    let failures = 0;
    let isBroken = false;
    for (const operation of operations) {
      try {
        results.push(operation.read(reply));
      } catch (error) {
        results.push(error instanceof HandedOver ? error : new FailedResult(error));
        isBroken ||= !(error as Partial<StoreReplyError> | undefined)?.isOfKey;
        failures++;
      }
    }
    command.outcome = isBroken ? 'failed' : 'replied';
    if (failures > 0) {
      this.#completePart(sent, results);
      return;
    }
    for (let index = 0; index < results.length; index++) {
      operations[index].recipient.succeeded(results[index]);
    }
  }

  /** Completes a command of which some operations failed or were handed over. */
  #completePart(sent: InFlightCommand, results: readonly unknown[]): void {
    const handedOver: RedisOperation[] = [];
    const retried: RedisOperation[] = [];
    for (const [index, operation] of sent.operations.entries()) {
      const result = results[index];
      if (result instanceof FailedResult) this.#fail(operation, sent, result.error, retried);
      else if (result instanceof HandedOver) handedOver.push(operation);
      else operation.recipient.succeeded(result);
    }
    for (const operation of handedOver) operation.fast = undefined;
    if (handedOver.length > 0) this.#resubmit(handedOver, sent.nowMs);
    this.#retry(retried, sent.nowMs);
  }

  #failAll(sent: InFlightCommand, error: unknown): void {
    const { operations, command, sendQueue, nowMs } = sent;
    command.outcome = 'failed';
    sendQueue?.ended(operations.length, sent.epoch);
    const retried: RedisOperation[] = [];
    for (const operation of operations) this.#fail(operation, sent, error, retried);
    this.#retry(retried, nowMs);
  }

  /**
   * Adds an operation to `retried` if it has not been retried, Redis has certainly not executed it
   * and the deadline has not passed. Otherwise the operation fails, because a retry might execute
   * it twice or too late.
   */
  #fail(
    operation: RedisOperation,
    { sentMs }: InFlightCommand,
    error: unknown,
    retried: RedisOperation[],
  ): void {
    const notDone = isNotDone(error);
    const isLate = hasPassed(sentMs, this.#deadlineMs - RETRY_DELAY_MS);
    if (operation.isRetried || isLate || !notDone) {
      operation.recipient.failed(notDone ? Object.assign(error as Error, { notDone }) : error);
      return;
    }
    operation.isRetried = true;
    retried.push(operation);
  }

  #retry(operations: readonly RedisOperation[], nowMs: number | undefined): void {
    if (operations.length === 0) return;
    monotonicClock.schedule(RETRY_DELAY_MS, () => this.#resubmit(operations, nowMs));
  }

  /** Calls `send`. An exception of the client becomes a rejection. */
  #call(args: readonly string[], key: string): Promise<unknown> {
    try {
      return Promise.resolve(this.#send(args, key));
    } catch (error) {
      return Promise.reject(error);
    }
  }
}

interface BuiltCommand {
  readonly operations: readonly RedisOperation[];
  readonly command: RedisCommand;
}

/** A command in flight. */
interface InFlightCommand {
  readonly operations: readonly RedisOperation[];
  readonly nowMs: number | undefined;
  /** When the command was sent, by the system clock. */
  readonly sentMs: number;
  /** The object that recipients receive. It is small, because circuit breakers store it. */
  readonly command: SentCommand;
  /** Undefined for a command of a slow queue. */
  readonly sendQueue: SendQueue | undefined;
  /** The epoch of the send queue, see `SendQueue`. */
  readonly epoch: number;
}

/** Wraps the error of an operation in the list of results. */
class FailedResult {
  constructor(readonly error: unknown) {}
}
