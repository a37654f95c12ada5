/**
 * Operations that are asked for in the same turn of the event loop travel together: one command
 * does all of them, in order, and each gets its own answer. In a Cluster there is one command for
 * each slot. A batch is bounded, so that Redis is never held up for long.
 */
import { atEndOfTurn, monotonicClock, systemClock } from '../../clock.ts';
import { isInteger } from '../../errors.ts';
import type { Limit, OnSent, Recipient, SentCommand } from '../../store.ts';
import type { Send } from './client.ts';
import { domainOfSlot, slotOf } from './keys.ts';
import { isMissingScript, isNotDone, NotSentError, StoreReplyError } from './replies.ts';
import { SCRIPT, SCRIPT_SHA } from './scripts.generated.ts';
import { SlowLane } from './slow-lane.ts';

/** As many checks as Redis does in well under a millisecond. */
const MOST_KEYS = 64;
/** As many entries as a log has before it becomes a hash. */
const SHORT_LOG = 36;
/** How long to wait before the one repetition of what surely was not done. */
const PAUSE_MS = 10;

/** The kinds of runs, as decide.lua describes them. */
export type Kind = Counted | 'adjust' | 'spend' | 'unspend' | 'inspect';
/** Of these one run does several that are alike. */
type Counted = 'check' | 'peek' | 'once' | 'forget' | 'reset';

const COUNTED: readonly Kind[] = ['check', 'peek', 'once', 'forget', 'reset'];

/**
 * What is asked of the script: a run of decide.lua, and what to make of its answer. Methods rather
 * than functions: there is one for every decision, and each function is an object.
 */
export abstract class Operation<T = unknown> {
  /** Whether it has been sent twice. */
  repeated = false;
  recipient!: Recipient<T>;

  constructor(
    readonly kind: Kind,
    readonly limits: readonly Limit[],
    readonly keys: readonly string[],
    /** The numbers that end the run: how long to remember what was done. */
    readonly numbers = '',
    /** The id of the call or the receipt. */
    readonly id?: string,
    /** For each limit, how to adjust it: when it was charged, by how much, the cost charged. */
    readonly changes: readonly string[] = [],
  ) {}

  /**
   * How much of a batch it takes up: 1 for each key, or more if Redis needs longer than for a
   * check. A refund in a log of 100,000 entries takes about 150 us, an inspection 450 us.
   */
  get weight(): number {
    const { kind, limits, keys } = this;
    if (COUNTED.includes(kind) || !limits.some(canBeLong)) return keys.length;
    return kind === 'inspect' ? 64 : 22 * limits.length;
  }

  /** Takes from the reply what belongs to this operation. */
  abstract read(reply: Reply): T;
}

/** Whether a limit keeps a log that can be longer than one string of the script. */
function canBeLong({ policy, terms }: Limit): boolean {
  const { limit, windowMs, bucketMs } = terms;
  if (policy.algorithm === 'sliding-log') return limit > SHORT_LOG;
  return policy.algorithm === 'sliding-buckets' && Math.min(limit, windowMs / bucketMs) > SHORT_LOG;
}

/** A reply, read from the front. */
export class Reply {
  readonly #values: readonly unknown[];
  #at = 1;
  /** What was wrong with it: from there on nobody knows whose is what. */
  #broken: StoreReplyError | undefined = undefined;
  /** The time of the decisions, by whatever clock was asked for. */
  readonly nowMs: number;

  constructor(
    value: unknown,
    /** When the command was sent, by this process's clock. */
    readonly sentMs: number,
  ) {
    if (!Array.isArray(value)) throw new StoreReplyError('Expected a list from Redis');
    this.#values = value;
    this.nowMs = Number(textOf(value[0]) || Number.NaN);
    if (!isInteger(this.nowMs, 0)) throw new StoreReplyError('Expected a time from Redis');
  }

  number(): number {
    const value = this.#values[this.#at++];
    return typeof value === 'number' && this.#broken === undefined ? value : this.#odd(value);
  }

