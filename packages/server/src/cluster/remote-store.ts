/**
 * Client of the store process. Sends all operations of one turn of the event loop as one line, and
 * reads the results from one line. Keeps no counters.
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
  isInteger,
  isRecord,
  jointDecision,
  type OnSent,
  PeekRecord,
  type Recipient,
  type SentCommand,
} from 'sluice/engine';
import { lineOf, ProtocolError, readLines, Values } from './lines.ts';
import { isError, KIND, MAX_DEFINED, MAX_LIMITS } from './operations.ts';

/** A longer line is sent before the turn ends, so that other workers do not wait for it. */
const LONG_LINE_VALUES = 8192;
/** Bounds of the operations in flight, and of the total length of their lines. */
const MAX_WAITING = 100_000;
export const MAX_WAITING_CHARACTERS = 32 * 1024 * 1024;

/** A line in flight. `length` is in characters. */
interface SentLine {
  readonly operations: readonly Operation[];
  readonly length: number;
  readonly command: SentCommand;
}

/** Has methods instead of function fields, to allocate one object per decision instead of four. */
interface Operation {
  /** Called when the line of the operation is sent. */
  sent(command: SentCommand): void;
  /** Reads its results and settles the call. */
  read(results: Values, nowMs: number): void;
  failed(error: unknown): void;
}

export class RemoteStore implements Store {
  readonly #channel: Duplex;
  readonly #numbers = new PolicyNumbers();
  /** The line that is being built. */
  #values: unknown[] = [];
  #operations: Operation[] = [];
  #givenMs: number | undefined = undefined;
  #isScheduled = false;
  /** Lines in flight. Replies arrive in this order. */
  readonly #sent: SentLine[] = [];
  /** Operations of the oldest line whose results have been read. */
  #completed = 0;
  #waiting = 0;
  #waitingCharacters = 0;
  #size = 0;
  #evicted = 0;
  #guaranteedKeys: number | undefined = undefined;
  /** Set when the channel is closed. */
  #closed: SluiceError | undefined = undefined;

