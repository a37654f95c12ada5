/** Tables, bars and paragraphs that fit 80 columns. */
import { visible } from '../output.ts';

export const LINE_COLUMNS = 80;

/** Escapes untrusted text and truncates it to a width. */
export function cut(text: string, columns: number): string {
  const shown = visible(text);
  return shown.length <= columns ? shown : `${shown.slice(0, Math.max(0, columns - 1))}…`;
}

export interface Column {
  readonly heading: string;
  /** Numbers are right-aligned and never truncated. */
  readonly isNumber?: boolean;
}

const GAP = '  ';
const MIN_WIDTH = 4;

/** Formats a table of untrusted text. If the table is too wide, truncates its widest columns. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const shown = rows.map((row) => row.map(visible));
  const all = [columns.map(({ heading }) => heading), ...shown];
  const widths = columns.map((_, at) => Math.max(...all.map((row) => row[at].length)));
  const isFixed = columns.map(({ isNumber }) => isNumber === true);
  const room = LINE_COLUMNS - GAP.length * (columns.length - 1);
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    const widest = Math.max(0, ...widths.filter((_, at) => !isFixed[at]));
    if (widest <= MIN_WIDTH) break;
    widths[widths.findIndex((width, at) => width === widest && !isFixed[at])]--;
  }
  const cellOf = (text: string, at: number): string =>
    isFixed[at] ? text.padStart(widths[at]) : cut(text, widths[at]).padEnd(widths[at]);
  return all.map((row) => row.map(cellOf).join(GAP).trimEnd());
}

const BARS = [...'▁▂▃▄▅▆▇█'];
const EMPTY = '·';

/**
 * Draws counts over time as columns. A count of `most` has the full height; by default, the highest
 * count.
 */
export function barsText(counts: readonly number[], columns: number, most?: number): string {
  const joined = fitted(counts, columns);
  const top = most ?? Math.max(...joined);
  return joined
    .map((count) => (count === 0 ? EMPTY : BARS[Math.ceil((count / top) * BARS.length) - 1]))
    .join('');
}

/** Returns at most `columns` counts: sums adjacent counts if there are more. */
export function fitted(counts: readonly number[], columns: number): readonly number[] {
  const each = Math.ceil(counts.length / columns);
  if (each <= 1) return counts;
  const joined = new Array<number>(Math.ceil(counts.length / each)).fill(0);
  for (const [at, count] of counts.entries()) joined[Math.floor(at / each)] += count;
  return joined;
}

/** Wraps text to a width. */
export function wrapped(text: string, columns = LINE_COLUMNS): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = '';
    }
    line = line === '' ? cut(word, columns) : `${line} ${word}`;
  }
  return line === '' ? lines : [...lines, line];
}

/**
 * Returns lines such as `denied 416,122 of 5,000,000 requests`. The label is only on the first
 * line, and the others are indented.
 */
export function labelled(label: string, ...lines: readonly string[]): readonly string[] {
  return lines.map((line, at) => `${(at === 0 ? label : '').padEnd(LABEL_COLUMNS)}${line}`);
}

export const LABEL_COLUMNS = 12;
