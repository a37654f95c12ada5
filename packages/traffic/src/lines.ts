/** Splits chunks of bytes into lines. */
import { isAscii } from 'node:buffer';

/** Longer lines are truncated, to bound memory. */
export const MAX_LINE_BYTES = 64 * 1024;

const NEWLINE = 10;
const RETURN = 13;

export class LineSplitter {
  /** The incomplete last line, truncated to `MAX_LINE_BYTES`. */
  #rest = Buffer.alloc(0);
  #isFirst = true;

  /** Adds bytes. Returns the lines that end in them. */
  add(bytes: Buffer): string[] {
    const end = bytes.lastIndexOf(NEWLINE);
    if (end < 0) {
      this.#keep(bytes);
      return [];
    }
    const isCut = this.#rest.length >= MAX_LINE_BYTES;
    const start = isCut ? bytes.indexOf(NEWLINE) : 0;
    const whole = bytes.subarray(start, end);
    const block = this.#rest.length === 0 ? whole : Buffer.concat([this.#rest, whole]);
    this.#rest = Buffer.alloc(0);
    this.#keep(bytes.subarray(end + 1));
    return this.#linesOf(block);
  }

  /** Returns the last line if no newline follows it. */
  end(): string[] {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? [] : this.#linesOf(rest);
  }

  #keep(bytes: Buffer): void {
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
      if (line.charCodeAt(line.length - 1) === RETURN) lines[at] = line.slice(0, -1);
      else if (3 * line.length > MAX_LINE_BYTES) lines[at] = cut(line);
    }
    return lines;
  }
}

function cut(line: string): string {
  const bytes = Buffer.from(line);
  return bytes.length <= MAX_LINE_BYTES ? line : bytes.toString('utf8', 0, MAX_LINE_BYTES);
}
