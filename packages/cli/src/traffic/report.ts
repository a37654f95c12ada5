/** Results as a page. */
import { Option } from 'commander';
import { htmlReport, type ReportedResult } from 'sluice-traffic';
import { type Output, visible } from '../output.ts';
import { writeWhole } from './whole-file.ts';

export const reportOption = (): Option =>
  new Option('--report <file>', 'write the result as a page (HTML)');

/** What a command with a page does in the end: the page, and JSON or lines for people. */
export interface ReportOptions {
  readonly report?: string;
  readonly json?: boolean;
}

export const writeReportFile = (path: string, result: ReportedResult): Promise<void> =>
  writeWhole(path, htmlReport(result));

/** Writes the page, if it is wanted, and prints the result. */
export async function writeReport(
  output: Output,
  { report, json }: ReportOptions,
  result: ReportedResult,
  lines: () => readonly string[],
): Promise<void> {
  if (report !== undefined) await writeReportFile(report, result);
  if (json) return output.printJson(result);
  for (const line of lines()) output.print(line);
  if (report !== undefined) output.print(`\nThe page is in ${visible(report)}`);
}
