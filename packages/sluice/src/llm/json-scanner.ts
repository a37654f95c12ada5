/**
 * Reads the usage, the type and the length of the generated text from a JSON object, chunk by
 * chunk. Pure.
 *
 * Stores at most `MAX_CAPTURE` bytes of an object of any size: an embedding, or an event with a
 * whole response, can have megabytes. Reads bytes, so a chunk may end inside a character.
 *
 *     path                                              field
 *     type                                              type
 *     usage, message.usage, response.usage              usage
 *     delta, delta.*, choices[].delta.*, choices[].text counted in outputBytes
 */
import { mergeUsage, parseUsage, type ReportedUsage } from './usage.ts';

/** The longest `usage` object that is parsed, in bytes. A longer one is ignored. */
const MAX_CAPTURE = 4096;
/** The number of stored bytes of a key or a string value. A longer key is ignored. */
const MAX_TEXT = 32;
/** Keys of objects at a greater depth than this are ignored. */
const MAX_DEPTH = 5;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Fields of a delta whose values are not generated text. */
const NOT_TEXT = new Set(['type', 'role', 'id', 'stop_reason', 'name']);

const textOf = (bytes: Uint8Array, length: number): string =>
  String.fromCharCode(...bytes.subarray(0, length));

export class JsonScanner {
  usage: ReportedUsage = {};
  /** The value of the field `type` of the object. */
  type = '';
  /** The bytes of generated text in this object, including the backslashes of JSON escapes. */
  outputBytes = 0;
  /** Whether the object has ended. */
  isComplete = false;

  #depth = 0;
  readonly #keys: string[] = [];
  #isInString = false;
  #isEscaped = false;
  #stringLength = 0;
  /** Whether the last token was a string. If a colon follows, the string is a key. */
  #hasString = false;
  readonly #text = new Uint8Array(MAX_TEXT);
  /** The depth of the `delta` that contains the current byte, or 0. */
  #deltaDepth = 0;
  #capture: Uint8Array | undefined;
  #captureLength = 0;
  #captureDepth = 0;

  write(bytes: Uint8Array, start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const byte = bytes[at];
      if (this.#isInString) this.#readStringByte(byte);
      else this.#readStructureByte(byte);
      if (this.#captureDepth > 0) this.#captureByte(byte);
    }
  }

  #readStringByte(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#isInString = false;
      this.#hasString = true;
      return;
    }
    if (this.#stringLength < MAX_TEXT) this.#text[this.#stringLength] = byte;
    this.#stringLength++;
  }

  #readStructureByte(byte: number): void {
    switch (byte) {
      case QUOTE:
        this.#isInString = true;
        this.#stringLength = 0;
        return;
      case COLON:
        this.#endKey();
        return;
      case OPEN_OBJECT:
      case OPEN_LIST:
        this.#depth++;
        if (this.#depth <= MAX_DEPTH) this.#keys[this.#depth] = '';
        return;
      case COMMA:
        this.#endValue();
        if (this.#depth <= MAX_DEPTH) this.#keys[this.#depth] = '';
        return;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        this.#endValue();
        this.#depth--;
        if (this.#depth <= 0) this.isComplete = true;
    }
  }

  #endKey(): void {
    this.#hasString = false;
    const depth = this.#depth;
    if (depth > MAX_DEPTH) return;
    const name = this.#stringLength > MAX_TEXT ? '' : textOf(this.#text, this.#stringLength);
    this.#keys[depth] = name;
    if (this.#deltaDepth === 0 && this.#isOutput(name)) this.#deltaDepth = depth;
    if (name === 'usage' && this.#captureDepth === 0 && this.#holdsUsage()) {
      this.#captureDepth = depth;
      this.#captureLength = -1;
    }
  }

  #isOutput(name: string): boolean {
    return name === 'delta' || (name === 'text' && this.#keys[1] === 'choices');
  }

  #holdsUsage(): boolean {
    const parent = this.#keys[1];
    return this.#depth === 1 || (this.#depth === 2 && /^(?:message|response)$/.test(parent));
  }

  /** Handles the end of a value of the current object or list. */
  #endValue(): void {
    const depth = this.#depth;
    if (this.#hasString) {
      this.#hasString = false;
      const name = depth <= MAX_DEPTH ? this.#keys[depth] : '';
      if (depth === 1 && name === 'type') {
        this.type = textOf(this.#text, Math.min(this.#stringLength, MAX_TEXT));
      }
      if (this.#deltaDepth > 0 && !NOT_TEXT.has(name)) this.outputBytes += this.#stringLength;
    }
    if (depth === this.#deltaDepth) this.#deltaDepth = 0;
    if (depth === this.#captureDepth) this.#endCapture();
  }

  #captureByte(byte: number): void {
    // At length -1, the byte is the colon before the value, which is not stored.
    if (this.#captureLength >= 0 && this.#captureLength < MAX_CAPTURE) {
      this.#capture ??= new Uint8Array(MAX_CAPTURE);
      this.#capture[this.#captureLength] = byte;
    }
    this.#captureLength++;
  }

  #endCapture(): void {
    this.#captureDepth = 0;
    if (this.#captureLength > MAX_CAPTURE || this.#capture === undefined) return;
    const text = new TextDecoder().decode(this.#capture.subarray(0, this.#captureLength));
    try {
      this.usage = mergeUsage(this.usage, parseUsage(JSON.parse(text)) ?? {});
    } catch {
      // A usage that is not valid JSON is ignored.
    }
  }
}
