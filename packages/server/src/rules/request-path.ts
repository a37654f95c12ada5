/**
 * The normal form of paths, and the patterns that match paths. `path-readings.ts` handles paths
 * that applications interpret differently.
 */

/** Matches paths that may not be in normal form. */
const NOT_NORMAL = /[^!-~]|[%?#A-Z]|\/\/|\/\.|.\/$/;

/** Whether all applications treat a byte and its percent-encoding as equal. */
const isDecoded = (byte: number): boolean =>
  byte > 0x20 && byte < 0x7f && !'/\\.;%?#'.includes(chr(byte));

const chr = String.fromCharCode;
const hex = (code: number): string => `%${code.toString(16).padStart(2, '0')}`;

const decodeByte = (encoded: string): string => {
  const byte = Number.parseInt(encoded.slice(1), 16);
  return isDecoded(byte) ? chr(byte) : encoded;
};

/** Decodes percent-encodings, except of characters that structure a path, such as `/` and `.`. */
export const decodePlain = (text: string): string =>
  text.includes('%') ? text.replace(/%[\da-fA-F]{2}/g, decodeByte) : text;

/** Removes dot segments, and the segment before each `..`. Expects segments of a decoded path. */
export function withoutDots(segments: readonly string[]): string[] {
  const kept: string[] = [];
  for (const segment of segments) {
    if (segment === '..') kept.pop();
    else if (segment !== '.') kept.push(segment);
  }
  return kept;
}

/**
 * Returns a decoded path with `//` merged, without `/` at the end, and with all characters except
 * visible ASCII percent-encoded. Does not change the case or the dot segments.
 */
export function finishPath(text: string): string {
  const shown = text.replace(/[^!-~]/g, (character) => hex(character.charCodeAt(0)));
  return `/${shown.split('/').filter(Boolean).join('/')}`;
}

/**
 * Returns the normal form of a path. Expects one character per byte, as in headers.
 *
 * - Lower case, without query and fragment, and without dot segments.
 * - Percent-encodings are decoded if all applications treat both forms as equal. An encoded slash
 *   stays encoded, because it is not a separator. An invalid encoding stays.
 * - Slashes and other characters are treated as by `finishPath`.
 */
export function normalPath(path: string): string {
  if (path.charCodeAt(0) === SLASH && !NOT_NORMAL.test(path)) return path;
  return casedPath(path).toLowerCase();
}

/** Returns the normal form of a path, but with its case preserved. */
export function casedPath(path: string): string {
  const end = path.search(/[?#]/);
  const plain = decodePlain(end < 0 ? path : path.slice(0, end));
  const text = plain.replace(/%(?:2e|3b|5c)/gi, decodeURIComponent);
  return finishPath(withoutDots(text.split('/').filter(Boolean)).join('/'));
}

const SLASH = 47;

/** Steps of a pattern that are not character codes: `*`, `**`, and the `/` of `/**`. */
const SEGMENT = -1;
const ANYTHING = -2;
const MAYBE_SLASH = -3;

/**
 * A pattern for paths. `*` matches any characters except `/`, and `**` matches any characters.
 * `/**` before a slash or at the end also matches an empty text: `/a/**` matches `/a`, and `/a/**`
 * followed by `/b` matches `/a/b`.
 *
 * Matches by a nondeterministic automaton: all possible matches advance together, one character at
 * a time. The time is at most proportional to the length of the path times the length of the
 * pattern.
 */
export class PathPattern {
  /** The literal start of all paths that match. */
  readonly prefix: string;
  /** Whether the pattern has no `*`, so that it matches only `prefix`. */
  readonly isExact: boolean;
  /** The first segment, if it has no `*`. */
  readonly firstSegment: string | undefined;
  readonly #steps: readonly number[];
  readonly #isPrefixOnly: boolean;
  #now: Uint8Array;
  #next: Uint8Array;

  /** The pattern matches paths in their normal form. With `isCased`, case matters. */
  constructor(pattern: string, isCased = false) {
    const bytes = Buffer.from(pattern).toString('latin1');
    const pieces = (isCased ? casedPath : normalPath)(bytes).match(PIECES) ?? [];
    this.prefix = pieces[0]?.includes('*') === false ? pieces[0] : '';
    this.isExact = this.prefix !== '' && pieces.length === 1;
    const rest = this.prefix === '' ? pieces : pieces.slice(1);
    this.#steps = rest.flatMap(stepsOf);
    this.#isPrefixOnly = rest.length === 1 && rest[0] === '/**';
    const [, first, isWhole] = /^(\/[^/]+)(\/?)/.exec(this.prefix) ?? [];
    const isComplete = isWhole === '/' || this.isExact || rest[0] === '/**';
    this.firstSegment = isComplete ? first : undefined;
    this.#now = new Uint8Array(this.#steps.length + 1);
    this.#next = new Uint8Array(this.#steps.length + 1);
  }

  /** Whether a path in its normal form matches. */
  matches(path: string): boolean {
    const { prefix } = this;
    if (this.isExact) return path === prefix;
    if (!path.startsWith(prefix)) return false;
    if (!this.#isPrefixOnly) return this.#matchesFrom(path, prefix.length);
    return path.length === prefix.length || path.charCodeAt(prefix.length) === SLASH;
  }

  #matchesFrom(path: string, start: number): boolean {
    const steps = this.#steps;
    this.#now.fill(0);
    this.#enter(this.#now, 0);
    for (let at = start; at < path.length; at++) {
      const code = path.charCodeAt(at);
      const [now, next] = [this.#now, this.#next];
      next.fill(0);
      let isAlive = false;
      for (let place = 0; place < steps.length; place++) {
        if (now[place] === 0) continue;
        const to = nextPlace(steps[place], code, place);
        if (to < 0) continue;
        this.#enter(next, to);
        isAlive = true;
      }
      if (!isAlive) return false;
      this.#now = next;
      this.#next = now;
    }
    return this.#now[steps.length] === 1;
  }

  /** Marks a state, and the states that follow it without consuming a character. */
  #enter(marks: Uint8Array, place: number): void {
    for (let at = place; ; ) {
      marks[at] = 1;
      const step = this.#steps[at];
      if (step === SEGMENT || step === ANYTHING) at++;
      else if (step === MAYBE_SLASH) at += 2;
      else return;
    }
  }
}

/** Returns the state to which a character leads, or -1 if it does not match. */
function nextPlace(step: number, code: number, place: number): number {
  if (step === ANYTHING) return place;
  if (step === SEGMENT) return code === SLASH ? -1 : place;
  const wanted = step === MAYBE_SLASH ? SLASH : step;
  return code === wanted ? place + 1 : -1;
}

/** Matches the pieces of a pattern: `/**` before a slash or at the end, other stars, and text. */
const PIECES = /\/\*{2,}(?=\/|$)|\*+|(?:(?!\/\*{2,}(?:\/|$))[^*])+/g;

function stepsOf(piece: string): readonly number[] {
  if (piece.startsWith('/**')) return [MAYBE_SLASH, ANYTHING];
  if (piece.startsWith('*')) return [piece.length > 1 ? ANYTHING : SEGMENT];
  return [...piece].map((character) => character.charCodeAt(0));
}
