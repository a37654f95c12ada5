/** Lines of JSON on a stream: each message is one, since JSON has no line ends of its own. */
import type { Duplex } from 'node:stream';

/** Longer lines are nobody's: what is sent is cut into batches long before. */
const MAX_LINE_LENGTH = 32 * 1024 * 1024;

/** What came is not what was agreed on. */
export class ProtocolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProtocolError';
  }
}

/**
 * Calls `read` with the values of each line. It answers what to send back, if anything; what the
 * lines of one piece are answered goes out in one piece. After an error nothing is read any more.
 */
export function readLines(
  channel: Duplex,
  read: (values: readonly unknown[]) => string | undefined,
  onError: (error: Error) => void,
): void {
  let rest = '';
  let isBroken = false;
  const take = (piece: string): void => {
    let answers = '';
    let from = 0;
    for (let at = piece.indexOf('\n'); at >= 0; at = piece.indexOf('\n', from)) {
      const line = rest + piece.slice(from, at);
      rest = '';
      from = at + 1;
      answers += read(valuesOf(line)) ?? '';
    }
    rest += from === 0 ? piece : piece.slice(from);
    if (rest.length > MAX_LINE_LENGTH) throw new ProtocolError('Expected a line to end');
    if (answers !== '') channel.write(answers);
  };
  channel.setEncoding('utf8');
  channel.on('data', (piece: string) => {
    if (isBroken) return;
    try {
      take(piece);
    } catch (error) {
      isBroken = true;
      onError(error as Error);
    }
  });
}

function valuesOf(line: string): readonly unknown[] {
  let values: unknown;
  try {
    values = JSON.parse(line);
  } catch {
    throw new ProtocolError('Expected a line of JSON');
  }
  if (Array.isArray(values)) return values;
  throw new ProtocolError('Expected a list of values');
}

/** One list of values as a line. Halves of surrogate pairs are escaped, so any text survives. */
export const lineOf = (values: readonly unknown[]): string => `${JSON.stringify(values)}\n`;

/** A list of values, read from the front, each held to what it has to be. */
export class Values {
  #at = 0;

  constructor(private readonly values: readonly unknown[]) {}

  get isAtEnd(): boolean {
    return this.#at >= this.values.length;
  }

  /** The next value, which stays the next. */
  get next(): unknown {
    return this.values[this.#at];
  }

  any(): unknown {
    return this.values[this.#at++];
  }

  integer(least: number, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.values[this.#at++];
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) {
      return value as number;
    }
    throw new ProtocolError(`Expected an integer from ${least} to ${most}, got ${shown(value)}`);
  }

  integerOrNull(least: number): number | null {
    if (this.next !== null) return this.integer(least);
    this.#at++;
    return null;
  }

  text(): string {
    const value = this.values[this.#at++];
    if (typeof value === 'string') return value;
    throw new ProtocolError(`Expected text, got ${shown(value)}`);
  }
}

const shown = (value: unknown): string => `\`${String(JSON.stringify(value)).slice(0, 60)}\``;
