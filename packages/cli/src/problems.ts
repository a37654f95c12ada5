/** Formats configuration problems, with the source line on a terminal. */
import { readFileSync } from 'node:fs';
import { type ConfigProblem, problemText } from 'sluice-server/configured';
import { type Paint, visible } from './output.ts';

/** Longer source lines are truncated to this width. */
const FRAME_COLUMNS = 76;

/**
 * Returns lines such as `limits.yaml:3:14: Expected ...`, each after a label such as `error: `.
 * With `frames`, the source line and a caret below the column follow each problem.
 */
export function problemLines(
  problems: readonly ConfigProblem[],
  frames: boolean,
  paint: Paint,
  label = '',
): readonly string[] {
  const linesOf = new Map<string, readonly string[]>();
  return problems.flatMap((problem) => {
    const text = `${label}${visible(problemText(problem))}`;
    if (!frames) return [text];
    const { file } = problem;
    if (!linesOf.has(file)) linesOf.set(file, readLines(file));
    return [paint('bold', text), ...frameOf(problem, linesOf.get(file)!, paint)];
  });
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/);
  } catch {
    return [];
  }
}

function frameOf(
  { line, column }: ConfigProblem,
  lines: readonly string[],
  paint: Paint,
): readonly string[] {
  const whole = lines[line - 1];
  if (whole === undefined || whole.trim() === '') return [];
  const start = Math.max(0, column - FRAME_COLUMNS);
  const shown = visible(whole.slice(start, start + FRAME_COLUMNS).replaceAll('\t', ' '));
  const before = visible(whole.slice(start, column - 1).replaceAll('\t', ' ')).length;
  const number = String(line);
  const gap = ' '.repeat(number.length);
  return [
    `  ${paint('dim', `${number} |`)} ${shown}`,
    `  ${gap} ${paint('dim', '|')} ${' '.repeat(before)}${paint('red', '^')}`,
  ];
}
