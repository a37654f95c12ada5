import { isInteger } from '../../errors.ts';
import { StoreReplyError } from './reply-errors.ts';

/** Thrown if a fast script did not decide a check. The check is then sent to the general script. */
export class HandedOver {
  readonly isOfKey = true;
}

const HANDED_OVER = new HandedOver();

/** Reads the reply of a script value by value. */
export class Reply {
  readonly #values: readonly unknown[];
  #at = 1;
  /** The error of the first malformed value. All later reads throw it too. */
  #broken: StoreReplyError | undefined = undefined;
  /** When the operations were executed, in ms since the epoch by the server's clock. */
  readonly nowMs: number;

  constructor(
    value: unknown,
    /** When the command was sent, in ms since the epoch by the clock of this process. */
    readonly sentMs: number,
  ) {
    if (!Array.isArray(value)) throw new StoreReplyError('Expected a list from Redis');
    this.#values = value;
    const time: unknown = value[0];
    this.nowMs = typeof time === 'number' ? time : Number(textOf(time) || Number.NaN);
    if (!isInteger(this.nowMs, 0)) throw new StoreReplyError('Expected a time from Redis');
  }

  number(): number {
    const value = this.#values[this.#at++];
    return typeof value === 'number' && this.#broken === undefined ? value : this.#parse(value);
  }

  numbers(): readonly number[] {
    const list = this.#values[this.#at++];
    if (this.#broken !== undefined || !Array.isArray(list)) throw this.#break(list);
    return list.map((value) => (typeof value === 'number' ? value : this.#parse(value)));
  }

  texts(): readonly string[] {
    const list = this.#values[this.#at++];
    if (this.#broken !== undefined || !Array.isArray(list)) throw this.#break(list);
    return list.map(textOf);
  }

  /** Parses a number that a client returned as text. Throws the error of a failed operation. */
  #parse(value: unknown): number {
    if (this.#broken !== undefined) throw this.#broken;
    const text = textOf(value);
    if (text === '>') throw HANDED_OVER;
    if (text.startsWith('!')) throw new StoreReplyError(text.slice(1));
    if (typeof value === 'object' && !ArrayBuffer.isView(value)) throw this.#break(value);
    if (/^-?\d+$/.test(text)) return Number(text);
    throw this.#break(value);
  }

  #break(value: unknown): StoreReplyError {
    const what = textOf(value).slice(0, 100);
    this.#broken = new StoreReplyError(`Expected a number or an error from Redis, got ${what}`);
    return this.#broken;
  }
}

const decoder = new TextDecoder();

/** Returns the text of a value. Clients may return text as bytes. */
function textOf(value: unknown): string {
  return ArrayBuffer.isView(value) ? decoder.decode(value as Uint8Array) : String(value);
}
