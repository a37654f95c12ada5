/** Prints results as text or JSON, and writes the HTML report. */
import { Option } from 'commander';
import { htmlReport, type ReportedResult } from 'sluice-traffic';
import { type Output, visible } from '../output.ts';
import { writeAtomic } from './atomic-file.ts';

export const reportOption = (): Option => new Option('--report <file>', 'write an HTML report');

export interface PrintOptions {
  readonly json?: boolean;
}

export interface ReportOptions extends PrintOptions {
  readonly report?: string;
}

/** Prints the result as JSON with `--json`, otherwise as lines. */
export function printResult(
  output: Output,
  { json }: PrintOptions,
  result: object,
  lines: () => readonly string[],
): void {
  if (json) output.printJson(result);
  else for (const line of lines()) output.print(line);
}

/** Writes the HTML report, if requested, then prints the result. */
export async function writeReport(
  output: Output,
  options: ReportOptions,
  result: ReportedResult,
  lines: () => readonly string[],
): Promise<void> {
  const { report, json } = options;
  if (report !== undefined) await writeAtomic(report, htmlReport(result));
  printResult(output, options, result, lines);
  if (report !== undefined && !json) output.print(`\nReport written to ${visible(report)}`);
}
