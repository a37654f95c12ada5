/** Text summary of a load run. */

import { STATUS_CODES } from 'node:http';
import { countText, durationText, percentText } from 'sluice-traffic/format';
import { columns, type Paint, visible } from '../output.ts';
import { isDenial, type LoadReport } from './load.ts';

const MAX_CLIENTS = 5;
/** Shorter delays of sending are not reported, because timers always fire a little late. */
const LATE_MS = 250;

export function loadLines(report: LoadReport, paint: Paint): readonly string[] {
  const { sent, statuses, failures, clients, hasMoreClients } = report;
  const { tookMs, lateMs, firstDeniedMs, denied } = report;
  const perSecond = tookMs > 0 ? Math.round((1000 * sent) / tookMs) : sent;
  const rate = `${countText(perSecond)} per second`;
  const clientCount = `${hasMoreClients ? 'at least ' : ''}${countText(clients)} clients`;
  const rows = Object.entries(statuses).map(([status, count]) => [
    paint(isDenial(Number(status)) ? 'red' : 'green', status.padEnd(8)),
    countText(count).padStart(9),
    percentText(count, sent).padStart(7),
    STATUS_CODES[status] ?? '',
  ]);
  for (const [why, count] of Object.entries(failures)) {
    rows.push([
      paint('yellow', 'failed  '),
      countText(count).padStart(9),
      percentText(count, sent).padStart(7),
      visible(why),
    ]);
  }
  const lines = [
    `sent      ${countText(sent)} requests from ${clientCount} in ${durationText(tookMs)}, ${rate}`,
    ...columns(rows),
  ];
  if (firstDeniedMs !== undefined) {
    lines.push(`First denial after ${durationText(firstDeniedMs)}.`);
  }
  if (lateMs > LATE_MS)
    lines.push(`Sending fell behind: the last request was ${durationText(lateMs)} late.`);
  if (denied.length === 0) return lines;
  const most = denied
    .slice(0, MAX_CLIENTS)
    .map((each) => [
      `  ${visible(each.client)}`,
      `${countText(each.denied)} of ${countText(each.sent)} denied`,
    ]);
  const heading =
    denied.length > MAX_CLIENTS
      ? `Most denied clients, ${MAX_CLIENTS} of ${countText(denied.length)}:`
      : 'Denied clients:';
  return [...lines, '', heading, ...columns(most)];
}
