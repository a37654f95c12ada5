/** What became of the load, in lines for people. */
import { STATUS_CODES } from 'node:http';
import { isDenial, type LoadReport } from 'sluice-traffic';
import { columns, durationText, numberText, type Paint, visible } from '../output.ts';

const MAX_CLIENTS = 5;
/** A little late is what timers are anyway. */
const LATE_MS = 250;

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`;

export function loadLines(report: LoadReport, paint: Paint): readonly string[] {
  const { sent, statuses, failures, clients, hasMoreClients } = report;
  const { tookMs, lateMs, firstDeniedMs, denied } = report;
  const perSecond = tookMs > 0 ? Math.round((1000 * sent) / tookMs) : sent;
  const rate = `${numberText(perSecond)} a second`;
  const who = `${hasMoreClients ? 'at least ' : ''}${numberText(clients)} clients`;
  const rows = Object.entries(statuses).map(([status, count]) => [
    paint(isDenial(Number(status)) ? 'red' : 'green', status.padEnd(8)),
    numberText(count).padStart(9),
    percent(count, sent).padStart(7),
    STATUS_CODES[status] ?? '',
  ]);
  for (const [why, count] of Object.entries(failures)) {
    rows.push([
      paint('yellow', 'failed  '),
      numberText(count).padStart(9),
      percent(count, sent).padStart(7),
      visible(why),
    ]);
  }
  const lines = [
    `sent      ${numberText(sent)} requests of ${who} in ${durationText(tookMs)}, ${rate}`,
    ...columns(rows),
  ];
  if (firstDeniedMs !== undefined) {
    lines.push(`The first was denied after ${durationText(firstDeniedMs)}.`);
  }
  if (lateMs > LATE_MS)
    lines.push(`It could not keep up: the last was ${durationText(lateMs)} late.`);
  if (denied.length === 0) return lines;
  const most = denied
    .slice(0, MAX_CLIENTS)
    .map((each) => [
      `  ${visible(each.client)}`,
      `${numberText(each.denied)} of ${numberText(each.sent)} denied`,
    ]);
  return [...lines, '', `most denied, of ${numberText(denied.length)}:`, ...columns(most)];
}