  /** A list of numbers. */
  numbers(): readonly number[] {
    const list = this.#values[this.#at++];
    if (this.#broken !== undefined || !Array.isArray(list)) throw this.#break(list);
    return list.map((value) => (typeof value === 'number' ? value : this.#odd(value)));
  }

  /** Some clients give numbers as text; and an operation that failed has an error instead. */
  #odd(value: unknown): number {
    if (this.#broken !== undefined) throw this.#broken;
    const text = textOf(value);
    if (text.startsWith('!')) throw new StoreReplyError(text.slice(1));
    if (typeof value === 'object' && !ArrayBuffer.isView(value)) throw this.#break(value);
    if (/^-?\d+$/.test(text)) return Number(text);
    throw this.#break(value);
  }

  #break(value: unknown): StoreReplyError {
    const what = textOf(value).slice(0, 100);
    this.#broken = new StoreReplyError(`Expected something else from Redis than ${what}`);
    return this.#broken;
  }
}

const decoder = new TextDecoder();

/** The text of a value; clients may return text as bytes, which `String` would list as numbers. */
function textOf(value: unknown): string {
  return ArrayBuffer.isView(value) ? decoder.decode(value as Uint8Array) : String(value);
}

/** The arguments of one command, made of operations. */
class Command {
  readonly keys: string[] = [];
  readonly #policies: string[] = [];
  readonly #runs: string[] = [];
  /** The ids of the operations of the last run. */
  #ids: string[] = [];
  readonly #places = new Map<string, number>();
  #last: Operation | undefined = undefined;
  #count = 0;

  add(operation: Operation): void {
    for (const key of operation.keys) this.keys.push(key);
    if (this.#last === undefined || !isAlike(this.#last, operation)) {
      this.#endRun();
      this.#last = operation;
    }
    if (operation.id !== undefined) this.#ids.push(operation.id);
    this.#count++;
  }

  args(nowMs: number | undefined): string[] {
    this.#endRun();
    const now = nowMs === undefined ? '' : String(nowMs);
    const { length } = this.#policies;
    return [...this.keys, now, String(length), ...this.#policies, ...this.#runs];
  }

  #endRun(): void {
    if (this.#last === undefined) return;
    const { kind, limits, numbers, changes } = this.#last;
    let run: string = kind;
    const isCounted = COUNTED.includes(kind);
    if (isCounted) run += ` ${this.#count}`;
    for (const [place, { policy, terms, cost }] of limits.entries()) {
      const { limit, windowMs, bucketMs, capacity } = terms;
      const text = `${policy.algorithm} ${limit} ${windowMs} ${bucketMs} ${capacity}`;
      run += ` ${this.#placeOf(text)}`;
      if (isCounted) run += ` ${cost}`;
      else if (changes.length > 0) run += changes[place];
    }
    this.#runs.push(run + numbers, ...this.#ids);
    this.#ids = [];
    this.#count = 0;
  }

  #placeOf(policy: string): number {
    let place = this.#places.get(policy);
    if (place === undefined) {
      place = this.#policies.push(policy);
      this.#places.set(policy, place);
    }
    return place;
  }
}

/** Whether two operations differ in nothing but their keys, so that one run can do both. */
function isAlike(a: Operation, b: Operation): boolean {
  if (a.kind !== b.kind || a.limits.length !== b.limits.length) return false;
  if (!COUNTED.includes(a.kind) || a.numbers !== b.numbers) return false;
  for (let place = 0; place < a.limits.length; place++) {
    const [one, other] = [a.limits[place], b.limits[place]];
    if (one.terms !== other.terms || one.cost !== other.cost) return false;
  }
  return true;
}

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
  do<T>(operation: Operation<T>, nowMs: number | undefined, onSent?: OnSent): Promise<T> {
    return new Promise<T>((answered, failed) => {
      const recipient = { answered, failed };
      this.submit(operation, nowMs, onSent ? { ...recipient, sent: onSent } : recipient);
    });
  }

  submit<T>(operation: Operation<T>, nowMs: number | undefined, recipient: Recipient<T>): void {
    operation.recipient = recipient;
    this.#add(operation as Operation, nowMs);
  }

  #add(operation: Operation, nowMs: number | undefined): void {
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
    if (waiting.keys > 0 && waiting.keys + weight > MOST_KEYS) {
      this.#dispatch(waiting);
      waiting = this.#waitingFor(operation, nowMs);
    }
    waiting.operations.push(operation);
    waiting.keys += weight;
    if (waiting.keys >= MOST_KEYS) this.#dispatch(waiting);
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
      lane = new SlowLane(MOST_KEYS, this.#deadlineMs);
      this.#lanes.set(domain, lane);
    }
    return lane;
  }

  /** Only operations of the same group can travel in one command. */
  #groupOf(keys: readonly string[], nowMs: number | undefined): string {
    return `${this.#isCluster ? slotOf(keys[0]) : ''} ${nowMs}`;
  }

  #waitingFor({ keys }: Operation, nowMs: number | undefined): Waiting {
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
  async #sendAll(given: readonly Operation[], nowMs: number | undefined): Promise<void> {
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
  #build(operations: readonly Operation[], nowMs: number | undefined): Built | undefined {
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
  #fail(operation: Operation, { nowMs, startedMs }: Sent, error: unknown): void {
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

function buildCommand(operations: readonly Operation[], nowMs: number | undefined): Built {
  const command = new Command();
  for (const operation of operations) command.add(operation);
  const { keys } = command;
  return { operations, args: [String(keys.length), ...command.args(nowMs)], key: keys[0] };
}

interface Built {
  readonly operations: readonly Operation[];
  readonly args: readonly string[];
  /** By which a Cluster finds the node. */
  readonly key: string;
}

/** A command that is on its way. */
interface Sent {
  readonly operations: readonly Operation[];
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
  readonly operation: Operation;
  readonly keys: readonly string[];
  readonly weight: number;
  readonly nowMs: number | undefined;
  readonly group: string;
}

interface Waiting {
  readonly operations: Operation[];
  readonly nowMs: number | undefined;
  readonly id: string;
  keys: number;
}
