/** What somebody may have meant: the known word that is the fewest slips away. */

/** Longer words are not worth comparing: nobody misspells those into a known one. */
const MAX_WORD_LENGTH = 64;

/** The nearest word, unless even that is too far away to be a slip. */
export function closestName(word: string, known: readonly string[]): string | undefined {
  if (word.length > MAX_WORD_LENGTH) return undefined;
  const most = Math.max(1, Math.floor(word.length / 3));
  let best: string | undefined;
  let bestSlips = most + 1;
  for (const each of known) {
    if (Math.abs(each.length - word.length) >= bestSlips) continue;
    const slips = slipsBetween(word.toLowerCase(), each.toLowerCase());
    // Where every letter is another one, nothing was misspelt.
    if (slips >= Math.max(word.length, each.length)) continue;
    if (slips < bestSlips) [best, bestSlips] = [each, slips];
  }
  return best;
}

/** How many letters are left out, added, wrong or swapped with their neighbour. */
function slipsBetween(from: string, to: string): number {
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

/** `; did you mean ...?`, or nothing. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = closestName(word, known);
  return near === undefined ? '' : `; did you mean \`${near}\`?`;
}
