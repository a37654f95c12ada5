/**
 * Runs in a worker: the client of one store process. Collects all operations of one turn of the
 * event loop into one line (format: `operations.ts`), sends the line, and reads the results from
 * the reply. If the store process exits or replies with an invalid line, all operations in flight
 * and all further ones are rejected. Operations have no timeout in this class: the failure policy
 * that wraps the store has one.
 */
import type { Duplex } from 'node:stream';
import {
  type Adjustment,
  type Check,
  type CheckResult,
  type KeyState,
  type Limit,
  type LimitParams,
  type Policy,
  SluiceError,
  type Store,
} from 'sluice';
import {
  DecisionRecord,
  decideBySubmit,
  expected,
  isConcurrency,
  jointDecision,
  type OnSent,
  PeekRecord,
  type Recipient,
  type SentCommand,
} from 'sluice/engine';
import { readState } from './key-state.ts';
import { formatLine, ProtocolError, readLines, ValueReader } from './lines.ts';
import { isOperationError, KIND, MAX_LIMITS } from './operations.ts';
import { PolicyNumbers } from './policy-numbers.ts';

/**
 * If a line has this many values, it is sent before the turn of the event loop ends. Other workers
 * wait while the store process handles a long line.
 */
const LONG_LINE_VALUES = 8192;
/** Maximum number of operations in flight. */
const MAX_WAITING = 100_000;
/** Maximum number of characters in the lines of the operations in flight. */
export const MAX_WAITING_CHARACTERS = 32 * 1024 * 1024;

/** A line that was sent and has no reply yet. */
interface SentLine {
  readonly operations: readonly Operation[];
  /** In characters. */
  readonly length: number;
  readonly command: SentCommand;
}

/**
 * An operation that waits for its results. Checks use a class with methods, `CheckOperation`, to
 * avoid three closures per decision: one object is allocated instead of four.
 */
interface Operation {
  /** Called when the line of the operation is sent. */
  sent(command: SentCommand): void;
  /** Reads the results of the operation and resolves the promise of its caller. */
  read(results: ValueReader, nowMs: number): void;
  failed(error: unknown): void;
}

export class RemoteStore implements Store {
  readonly features = ['concurrency', 'block'] as const;
  readonly #channel: Duplex;
  readonly #numbers = new PolicyNumbers();
  /** Values of the line that is being built. */
  #values: unknown[] = [];
  /** Operations in the line that is being built. */
  #operations: Operation[] = [];
  /** The time that callers have set for the operations of the line that is being built. */
  #givenMs: number | undefined = undefined;
  #isScheduled = false;
  /** Lines without a reply yet. Replies arrive in this order. */
  readonly #sent: SentLine[] = [];
  /** Number of operations of the oldest sent line that have received their results. */
  #completed = 0;
  /** Number of operations in flight. */
  #waiting = 0;
  /** Number of characters in the lines of the operations in flight. */
  #waitingCharacters = 0;
  #size = 0;
  #evicted = 0;
  #guaranteedKeys: number | undefined = undefined;
  /** Set when the channel is closed. All further operations are rejected with this error. */
  #closed: SluiceError | undefined = undefined;

