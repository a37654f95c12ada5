/** Formats the state of a key: usage, reset time and, for logs, the entries. */
import { countText, durationText, windowText } from 'sluice-traffic/format';
import { columns, type Paint, visible } from './output.ts';

interface Entry {
  readonly atMs: number;
  readonly cost: number;
}

export interface KeyReport {
  readonly policy: string;
  readonly key: string;
  readonly algorithm: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** Oldest first; only the newest if there are too many. */
  readonly entries: readonly Entry[];
  /** Number of entries that count, listed or not. */
  readonly entryCount?: number;
  readonly override?: { readonly limit: number; readonly reason?: string };
}

const BARS = [...'▁▂▃▄▅▆▇█'];
const LINE_COLUMNS = 60;
const MAX_ROWS = 10;

export function keyLines(report: KeyReport, paint: Paint): readonly string[] {
  const { policy, key, algorithm, limit, windowMs, used, remaining } = report;
  const { resetAfterMs, override, entries } = report;
  const rows = [
    ['policy', `${visible(policy)} (${algorithm}, ${windowText(windowMs)})`],
    ['key', visible(key)],
    ['used', `${used} of ${limit}, ${remaining} remaining`],
    ['resets', resetAfterMs === 0 ? 'now' : `in ${durationText(resetAfterMs)}`],
  ];
  if (override !== undefined) {
    const reason = override.reason === undefined ? '' : ` (${visible(override.reason)})`;
    rows.push(['override', `limit ${override.limit}${reason}`]);
  }
  const lines = columns(rows.map(([name, text]) => [paint('dim', name.padEnd(8)), text]));
  return entries.length === 0 ? lines : [...lines, '', ...entryLines(report, paint)];
}

/** Returns the time of the service: a log resets when its newest entry leaves the window. */
const nowOf = ({ entries, windowMs, resetAfterMs }: KeyReport): number =>
  entries[entries.length - 1].atMs + windowMs - resetAfterMs;

function entryLines(report: KeyReport, paint: Paint): readonly string[] {
  const { entries, windowMs, entryCount = entries.length } = report;
  const nowMs = nowOf(report);
  const start = `${windowText(windowMs)} ago`;
  const rows = entries
    .slice(-MAX_ROWS)
    .reverse()
    .map(({ atMs, cost }) => [
      // The time of a sliding-buckets entry is the end of its bucket, which may be in the future.
      atMs > nowMs ? 'current bucket' : `${durationText(nowMs - atMs)} ago`,
      String(cost),
      `in ${durationText(Math.max(0, atMs + windowMs - nowMs))}`,
    ]);
  const lines = [
    paint('green', timeline(entries, nowMs, windowMs)),
    paint('dim', `${start.padEnd(LINE_COLUMNS - 'now'.length)}now`),
    ...(entryCount > entries.length
      ? [paint('dim', `${countText(entries.length)} of ${countText(entryCount)} entries shown`)]
      : []),
    '',
    ...columns([['admitted', 'cost', 'expires'], ...rows]),
  ];
  const more = entryCount - rows.length;
  return more > 0 ? [...lines, paint('dim', `and ${countText(more)} older`)] : lines;
}

/** Draws the cost of each part of the window as a column. */
function timeline(entries: readonly Entry[], nowMs: number, windowMs: number): string {
  const costs = new Array<number>(LINE_COLUMNS).fill(0);
  for (const { atMs, cost } of entries) {
    const at = Math.floor((1 - (nowMs - atMs) / windowMs) * LINE_COLUMNS);
    costs[Math.min(LINE_COLUMNS - 1, Math.max(0, at))] += cost;
  }
  const most = Math.max(...costs);
  return costs
    .map((cost) => (cost === 0 ? '·' : BARS[Math.ceil((cost / most) * BARS.length) - 1]))
    .join('');
}
