/** Measures, truncates and pads text by its width on a terminal. Colour codes have no width. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: a colour code starts with ESC.
const COLOUR = /\u001b\[[\d;]*m/;
const PIECES = new RegExp(`${COLOUR.source}|.`, 'gsu');

/** Characters that take two columns: East Asian characters and emoji. */
const WIDE = new RegExp(
  `[${[
    ...['\\u1100-\\u115f', '\\u2e80-\\ua4cf', '\\uac00-\\ud7a3', '\\uf900-\\ufaff'],
    ...['\\ufe30-\\ufe6f', '\\uff00-\\uff60', '\\uffe0-\\uffe6'],
    ...['\\u{1f300}-\\u{1faff}', '\\u{20000}-\\u{3fffd}'],
  ].join('')}]`,
  'u',
);
const NO_WIDTH = /\p{Mn}|\p{Me}/u;

function columnsOf(piece: string): number {
  if (COLOUR.test(piece) || NO_WIDTH.test(piece)) return 0;
  return WIDE.test(piece) ? 2 : 1;
}

export const widthOf = (text: string): number =>
  (text.match(PIECES) ?? []).reduce((sum, piece) => sum + columnsOf(piece), 0);

/**
 * Truncates text to a width, with `…` at the end. Keeps all colour codes, so that the code that
 * resets a colour is never removed.
 */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = '';
  let used = 0;
  let isFull = false;
  for (const piece of text.match(PIECES) ?? []) {
    const columns = columnsOf(piece);
    if (!isFull && used + columns > width - 1) {
      cut += '…';
      isFull = true;
    }
    if (COLOUR.test(piece) || !isFull) cut += piece;
    used += columns;
  }
  return cut;
}

/** Truncates or pads text to exactly this width. */
export function fitTo(text: string, width: number): string {
  const cut = cutTo(text, width);
  return cut + ' '.repeat(Math.max(0, width - widthOf(cut)));
}

/** Like `fitTo`, but aligns the text to the right. */
export const fitRight = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - widthOf(text))) + cutTo(text, width);

const BARS = [...'▁▂▃▄▅▆▇█'];

/**
 * Draws the newest values as bars, one column each. The value `most` has the full height, and 0 is
 * a space.
 */
export function sparkline(values: readonly number[], width: number, most: number): string {
  const shown = values.slice(-width);
  const bars = shown.map((value) =>
    value <= 0 || most <= 0 ? ' ' : BARS[Math.min(7, Math.ceil((value / most) * 8) - 1)],
  );
  return bars.join('').padStart(width);
}
