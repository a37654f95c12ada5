/** Pieces of a line: quoted, escaped, numbers, and names of headers. */

/** Shorter pieces of a text are copies in any case. */
const SHORTEST_PIECE = 13;

/**
 * A copy of a piece of a line. A piece otherwise keeps all text alive that it was cut from, here as
 * much as a quarter of a megabyte.
 */
export function owned(piece: string): string {
  return piece.length < SHORTEST_PIECE ? piece : ` ${piece}`.slice(1);
}

const BACKSLASH = 92;

/** The end of quoted text that begins at `start`: the next quote that no backslash escapes. */
export function quoteEnd(line: string, start: number): number {
  let end = line.indexOf('"', start);
  while (end > start && line.charCodeAt(end - 1) === BACKSLASH && isEscaped(line, start, end)) {
    end = line.indexOf('"', end + 1);
  }
  return end;
}

function isEscaped(line: string, start: number, at: number): boolean {
  let slashes = 0;
  while (at - slashes > start && line.charCodeAt(at - slashes - 1) === BACKSLASH) slashes++;
  return slashes % 2 === 1;
}

const LETTERS: Readonly<Record<string, string>> = {
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};

/** Servers write a quote, a backslash and what cannot be printed with a backslash in front. */
export function unescaped(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/(?:\\x[\da-f]{2})+|\\(.)/gis, (run, escaped: string | undefined) =>
    // Bytes in a row are decoded together, as a character may have several.
    escaped === undefined
      ? Buffer.from(run.replaceAll('\\x', ''), 'hex').toString()
      : (LETTERS[escaped] ?? escaped),
  );
}

/** More digits than that might not be a whole number any more. */
const MAX_DIGITS = 15;

/** The digits from `start` to `end` as a number; 0 for `-`, and -1 for anything else. */
export function wholeNumber(line: string, start: number, end: number): number {
  if (end === start + 1 && line.charCodeAt(start) === 45) return 0;
  if (end <= start || end > start + MAX_DIGITS) return -1;
  let value = 0;
  for (let at = start; at < end; at++) {
    const digit = line.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = 10 * value + digit;
  }
  return value;
}

/** Most logs write a dash for what is not there. */
export const absentIfDash = (text: string): string => (text === '-' ? '' : text);

/** `user-agent` as `User-Agent`, which is how Go's servers write headers. */
export const canonicalHeader = (name: string): string =>
  name.replace(/(?<![^-])[a-z]/g, (letter) => letter.toUpperCase());
