/** Helpers to parse lines: quotes, escapes, numbers and header names. */

/** V8 copies substrings shorter than this, so they do not keep the line in memory. */
const MIN_SLICE = 13;

/**
 * Returns a copy of a substring of a line. The substring itself would keep in memory the whole text
 * that it is part of, up to 256 KB.
 */
export function owned(piece: string): string {
  return piece.length < MIN_SLICE ? piece : ` ${piece}`.slice(1);
}

const BACKSLASH = 92;

/** Returns the index of the next quote that is not escaped with a backslash, or -1. */
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

/** Decodes backslash escapes of quotes, backslashes and bytes. */
export function unescaped(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/(?:\\x[\da-f]{2})+|\\(.)/gis, (run, escaped: string | undefined) =>
    // Decode consecutive bytes together, because a character may have several bytes.
    escaped === undefined
      ? Buffer.from(run.replaceAll('\\x', ''), 'hex').toString()
      : (LETTERS[escaped] ?? escaped),
  );
}

/** Numbers with more digits may be above `Number.MAX_SAFE_INTEGER`. */
const MAX_DIGITS = 15;

/** Parses the digits from `start` to `end`. Returns 0 for `-`, and -1 for any other text. */
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

/** Returns the text, or an empty text for `-`, which stands for a missing value. */
export const absentIfDash = (text: string): string => (text === '-' ? '' : text);

/** Returns `User-Agent` for `user-agent`: servers written in Go log headers in this form. */
export const canonicalHeader = (name: string): string =>
  name.replace(/(?<![^-])[a-z]/g, (letter) => letter.toUpperCase());
