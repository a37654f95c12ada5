/** Suggestions for misspelt names: the known name with the smallest edit distance. */

/** For longer names, no suggestion is made. */
const MAX_NAME_LENGTH = 64;

/** Returns the closest known name, if at most a third of the letters differ. */
export function closestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const maxEdits = Math.max(1, Math.floor(name.length / 3));
  let best: string | undefined;
  let bestEdits = maxEdits + 1;
  for (const each of known) {
    if (Math.abs(each.length - name.length) >= bestEdits) continue;
    const edits = editDistance(name.toLowerCase(), each.toLowerCase());
    // If all letters differ, the name is not a misspelling.
    if (edits >= Math.max(name.length, each.length)) continue;
    if (edits < bestEdits) [best, bestEdits] = [each, edits];
  }
  return best;
}

/**
 * Returns the Damerau-Levenshtein distance: the number of letters that are missing, added or wrong,
 * plus the number of swapped neighbours.
 */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwap =
        column > 1 &&
        row > 1 &&
        from[row - 1] === to[column - 2] &&
        from[row - 2] === to[column - 1];
      current[column] = Math.min(
        last[column] + 1,
        current[column - 1] + 1,
        last[column - 1] + (isSame ? 0 : 1),
        isSwap ? beforeLast[column - 2] + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, current];
  }
  return last[to.length];
}

/** Returns `; did you mean ...?`, or an empty text if no known name is close. */
export function didYouMean(name: string, known: readonly string[]): string {
  const closest = closestName(name, known);
  return closest === undefined ? '' : `; did you mean \`${closest}\`?`;
}
