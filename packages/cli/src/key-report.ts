/** What is held about a key, drawn: how much is used, and for logs when it was. */
import { countText, durationText, windowText } from 'sluice-traffic/format';
import { columns, type Paint, visible } from './output.ts';

interface Entry {
  readonly atMs: number;
  readonly cost: number;
}

/** The part of the service's answer that is shown. */
export interface KeyReport {
  readonly policy: string;
  readonly key: string;
  readonly algorithm: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** Oldest first; the newest of them if there are too many. */
  readonly entries: readonly Entry[];
  /** How many count, listed or not. */
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
    ['policy', `${visible(policy)}, a ${algorithm} of ${windowText(windowMs)}`],
    ['key', visible(key)],
    ['used', `${used} of ${limit}, ${remaining} left`],
    ['as new', resetAfterMs === 0 ? 'now' : `in ${durationText(resetAfterMs)}`],
  ];
  if (override !== undefined) {
    const reason = override.reason === undefined ? '' : ` (${visible(override.reason)})`;
    rows.push(['override', `a limit of ${override.limit}${reason}`]);
  }
  const lines = columns(rows.map(([name, text]) => [paint('dim', name.padEnd(8)), text]));
  return entries.length === 0 ? lines : [...lines, '', ...entryLines(report, paint)];
}

/** A log is as new when its newest entry has left the window, which tells the time over there. */
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
      // An entry of buckets has the time that its bucket ends, which may lie ahead.
      atMs > nowMs ? 'this bucket' : `${durationText(nowMs - atMs)} ago`,
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
    ...columns([['when', 'cost', 'free again'], ...rows]),
  ];
  const more = entryCount - rows.length;
  return more > 0 ? [...lines, paint('dim', `and ${countText(more)} before`)] : lines;
}

/** A column for each part of the window, as high as what was taken in it. */
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
