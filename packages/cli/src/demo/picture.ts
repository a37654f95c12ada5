/** Text of the demo, in lines of at most 80 columns. */
import { countText, durationText, limitText } from 'sluice-traffic/format';
import type { LoadReport } from '../load/load.ts';
import type { Colour, Paint } from '../output.ts';
import { sparkline } from '../top/text.ts';
import type { BoundaryRun, BoundaryState } from './boundary.ts';
import { CLIENT_LIMIT, COMPARED_LIMIT } from './service.ts';

/** An odd number, so that the window boundary and the limit are in the middle column. */
const COLUMNS = 41;
const MIDDLE = (COLUMNS - 1) / 2;
/** Time shown on either side of the boundary. */
const SHOWN_MS = COMPARED_LIMIT.windowMs / 2;
const LABEL_COLUMNS = 14;
const SPARK_COLUMNS = 24;

/** Time that a column of the sparklines stands for. */
export const STEP_MS = 250;

export interface TrafficState {
  readonly report: LoadReport;
  readonly allowed: readonly number[];
  readonly denied: readonly number[];
}

const isAllowed = (status: string): boolean => status.startsWith('2');

export const countOf = ({ statuses }: LoadReport, fits: (status: string) => boolean): number =>
  Object.entries(statuses).reduce((sum, [status, count]) => sum + (fits(status) ? count : 0), 0);

export const allowedOf = (report: LoadReport): number => countOf(report, isAllowed);
export const deniedOf = (report: LoadReport): number =>
  countOf(report, (status) => status === '429');

export const crowdText = (clients: number): string =>
  `${clients} clients, and one abuser that sends as much as all of them together.\n` +
  `Limit per client: ${limitText(CLIENT_LIMIT)}.`;

export function trafficLines(state: TrafficState, paint: Paint): readonly string[] {
  const { report, allowed, denied } = state;
  const most = Math.max(1, ...allowed, ...denied);
  const line = (name: string, counts: readonly number[], total: number, colour: Colour): string => {
    const bars = paint(colour, sparkline(counts, SPARK_COLUMNS, most));
    return `  ${name.padEnd(LABEL_COLUMNS)}${bars} ${countText(total).padStart(7)}`;
  };
  const first = report.firstDeniedMs;
  const since = first === undefined ? '' : `   first after ${durationText(first)}`;
  const lines = [
    line('allowed', allowed, allowedOf(report), 'green'),
    line('denied', denied, deniedOf(report), 'red') + since,
  ];
  const [worst] = report.denied;
  const who =
    worst === undefined
      ? 'none yet'
      : `${worst.client}, ${countText(worst.denied)} of ${countText(worst.sent)}`;
  return [...lines, `  ${'most denied'.padEnd(LABEL_COLUMNS)}${who}`];
}

export function summaryLines(report: LoadReport): readonly string[] {
  const { responses, tookMs, firstDeniedMs, denied: clients } = report;
  const denied = deniedOf(report);
  const first =
    firstDeniedMs === undefined ? '' : `, the first one after ${durationText(firstDeniedMs)}`;
  const counts = `${countText(allowedOf(report))} allowed, ${countText(denied)} denied${first}`;
  const lines = [`${countText(responses)} requests in ${durationText(tookMs)}: ${counts}.`];
  const [worst] = clients;
  if (worst === undefined) return lines;
  const share = worst.denied === denied ? 'All' : countText(worst.denied);
  return [...lines, `${share} denied requests came from ${worst.client}.`];
}

export const boundaryHeading = (): string => {
  const { limit } = COMPARED_LIMIT;
  const bursts = `${limit} calls just before a window boundary, ${limit} just after`;
  return `Limit: ${limitText(COMPARED_LIMIT)}. ${bursts}.`;
};

const columnOf = (sinceMs: number): number =>
  Math.min(COLUMNS - 1, Math.max(0, Math.round(MIDDLE + (sinceMs / SHOWN_MS) * MIDDLE)));

/**
 * Draws the time around the boundary, with both bursts and, while the demo runs, the current time.
 */
function timeline(run: BoundaryRun, nowMs: number | undefined, paint: Paint): string {
  const cells = Array.from({ length: COLUMNS }, () => paint('dim', '·'));
  cells[MIDDLE] = paint('dim', '│');
  if (nowMs !== undefined && nowMs <= SHOWN_MS) cells[columnOf(nowMs)] = paint('bold', '▏');
  for (const side of [0, 1] as const) {
    const atMs = run.atMs[side];
    if (atMs === undefined) continue;
    cells[columnOf(atMs)] = run.passed[side] > 0 ? paint('green', '█') : paint('red', 'x');
  }
  return cells.join('');
}

/** Draws all admitted calls as a bar, with the limit in the middle. */
function bar(run: BoundaryRun, paint: Paint): string {
  const passed = run.passed[0] + run.passed[1];
  const filled = Math.round((passed / COMPARED_LIMIT.limit) * MIDDLE);
  const within = Math.min(filled, MIDDLE);
  const over = filled - within;
  return (
    paint('green', '█'.repeat(within)) +
    ' '.repeat(MIDDLE - within) +
    paint('bold', '┃') +
    paint('red', '█'.repeat(over)) +
    ' '.repeat(Math.max(0, MIDDLE - over))
  );
}

function resultText(run: BoundaryRun, paint: Paint): string {
  const passed = run.passed[0] + run.passed[1];
  if (run.sent[1] < COMPARED_LIMIT.limit) return `${passed} so far`;
  const times = passed / COMPARED_LIMIT.limit;
  if (times > 1) return paint('red', `${passed}: ${times} x the limit`);
  return paint('green', `${passed}: within the limit`);
}

function retryLines(run: BoundaryRun, paint: Paint): readonly string[] {
  if (run.retryAfterMs === undefined) return [];
  const retry = `retry after ${countText(run.retryAfterMs)} ms`;
  const result = run.retryAllowed ? paint('green', 'allowed') : paint('red', 'denied');
  const done = run.retryAllowed === undefined ? '' : `: ${result}`;
  return [`  ${'denied calls'.padEnd(LABEL_COLUMNS)}${retry}${done}`];
}

/**
 * Draws the results of both algorithms. `nowMs` is the time to mark as current, or undefined after
 * the demo.
 */
export function boundaryLines(
  { boundaryMs, runs }: BoundaryState,
  nowMs: number | undefined,
  paint: Paint,
): readonly string[] {
  const sinceMs = nowMs === undefined ? undefined : nowMs - boundaryMs;
  return runs.flatMap((run) => [
    `  ${run.algorithm.padEnd(LABEL_COLUMNS)}${timeline(run, sinceMs, paint)}  ` +
      `${run.passed[0]} before, ${run.passed[1]} after`,
    `  ${'admitted'.padEnd(LABEL_COLUMNS)}${bar(run, paint)}  ${resultText(run, paint)}`,
    ...retryLines(run, paint),
  ]);
}
