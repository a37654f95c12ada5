/** Formats the state of a key: usage, reset time, block, and the holds or the entries. */
import { countText, dateTimeText, durationText, windowText } from 'sluice-traffic/format';
import { columns, type Paint, visible } from './output.ts';

interface Entry {
  readonly atMs: number;
  readonly cost: number;
}

interface Hold {
  readonly fence: number;
  readonly cost: number;
  readonly atMs: number;
  readonly expiresAtMs: number;
  readonly label?: string;
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
  /** Entries, oldest first. If there are too many, the service omits the oldest. */
  readonly entries: readonly Entry[];
  /** Number of all entries that count, including those that `entries` omits. */
  readonly entryCount?: number;
  /** Holds of a concurrency limit, in order of expiry. */
  readonly holds?: readonly Hold[];
  /** Units that processes have borrowed. */
  readonly leases?: readonly { readonly units: number; readonly endsAtMs: number }[];
  readonly blockedUntilMs?: number;
  readonly atMs: number;
  readonly override?: { readonly limit: number; readonly reason?: string };
}

const BARS = [...'▁▂▃▄▅▆▇█'];
const LINE_COLUMNS = 60;
const MAX_ROWS = 10;

export function keyLines(report: KeyReport, paint: Paint): readonly string[] {
  const { policy, key, algorithm, limit, windowMs, used, remaining } = report;
  const { resetAfterMs, override, entries, blockedUntilMs, atMs, holds, leases = [] } = report;
  const isConcurrency = algorithm === 'concurrency';
  const window = `${isConcurrency ? 'lease ' : ''}${windowText(windowMs)}`;
  const rows = [
    ['policy', `${visible(policy)} (${algorithm}, ${window})`],
    ['key', visible(key)],
    [
      isConcurrency ? 'held' : 'used',
      `${countText(used)} of ${countText(limit)}, ${countText(remaining)} remaining`,
    ],
    ['resets', resetAfterMs === 0 ? 'now' : `in ${durationText(resetAfterMs)}`],
  ];
  if (leases.length > 0) {
    const units = leases.reduce((sum, lease) => sum + lease.units, 0);
    const processes = leases.length === 1 ? '1 process' : `${countText(leases.length)} processes`;
    rows.push(['lent', `${countText(units)} to ${processes}`]);
  }
  if (blockedUntilMs !== undefined) {
    const wait = durationText(Math.max(0, blockedUntilMs - atMs));
    const text = `until ${dateTimeText(blockedUntilMs)} UTC, for ${wait}`;
    rows.push(['blocked', paint('red', text)]);
  }
  if (override !== undefined) {
    const reason = override.reason === undefined ? '' : ` (${visible(override.reason)})`;
    rows.push(['override', `limit ${countText(override.limit)}${reason}`]);
  }
  const lines = columns(rows.map(([name, text]) => [paint('dim', name.padEnd(8)), text]));
  if (isConcurrency) return [...lines, ...holdLines(holds ?? [], atMs, paint)];
  return entries.length === 0 ? lines : [...lines, '', ...entryLines(report, paint)];
}

/** Lists up to 10 holds, the last to expire first. */
function holdLines(holds: readonly Hold[], nowMs: number, paint: Paint): readonly string[] {
  if (holds.length === 0) return [];
  const rows = holds
    .slice(-MAX_ROWS)
    .reverse()
    .map(({ fence, cost, atMs, expiresAtMs, label = '' }) => [
      `${durationText(Math.max(0, nowMs - atMs))} ago`,
      String(cost),
      `in ${durationText(Math.max(0, expiresAtMs - nowMs))}`,
      String(fence),
      visible(label),
    ]);
  const lines = columns([['held since', 'cost', 'expires', 'fence', 'label'], ...rows]);
  const more = holds.length - rows.length;
  const rest = more > 0 ? [paint('dim', `and ${countText(more)} older`)] : [];
  return ['', ...lines.map((line) => line.trimEnd()), ...rest];
}

/**
 * Returns the current time of the service's clock. A sliding log resets when its newest entry
 * leaves the window, so the current time is the end of that window minus `resetAfterMs`.
 */
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

/**
 * Draws the window as a row of columns. The height of a column is the cost in that part of the
 * window.
 */
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
