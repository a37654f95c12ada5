/**
 * Reads and writes lines of newline-delimited JSON, the format between workers and the store
 * process. A line is one JSON list of values. `operations.ts` describes the values.
 */
import type { Duplex } from 'node:stream';

/** Senders start a new line long before this length, so a longer line is an error. */
const MAX_LINE_LENGTH = 32 * 1024 * 1024;

/** Thrown for an invalid line. The receiver then closes the channel. */
export class ProtocolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProtocolError';
  }
}

/**
 * Calls `read` with the values of each line. If `read` returns a reply, writes the reply to the
 * channel. Replies to the lines of one chunk are sent in one write. Calls `onError` once, for the
 * first invalid line or error of `read`, and ignores all lines after it.
 */
export function readLines(
  channel: Duplex,
  read: (values: readonly unknown[]) => string | undefined,
  onError: (error: Error) => void,
): void {
  let rest = '';
  let isBroken = false;
  const readChunk = (chunk: string): void => {
    let replies = '';
    let from = 0;
    for (let at = chunk.indexOf('\n'); at >= 0; at = chunk.indexOf('\n', from)) {
      const line = rest + chunk.slice(from, at);
      rest = '';
      from = at + 1;
      replies += read(parseLine(line)) ?? '';
    }
    rest += from === 0 ? chunk : chunk.slice(from);
    if (rest.length > MAX_LINE_LENGTH)
      throw new ProtocolError(`Expected a line of at most ${MAX_LINE_LENGTH} characters`);
    if (replies !== '') channel.write(replies);
  };
  channel.setEncoding('utf8');
  channel.on('data', (chunk: string) => {
    if (isBroken) return;
    try {
      readChunk(chunk);
    } catch (error) {
      isBroken = true;
      onError(error as Error);
    }
  });
}

function parseLine(line: string): readonly unknown[] {
  let values: unknown;
  try {
    values = JSON.parse(line);
  } catch {
    throw new ProtocolError('Expected a line to be valid JSON');
  }
  if (Array.isArray(values)) return values;
  throw new ProtocolError('Expected a line to be a JSON list');
}

/**
 * Returns the values as a line. Text may contain any characters: `JSON.stringify` escapes lone
 * surrogates.
 */
export const formatLine = (values: readonly unknown[]): string => `${JSON.stringify(values)}\n`;

/** Reads the values of a line one after the other. Throws a `ProtocolError` for a wrong type. */
export class ValueReader {
  #at = 0;

  constructor(private readonly values: readonly unknown[]) {}

  get isAtEnd(): boolean {
    return this.#at >= this.values.length;
  }

  /** The next value. The reader does not advance. */
  get next(): unknown {
    return this.values[this.#at];
  }

  any(): unknown {
    return this.values[this.#at++];
  }

  integer(min: number, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.values[this.#at++];
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) {
      return value as number;
    }
    throw new ProtocolError(`Expected an integer from ${min} to ${max}, got ${valueText(value)}`);
  }

  integerOrNull(min: number): number | null {
    if (this.next !== null) return this.integer(min);
    this.#at++;
    return null;
  }

  text(): string {
    const value = this.values[this.#at++];
    if (typeof value === 'string') return value;
    throw new ProtocolError(`Expected text, got ${valueText(value)}`);
  }
}

const valueText = (value: unknown): string => `\`${String(JSON.stringify(value)).slice(0, 60)}\``;