  constructor(channel: Duplex) {
    this.#channel = channel;
    const fail = (error: Error): void => {
      this.#fail(error);
      channel.destroy();
    };
    readLines(channel, (values) => this.#read(new Values(values)), fail);
    channel.on('error', fail);
    channel.on('close', () => this.#fail(new Error('the channel was closed')));
  }

  /** As of the last reply, like `evicted`. */
  get size(): number {
    return this.#size;
  }

  get evicted(): number {
    return this.#evicted;
  }

  /** As of the last reply; undefined before the first one. */
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
    const { limits, peek, id, client = '' } = check;
    if (!this.#add(new CheckOperation(check, recipient), nowMs, limits.length)) return;
    for (const { policy } of limits) this.#numbers.define(policy, this.#values);
    if (id !== undefined) this.#values.push(KIND.once, id, client, limits.length);
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

  /** One operation for all adjustments, so that the store applies all or none. */
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
    const read = (results: Values): readonly number[] | undefined =>
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

  #pushAdjustment({ policy, params, charge, delta }: Adjustment): void {
    const { key, cost, atMs } = charge;
    this.#pushLimit({ policy, params, key, cost });
    this.#values.push(atMs, delta);
  }

  #request<T>(
    policies: readonly Policy[],
    nowMs: number | undefined,
    read: (results: Values) => T,
    write: () => void,
    onSent: OnSent = () => {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle = (results: Values): void => resolve(read(results));
      const operation = { sent: onSent, read: settle, failed: reject };
      if (!this.#add(operation, nowMs, policies.length)) return;
      for (const policy of policies) this.#numbers.define(policy, this.#values);
      write();
    });
  }

  /** Prepares the line for an operation. Returns false if the operation was rejected. */
  #add(operation: Operation, nowMs: number | undefined, policies: number): boolean {
    const isFull =
      this.#waiting >= MAX_WAITING || this.#waitingCharacters >= MAX_WAITING_CHARACTERS;
    if (this.#closed !== undefined || isFull) {
      operation.failed(this.#closed ?? unavailable('too many operations are in flight'));
      return false;
    }
    const isLong = this.#values.length >= LONG_LINE_VALUES;
    // `time` applies to the rest of the line.
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
    const line = lineOf(this.#values);
    const operations = this.#operations;
    const command: SentCommand = {};
    this.#sent.push({ operations, length: line.length, command });
    this.#waitingCharacters += line.length;
    this.#operations = [];
    this.#values = [];
    for (const operation of operations) operation.sent(command);
    this.#channel.write(line);
  }

  #read(results: Values): undefined {
    if (this.#sent.length === 0) throw new ProtocolError('Expected no reply without a request');
    const { operations, length, command } = this.#sent[0];
    command.outcome = 'replied';
    const nowMs = results.integer(0);
    this.#size = results.integer(0);
    this.#evicted = results.integer(0);
    this.#guaranteedKeys = results.integerOrNull(0) ?? undefined;
    while (this.#completed < operations.length) {
      const operation = operations[this.#completed];
      const { next } = results;
      if (isError(next)) {
        results.any();
        // The store replied, so this is not a failure of the store.
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

/** Numbers of policies on one channel. Policies with the same definition share one. */
class PolicyNumbers {
  #byPolicy = new WeakMap<Policy, number>();
  #byText = new Map<string, number>();

  of(policy: Policy): number {
    return this.#byPolicy.get(policy)!;
  }

  /** Starts again from 0 if the policies of the next operation might not fit. */
  makeRoom(policies: number): void {
    if (this.#byText.size + policies <= MAX_DEFINED) return;
    this.#byPolicy = new WeakMap();
    this.#byText = new Map();
  }

  /** Adds a definition to the line, unless the policy has a number. */
  define(policy: Policy, values: unknown[]): void {
    if (this.#byPolicy.has(policy)) return;
    const { name, algorithm, windowMs, bucketMs, params } = policy;
    const definition = [name, algorithm, windowMs, bucketMs, params?.limit ?? 0];
    const text = JSON.stringify(definition);
    let number = this.#byText.get(text);
    if (number === undefined) {
      number = this.#byText.size;
      this.#byText.set(text, number);
      values.push(KIND.define, number, ...definition);
    }
    this.#byPolicy.set(policy, number);
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

  read(results: Values, nowMs: number): void {
    const { limits, peek, id } = this.check;
    if (limits.length === 1 && id === undefined) {
      this.recipient.succeeded([this.#readLimit(results, nowMs, limits[0])]);
      return;
    }
    const client = id === undefined ? '' : results.text();
    const all = limits.map((limit) => this.#readLimit(results, nowMs, limit));
    const taken = !peek && all.every(({ allowed }) => allowed);
    const result = all.length === 1 ? all[0] : jointDecision(all, taken);
    this.recipient.succeeded([client === '' ? result : Object.assign(result, { client })]);
  }

  #readLimit(results: Values, nowMs: number, { policy, params, key, cost }: Limit): CheckResult {
    const { peek, id } = this.check;
    const kind = peek ? PeekRecord : DecisionRecord;
    const limit = id === undefined ? params.capacity : results.integer(1);
    const waitMs = results.integer(0);
    const free = results.integer(0);
    const resetAfterMs = results.integer(0);
    const atMs = nowMs + results.integer(Number.MIN_SAFE_INTEGER);
    return new kind(policy.name, key, cost, limit, waitMs, atMs, { free, resetAfterMs });
  }

  failed(error: unknown): void {
    this.recipient.failed(error);
  }
}

const readNumber = (results: Values): number => results.integer(Number.MIN_SAFE_INTEGER);

/** Reads a key's state. Its numbers are shown to operators, so they are validated here. */
function readState(results: Values): KeyState | undefined {
  const state = results.any() as KeyState | 0;
  if (state === 0) return undefined;
  if (!isState(state)) throw new ProtocolError('Expected the state of a key, or 0');
  // A log keeps pointers in the bits of its last cell. JSON has no NaN, so it arrives as null.
  return { ...state, cells: state.cells.map((cell) => cell ?? Number.NaN) };
}

function isState(state: unknown): state is KeyState {
  if (!isRecord(state)) return false;
  const { used, remaining, resetAfterMs, cells, entries, entryCount } = state;
  const isNumbers = [used, remaining, resetAfterMs].every((each) => typeof each === 'number');
  const isLists = Array.isArray(cells) && Array.isArray(entries);
  return isNumbers && isLists && isInteger(entryCount, entries.length);
}

function unavailable(why: string): SluiceError {
  return new SluiceError('ERR_STORE_UNAVAILABLE', `The store process is unavailable: ${why}`);
}
