/** Splits chunks of bytes into lines. */
import { isAscii } from 'node:buffer';

/** Longer lines are truncated to this size, to bound memory. */
export const MAX_LINE_BYTES = 64 * 1024;

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;

export class LineSplitter {
  /** The incomplete last line, truncated to `MAX_LINE_BYTES`. */
  #rest = Buffer.alloc(0);
  #isFirst = true;

  /** Returns the lines that end in `bytes`. Stores the rest for the next call. */
  add(bytes: Buffer): string[] {
    const end = bytes.lastIndexOf(NEWLINE);
    if (end < 0) {
      this.#store(bytes);
      return [];
    }
    // If the stored line is full, skip the rest of it.
    const isFull = this.#rest.length >= MAX_LINE_BYTES;
    const start = isFull ? bytes.indexOf(NEWLINE) : 0;
    const whole = bytes.subarray(start, end);
    const block = this.#rest.length === 0 ? whole : Buffer.concat([this.#rest, whole]);
    this.#rest = Buffer.alloc(0);
    this.#store(bytes.subarray(end + 1));
    return this.#linesOf(block);
  }

  /** Returns the last line if no newline follows it. */
  end(): string[] {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? [] : this.#linesOf(rest);
  }

  #store(bytes: Buffer): void {
    const room = MAX_LINE_BYTES - this.#rest.length;
    if (room > 0 && bytes.length > 0) {
      this.#rest = Buffer.concat([this.#rest, bytes.subarray(0, room)]);
    }
  }

  #linesOf(block: Buffer): string[] {
    const lines = block.toString(isAscii(block) ? 'latin1' : 'utf8').split('\n');
    if (this.#isFirst && lines[0].startsWith('\uFEFF')) lines[0] = lines[0].slice(1);
    this.#isFirst = false;
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at];
      if (line.charCodeAt(line.length - 1) === CARRIAGE_RETURN) lines[at] = line.slice(0, -1);
      // A UTF-16 code unit has at most 3 bytes in UTF-8.
      else if (3 * line.length > MAX_LINE_BYTES) lines[at] = truncate(line);
    }
    return lines;
  }
}

function truncate(line: string): string {
  const bytes = Buffer.from(line);
  return bytes.length <= MAX_LINE_BYTES ? line : bytes.toString('utf8', 0, MAX_LINE_BYTES);
}
