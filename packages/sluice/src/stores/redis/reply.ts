/** The reply of the script to one command. */
import { isInteger } from '../../errors.ts';
import { StoreReplyError } from './reply-errors.ts';

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
