/** Results as a page. */
import { htmlReport } from 'sluice-traffic';
import { writeWhole } from './whole-file.ts';

export const writeReport = (
  path: string,
  result: Parameters<typeof htmlReport>[0],
): Promise<void> => writeWhole(path, htmlReport(result));
