/** Results as a page. */
import * as traffic from 'sluice-traffic';
import { Failure } from '../output.ts';
import { writeWhole } from './whole-file.ts';

type HtmlReport = (result: object) => string;

export async function writeReport(path: string, result: object): Promise<void> {
  const { htmlReport } = traffic as unknown as { htmlReport?: HtmlReport };
  if (htmlReport === undefined) throw new Failure('This version writes no pages');
  await writeWhole(path, htmlReport(result));
}
