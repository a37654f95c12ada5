/** A policy that was found, as a file that the service reads. */
import { loadConfig } from 'sluice-server/configured';
import type { SuggestResult } from 'sluice-traffic';
import { numberText, windowText } from '../output.ts';
import { countText, percentText, whenText, wrapped } from './text.ts';
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

export function policyText(result: SuggestResult): string {
  const { requests, clients, firstMs, lastMs, windows, proposed } = result;
  const { limit, windowMs } = proposed;
  const limits = windows.find((each) => each.windowMs === windowMs)!.limits;
  const { clients: touched, deniedRequests } = limits.find((each) => each.limit === limit)!;
  const name = policyName(windowMs);
  const comments = wrapped(
    `Made from ${countText(requests, 'request')} of ${countText(clients, 'client')}, ` +
      `${whenText(firstMs)} to ${whenText(lastMs)} UTC: ${numberText(limit)} in ` +
      `${windowText(windowMs)} would have touched ${countText(touched, 'client')} ` +
      `(${percentText(touched, clients)}) and denied ${countText(deniedRequests, 'request')} ` +
      `(${percentText(deniedRequests, requests)}).`,
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
