/** Writes a suggested policy as a configuration file. */

import { durationCode } from 'sluice/engine';
import { loadConfig } from 'sluice-server/configured';
import type { SuggestResult } from 'sluice-traffic';
import { counted, countText, exactTimeText, percentText, windowText } from 'sluice-traffic/format';
import { visible } from '../output.ts';
import { writeAtomic } from './atomic-file.ts';
import { wrapped } from './text.ts';

const NAMES: Readonly<Record<string, string>> = {
  ...{ '1d': 'perDay', '1h': 'perHour', '1m': 'perMinute', '1s': 'perSecond', '1ms': 'perMs' },
};

/**
 * Returns a name such as `perMinute` for a window of one unit, otherwise a name such as `per15m`.
 */
export function policyName(windowMs: number): string {
  const code = durationCode(windowMs);
  return NAMES[code] ?? `per${code}`;
}

function costText({ costs }: SuggestResult, columns: readonly string[]): string {
  if (costs === undefined) return '';
  const from = columns.map(visible).join(', ');
  return ` It counts costs, from the column ${from}; a request without one costs 1.`;
}

/** Returns the configuration file. `costColumns` are the log columns with costs, if any. */
export function policyText(result: SuggestResult, costColumns: readonly string[] = []): string {
  const { requests, clients, firstMs, lastMs, windows, proposed } = result;
  const { limit, windowMs } = proposed;
  const limits = windows.find((each) => each.windowMs === windowMs)!.limits;
  const { clients: deniedClients, deniedRequests } = limits.find((each) => each.limit === limit)!;
  const name = policyName(windowMs);
  const comments = wrapped(
    `Based on ${counted(requests, 'request')} from ${counted(clients, 'client')}, ` +
      `${exactTimeText(firstMs)} to ${exactTimeText(lastMs)} UTC: ${countText(limit)} in ` +
      `${windowText(windowMs)} would have denied ${counted(deniedClients, 'client')} ` +
      `(${percentText(deniedClients, clients)}) and ${counted(deniedRequests, 'request')} ` +
      `(${percentText(deniedRequests, requests)}).${costText(result, costColumns)}`,
    78,
  );
  return `${comments.map((line) => `# ${line}`).join('\n')}
policies:
  ${name}:
    limit: ${limit}
    window: ${durationCode(windowMs)}
rules:
  - limits:
      - policy: ${name}
`;
}

/** Writes the file atomically and validates it as the service would. */
export async function writePolicy(path: string, text: string): Promise<void> {
  await writeAtomic(path, text);
  await loadConfig([path]);
}
