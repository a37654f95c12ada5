/**
 * Operations that are asked for in the same turn of the event loop travel together: one command
 * does all of them, in order, and each gets its own answer. In a Cluster there is one command for
 * each slot. A batch is bounded, so that Redis is never held up for long.
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

/** As many checks as Redis does in well under a millisecond. */
const MAX_KEYS = 64;
/** How long to wait before the one repetition of what surely was not done. */
const PAUSE_MS = 10;

export class Batcher {
  readonly #send: Send;
  readonly #isCluster: boolean;
  readonly #deadlineMs: number;
  /** What waits for the end of this turn: by slot in a Cluster, and by the time that was given. */
  readonly #waiting = new Map<string, Waiting>();
  #single: Waiting | undefined = undefined;
  /** Slow operations by failure domain: a silent node must not hold up the others. */
  readonly #lanes = new Map<number, SlowLane<SlowOperation>>();
  #scheduled = false;

  /** After `deadlineMs` nobody waits for an answer any more. */
  constructor(send: Send, isCluster: boolean, deadlineMs: number) {
    this.#send = send;
    this.#isCluster = isCluster;
    this.#deadlineMs = deadlineMs;
  }

  /** Does an operation with the others of this turn; the answer is what it reads. */
  do<T>(operation: RedisOperation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((answered, failed) => {
      const recipient = { answered, failed };
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

  /** Only operations of the same group can travel in one command. */
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
    // Last: what was asked for before a slow operation, and concerns its keys, has been sent now.
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
    await this.#exchange(args, key).then(
      (value) => this.#answer(sent, value),
      (error) => this.#failAll(sent, error),
    );
  }

  /**
   * The arguments of one command for these operations. An operation that cannot be written down
   * fails alone, with an error of its caller; the others are sent without it.
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
    const sound = operations.filter((each) => this.#build([each], nowMs) !== undefined);
    return sound.length === 0 ? undefined : buildCommand(sound, nowMs);
  }

  /**
   * Reads the whole reply before it passes any part on: if a part is malformed, the command has
   * failed. An error of one key is not a failure.
   */
  #answer(sent: Sent, value: unknown): void {
    let reply: Reply;
    try {
      reply = new Reply(value, sent.sentMs);
    } catch (error) {
      sent.command.outcome = 'failed';
      for (const { recipient } of sent.operations) recipient.failed(error);
      return;
    }
    const answers: unknown[] = [];
    let isBroken = false;
    for (const operation of sent.operations) {
      try {
        answers.push(operation.read(reply));
      } catch (error) {
        answers.push(new Unread(error));
        isBroken ||= !(error as Partial<StoreReplyError> | undefined)?.isOfKey;
      }
    }
    sent.command.outcome = isBroken ? 'failed' : 'replied';
    for (let place = 0; place < answers.length; place++) {
      const [operation, answer] = [sent.operations[place], answers[place]];
      if (answer instanceof Unread) this.#fail(operation, sent, answer.error);
      else operation.recipient.answered(answer);
    }
  }

  #failAll(sent: Sent, error: unknown): void {
    sent.command.outcome = 'failed';
    for (const operation of sent.operations) this.#fail(operation, sent, error);
  }

  /**
   * What surely was not done is asked for once more, if the answer can still be in time; everything
   * else might be done twice, or for nobody.
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

  /** By the script's hash; only when Redis does not know it, by its text. */
  async #exchange(args: readonly string[], key: string): Promise<unknown> {
    try {
      return await this.#send(['EVALSHA', SCRIPT_SHA, ...args], key);
    } catch (error) {
      if (!isMissingScript(error)) throw error;
      return await this.#send(['EVAL', SCRIPT, ...args], key);
    }
  }
}

/** A command that is on its way. */
interface Sent {
  readonly operations: readonly RedisOperation[];
  readonly nowMs: number | undefined;
  /** When it was sent, by the clock that denials are dated by. */
  readonly sentMs: number;
  /** When it was sent, by the monotonic clock. */
  readonly startedMs: number;
  /** What recipients get: without the operations, because a breaker keeps the last one. */
  readonly command: SentCommand;
}

/** Instead of an answer that could not be read. */
class Unread {
  constructor(readonly error: unknown) {}
}

/** An operation that waits for the commands before it. */
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
