/**
 * Measures a response chunk by chunk: the reported usage, the length of the generated text, and
 * whether the response is complete. Pure, with memory that does not depend on its size.
 *
 * The first byte shows whether the response is JSON or server-sent events. The content type is not
 * used, because some servers send events with another one. Lines may end with LF, CRLF or CR.
 */
import { JsonScanner } from './json-scanner.ts';
import { mergeUsage, type ReportedUsage } from './usage.ts';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const OPEN_OBJECT = 0x7b;
const BYTE_ORDER_MARK = new Set([0xef, 0xbb, 0xbf]);

const bytesOf = (text: string): readonly number[] =>
  Array.from(text, (character) => character.charCodeAt(0));
const DATA = bytesOf('data:');
const DONE = bytesOf('[DONE]');

/** Events after which no more output follows. */
const LAST_EVENTS = /^(?:message_stop|response\.(?:completed|incomplete|failed))$/;

/** Where the current byte is in a line of an event stream. */
type Place = 'field' | 'space' | 'data' | 'ignored';

export class ResponseMeter {
  usage: ReportedUsage = {};
  form: 'unknown' | 'json' | 'events' = 'unknown';
  /** The bytes of the body so far. */
  bodyBytes = 0;
  /** The bytes of generated text so far. */
  outputBytes = 0;
  /** The number of events so far. */
  events = 0;
  /** Whether the whole JSON object, or the last event of a stream, has arrived. */
  isComplete = false;

  #scanner = new JsonScanner();
  #place: Place = 'field';
  /** The number of bytes that match `DATA` at the start of a line, then `DONE` in the data. */
  #matched = 0;
  #dataLength = 0;
  #afterCr = false;

  write(bytes: Uint8Array): void {
    this.bodyBytes += bytes.length;
    let at = 0;
    while (this.form === 'unknown' && at < bytes.length) {
      const byte = bytes[at];
      if (byte === OPEN_OBJECT) this.form = 'json';
      else if (byte > SPACE && !BYTE_ORDER_MARK.has(byte)) this.form = 'events';
      else at++;
    }
    if (this.form === 'json') this.#writeJson(bytes, at);
    else if (this.form === 'events') this.#writeEvents(bytes, at);
  }

  #writeJson(bytes: Uint8Array, at: number): void {
    this.#scanner.write(bytes, at, bytes.length);
    this.usage = this.#scanner.usage;
    this.isComplete = this.#scanner.isComplete;
  }

  #writeEvents(bytes: Uint8Array, start: number): void {
    let at = start;
    while (at < bytes.length) {
      const byte = bytes[at];
      if (byte === LF || byte === CR) {
        // The LF of a CRLF does not end another line.
        if (byte === CR || !this.#afterCr) this.#endLine();
        this.#afterCr = byte === CR;
        at++;
        continue;
      }
      this.#afterCr = false;
      if (this.#place === 'field') {
        this.#readFieldByte(byte);
        at++;
        continue;
      }
      if (this.#place === 'space') {
        this.#place = 'data';
        if (byte === SPACE) {
          at++;
          continue;
        }
      }
      const end = endOfLine(bytes, at);
      if (this.#place === 'data') this.#readData(bytes, at, end);
      at = end;
    }
  }

  #readFieldByte(byte: number): void {
    if (byte !== DATA[this.#matched]) {
      this.#place = 'ignored';
      // Above 0, so that `#endLine` does not treat the line as empty.
      this.#matched = 1;
      return;
    }
    this.#matched++;
    if (this.#matched < DATA.length) return;
    this.#place = 'space';
    this.#matched = 0;
  }

  #readData(bytes: Uint8Array, start: number, end: number): void {
    const isStart = this.#matched === this.#dataLength;
    for (let at = start; isStart && at < end && bytes[at] === DONE[this.#matched]; at++) {
      this.#matched++;
    }
    this.#dataLength += end - start;
    this.#scanner.write(bytes, start, end);
  }

  #endLine(): void {
    const isEmpty = this.#place === 'field' && this.#matched === 0;
    const isDone = this.#matched === DONE.length;
    // If an object spans several `data` lines, it is not complete yet. Its event ends with the
    // line that completes it, at the latest with the empty line.
    if (this.#dataLength > 0 && (isEmpty || isDone || this.#scanner.isComplete)) {
      this.#endEvent(isDone);
    }
    this.#place = 'field';
    this.#matched = 0;
  }

  #endEvent(isDone: boolean): void {
    const { usage, type, outputBytes } = this.#scanner;
    this.events++;
    this.usage = mergeUsage(this.usage, usage);
    this.outputBytes += outputBytes;
    if (isDone || LAST_EVENTS.test(type)) this.isComplete = true;
    this.#scanner = new JsonScanner();
    this.#dataLength = 0;
  }
}

function endOfLine(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++;
  return at;
}
