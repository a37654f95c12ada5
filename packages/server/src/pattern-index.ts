/**
 * Index of patterns with `*`, by their start (the text before the first `*`) and their end (the
 * text after the last `*`). A lookup takes one step for each distinct pair of start length and end
 * length, not for each pattern. Only patterns with the same start and end, such as `*a*` and `*b*`,
 * are compared one by one.
 */
import { matchesWildcardParts } from './wildcard.ts';

export interface IndexedPattern<T> {
  readonly pattern: string;
  readonly value: T;
  /** The texts between the stars. */
  readonly parts: readonly string[];
  /** Number of characters that are not stars. */
  readonly literalLength: number;
  /** Increases with each pattern that is added. */
  readonly order: number;
}

/** Returns a negative number if `a` has precedence over `b`. */
export type Precedence = (a: IndexedPattern<unknown>, b: IndexedPattern<unknown>) => number;

/** The pattern that was added first has precedence. */
export const firstAdded: Precedence = (a, b) => a.order - b.order;
/** The pattern with more literal characters has precedence; if equal, the one added first. */
export const mostSpecific: Precedence = (a, b) =>
  b.literalLength - a.literalLength || a.order - b.order;

/** All patterns whose start and end have the same lengths. */
interface Shape<T> {
  readonly startLength: number;
  readonly endLength: number;
  /** Patterns by the concatenation of start and end. Each list is sorted by precedence. */
  readonly byTexts: Map<string, IndexedPattern<T>[]>;
}

export class PatternIndex<T> {
  readonly #precedence: Precedence;
  readonly #shapes = new Map<string, Shape<T>>();
  #addedCount = 0;
  #size = 0;

  constructor(precedence: Precedence) {
    this.#precedence = precedence;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a pattern, which must have at least one star. */
  add(pattern: string, value: T): IndexedPattern<T> {
    const parts = pattern.split('*');
    const literalLength = parts.reduce((sum, { length }) => sum + length, 0);
    const added = { pattern, value, parts, literalLength, order: this.#addedCount++ };
    const [start, end] = endsOf(parts);
    const id = `${start.length} ${end.length}`;
    let shape = this.#shapes.get(id);
    if (shape === undefined) {
      shape = { startLength: start.length, endLength: end.length, byTexts: new Map() };
      this.#shapes.set(id, shape);
    }
    const same = shape.byTexts.get(start + end);
    if (same === undefined) shape.byTexts.set(start + end, [added]);
    else same.splice(this.#indexIn(same, added), 0, added);
    this.#size++;
    return added;
  }

  delete(pattern: IndexedPattern<T>): void {
    const [start, end] = endsOf(pattern.parts);
    const id = `${start.length} ${end.length}`;
    const shape = this.#shapes.get(id);
    const same = shape?.byTexts.get(start + end);
    if (shape === undefined || same === undefined) return;
    const index = this.#indexIn(same, pattern);
    if (same[index] !== pattern) return;
    same.splice(index, 1);
    this.#size--;
    if (same.length === 0) shape.byTexts.delete(start + end);
    if (shape.byTexts.size === 0) this.#shapes.delete(id);
  }

  /**
   * Returns the matching pattern with the highest precedence. Skips patterns whose value `accepts`
   * rejects.
   */
  find(text: string, accepts: (value: T) => boolean = () => true): IndexedPattern<T> | undefined {
    let best: IndexedPattern<T> | undefined;
    for (const { startLength, endLength, byTexts } of this.#shapes.values()) {
      if (text.length < startLength + endLength) continue;
      const end = endLength === 0 ? '' : text.slice(-endLength);
      const same = byTexts.get(text.slice(0, startLength) + end);
      const found = same?.find(
        ({ parts, value }) => matchesWildcardParts(parts, text) && accepts(value),
      );
      if (found === undefined) continue;
      if (best === undefined || this.#precedence(found, best) < 0) best = found;
    }
    return best;
  }

  /** Returns the index of a pattern in a sorted list, or where to insert it. */
  #indexIn(list: readonly IndexedPattern<T>[], pattern: IndexedPattern<T>): number {
    let low = 0;
    for (let high = list.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.#precedence(list[middle], pattern) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const endsOf = (parts: readonly string[]): readonly [start: string, end: string] => [
  parts[0],
  parts[parts.length - 1],
];