  constructor(channel: Duplex) {
    this.#channel = channel;
    const fail = (error: Error): void => {
      this.#fail(error);
      channel.destroy();
    };
    readLines(channel, (values) => this.#read(new ValueReader(values)), fail);
    channel.on('error', fail);
    channel.on('close', () => this.#fail(new Error('the channel was closed')));
  }

  /** Number of keys in the store, from the last reply. */
  get size(): number {
    return this.#size;
  }

  /** Number of evicted keys, from the last reply. */
  get evicted(): number {
    return this.#evicted;
  }

  /** `Store.guaranteedKeys`, from the last reply; undefined before the first reply. */
  get guaranteedKeys(): number | undefined {
    return this.#guaranteedKeys;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    return decideBySubmit(this, checks, nowMs);
  }

  submit(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void {
    const { limits, peek, id, client = '', label } = check;
    if (!this.#add(new CheckOperation(check, recipient), nowMs, limits.length)) return;
    for (const { policy } of limits) this.#numbers.define(policy, this.#values);
    if (label !== undefined) this.#values.push(KIND.label, label);
    if (id !== undefined) this.#values.push(KIND.checkWithId, id, client, limits.length);
    else this.#values.push(peek ? KIND.peek : KIND.check, limits.length);
    for (const limit of limits) this.#pushLimit(limit);
  }

  adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]> {
    return Promise.all(adjustments.map((each) => this.#adjustOne(each, nowMs, onSent)));
  }

  #adjustOne(adjustment: Adjustment, nowMs?: number, onSent?: OnSent): Promise<number> {
    const write = (): void => {
      this.#values.push(KIND.adjust);
      this.#pushAdjustment(adjustment);
    };
    return this.#request([adjustment.policy], nowMs, readNumber, write, onSent);
  }

  /** Sends one operation for all adjustments, so that the store applies all or none. */
  async adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
    client = '',
  ): Promise<readonly number[] | undefined> {
    const { length } = adjustments;
    if (length > MAX_LIMITS) {
      const what = `a receipt of at most ${MAX_LIMITS} charges`;
      throw expected('ERR_INVALID_RECEIPT', what, adjustments);
    }
    const policies = adjustments.map(({ policy }) => policy);
    const read = (results: ValueReader): readonly number[] | undefined =>
      results.integer(0, 1) === 0 ? undefined : Array.from({ length }, () => readNumber(results));
    const write = (): void => {
      this.#values.push(KIND.settle, id, client, length);
      for (const each of adjustments) this.#pushAdjustment(each);
    };
    return this.#request(policies, nowMs, read, write, onSent);
  }

  async reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    const write = (): void => {
      this.#values.push(KIND.reset, this.#numbers.of(policy), key);
    };
    await this.#request([policy], nowMs, readNumber, write, onSent);
  }

  async block(
    policy: Policy,
    key: string,
    forMs: number,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<void> {
    const write = (): void => {
      this.#values.push(KIND.block, this.#numbers.of(policy), key, forMs);
    };
    await this.#request([policy], nowMs, readNumber, write, onSent);
  }

  inspect(
    policy: Policy,
    { limit, capacity }: LimitParams,
    key: string,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<KeyState | undefined> {
    const write = (): void => {
      this.#values.push(KIND.inspect, this.#numbers.of(policy), limit, capacity, key);
    };
    return this.#request([policy], nowMs, readState, write, onSent);
  }

  /** Rejects all operations in flight. */
  async close(): Promise<void> {
    this.#fail(new Error('the store was closed'));
    this.#channel.destroy();
  }

  #pushLimit({ policy, params, key, cost }: Limit): void {
    this.#values.push(this.#numbers.of(policy), params.limit, params.capacity, key, cost);
  }

  #pushAdjustment({ policy, params, charge, delta, renew }: Adjustment): void {
    const { key, cost, atMs, fence = 0 } = charge;
    this.#pushLimit({ policy, params, key, cost });
    this.#values.push(atMs, delta);
    if (isConcurrency(policy)) this.#values.push(fence, renew ? 1 : 0);
  }

  /** Adds an operation: `write` adds its values to the line, `read` parses its results. */
  #request<T>(
    policies: readonly Policy[],
    nowMs: number | undefined,
    read: (results: ValueReader) => T,
    write: () => void,
    onSent: OnSent = () => {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle = (results: ValueReader): void => resolve(read(results));
      const operation = { sent: onSent, read: settle, failed: reject };
      if (!this.#add(operation, nowMs, policies.length)) return;
      for (const policy of policies) this.#numbers.define(policy, this.#values);
      write();
    });
  }

  /**
   * Adds an operation to the line, before the caller adds its values. Rejects the operation and
   * returns false if the channel is closed or too many operations are in flight.
   */
  #add(operation: Operation, nowMs: number | undefined, policies: number): boolean {
    const isFull =
      this.#waiting >= MAX_WAITING || this.#waitingCharacters >= MAX_WAITING_CHARACTERS;
    if (this.#closed !== undefined || isFull) {
      operation.failed(this.#closed ?? unavailable('too many operations are in flight'));
      return false;
    }
    const isLong = this.#values.length >= LONG_LINE_VALUES;
    // `time` applies to all later operations of a line, so another time needs a new line.
    if (isLong || nowMs !== this.#givenMs) this.#send();
    if (nowMs !== this.#givenMs) {
      this.#givenMs = nowMs;
      this.#values.push(KIND.time, nowMs);
    }
    this.#numbers.makeRoom(policies);
    this.#operations.push(operation);
    this.#waiting++;
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        this.#send();
      });
    }
    return true;
  }

  #send(): void {
    this.#givenMs = undefined;
    if (this.#operations.length === 0) return;
    const line = formatLine(this.#values);
    const operations = this.#operations;
    const command: SentCommand = {};
    this.#sent.push({ operations, length: line.length, command });
    this.#waitingCharacters += line.length;
    this.#operations = [];
    this.#values = [];
    for (const operation of operations) operation.sent(command);
    this.#channel.write(line);
  }

  #read(results: ValueReader): undefined {
    if (this.#sent.length === 0) throw new ProtocolError('Received a reply without a request');
    const { operations, length, command } = this.#sent[0];
    command.outcome = 'replied';
    const nowMs = results.integer(0);
    this.#size = results.integer(0);
    this.#evicted = results.integer(0);
    this.#guaranteedKeys = results.integerOrNull(0) ?? undefined;
    while (this.#completed < operations.length) {
      const operation = operations[this.#completed];
      const { next } = results;
      if (isOperationError(next)) {
        results.any();
        // `isOfKey`: the store is available, only this key or operation failed.
        operation.failed(Object.assign(unavailable(next.error), { isOfKey: true }));
      } else operation.read(results, nowMs);
      this.#completed++;
    }
    this.#waiting -= operations.length;
    this.#waitingCharacters -= length;
    this.#completed = 0;
    this.#sent.shift();
  }

  #fail(cause: Error): void {
    if (this.#closed !== undefined) return;
    this.#closed = unavailable(cause.message);
    for (const { command } of this.#sent) command.outcome = 'failed';
    const sent = this.#sent.flatMap(({ operations }) => operations);
    const waiting = [...sent.slice(this.#completed), ...this.#operations];
    this.#sent.length = 0;
    this.#operations = [];
    for (const operation of waiting) operation.failed(this.#closed);
  }
}

class CheckOperation implements Operation {
  constructor(
    private readonly check: Check,
    private readonly recipient: Recipient<readonly CheckResult[]>,
  ) {}

  sent(command: SentCommand): void {
    this.recipient.sent?.(command);
  }

  read(results: ValueReader, nowMs: number): void {
    const { limits, peek, id } = this.check;
    if (limits.length === 1 && id === undefined) {
      this.recipient.succeeded([this.#readLimit(results, nowMs, limits[0])]);
      return;
    }
    const client = id === undefined ? '' : results.text();
    const all = limits.map((limit) => this.#readLimit(results, nowMs, limit));
    const isCharged = !peek && all.every(({ allowed }) => allowed);
    const result = all.length === 1 ? all[0] : jointDecision(all, isCharged);
    this.recipient.succeeded([client === '' ? result : Object.assign(result, { client })]);
  }

  #readLimit(
    results: ValueReader,
    nowMs: number,
    { policy, params, key, cost }: Limit,
  ): CheckResult {
    const { peek, id } = this.check;
    const kind = peek ? PeekRecord : DecisionRecord;
    const limit = id === undefined ? params.capacity : results.integer(1);
    const waitMs = results.integer(0);
    const free = results.integer(0);
    const resetAfterMs = results.integer(0);
    const atMs = nowMs + results.integer(Number.MIN_SAFE_INTEGER);
    const rest = { free, resetAfterMs };
    const result = new kind(policy.name, key, cost, limit, waitMs, atMs, rest);
    if (isConcurrency(policy)) {
      const fence = results.integer(0);
      if (fence > 0) Object.assign(result, { fence });
    } else if (policy.block !== undefined) {
      const blockedUntilMs = results.integer(0);
      if (blockedUntilMs > 0) Object.assign(result, { blockedUntilMs });
    }
    return result;
  }

  failed(error: unknown): void {
    this.recipient.failed(error);
  }
}

const readNumber = (results: ValueReader): number => results.integer(Number.MIN_SAFE_INTEGER);

function unavailable(reason: string): SluiceError {
  return new SluiceError('ERR_STORE_UNAVAILABLE', `The store process is unavailable: ${reason}`);
}
