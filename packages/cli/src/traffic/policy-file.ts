/** A policy that was found, as a file that the service reads. */

import { loadConfig } from 'sluice-server/configured';
import type { SuggestResult } from 'sluice-traffic';
import { counted, countText, exactTimeText, percentText, windowText } from 'sluice-traffic/format';
import { visible } from '../output.ts';
import { wrapped } from './text.ts';
import { writeWhole } from './whole-file.ts';

const UNITS: readonly [unit: string, ms: number, name: string][] = [
  ['d', 86_400_000, 'perDay'],
  ['h', 3_600_000, 'perHour'],
  ['m', 60_000, 'perMinute'],
  ['s', 1000, 'perSecond'],
  ['ms', 1, 'perMs'],
];

/** As policies write it: `15m`. */
export function durationWord(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0)!;
  return `${ms / unitMs}${unit}`;
}

/** `perMinute`, or `per15m` where there is no word for it. */
const policyName = (windowMs: number): string =>
  UNITS.find(([, unitMs]) => unitMs === windowMs)?.[2] ?? `per${durationWord(windowMs)}`;

/** What the limit counts, if that is costs. */
function costText({ costs }: SuggestResult, columns: readonly string[]): string {
  if (costs === undefined) return '';
  const from = columns.map(visible).join(', ');
  return ` It counts costs, here from the column ${from}; who says no cost asks for 1.`;
}

/** `costColumns` are the columns that had the costs, if there were any. */
export function policyText(result: SuggestResult, costColumns: readonly string[] = []): string {
  const { requests, clients, firstMs, lastMs, windows, proposed } = result;
  const { limit, windowMs } = proposed;
  const limits = windows.find((each) => each.windowMs === windowMs)!.limits;
  const { clients: touched, deniedRequests } = limits.find((each) => each.limit === limit)!;
  const name = policyName(windowMs);
  const comments = wrapped(
    `Made from ${counted(requests, 'request')} of ${counted(clients, 'client')}, ` +
      `${exactTimeText(firstMs)} to ${exactTimeText(lastMs)} UTC: ${countText(limit)} in ` +
      `${windowText(windowMs)} would have touched ${counted(touched, 'client')} ` +
      `(${percentText(touched, clients)}) and denied ${counted(deniedRequests, 'request')} ` +
      `(${percentText(deniedRequests, requests)}).${costText(result, costColumns)}`,
    78,
  );
  return `${comments.map((line) => `# ${line}`).join('\n')}
policies:
  ${name}:
    limit: ${limit}
    window: ${durationWord(windowMs)}
rules:
  - limits:
      - policy: ${name}
`;
}

/** Puts it in its place, whole, and reads it back as the service would. */
export async function writePolicy(path: string, text: string): Promise<void> {
  await writeWhole(path, text);
  await loadConfig([path]);
}
