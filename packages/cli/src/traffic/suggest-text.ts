/** Text of `sluice suggest`. */

import {
  DENIED_SHARE,
  HEAD_ROOM,
  type LimitReport,
  type SuggestResult,
  type WindowReport,
} from 'sluice-traffic';
import { counted, countText, percentText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import { type Column, labelled, tableLines, wrapped } from './text.ts';

const number = (heading: string): Column => ({ heading, isNumber: true });

const OVERVIEW = [
  number('window'),
  number('peak'),
  number('knee'),
  number('proposed'),
  number('clients denied'),
  number('requests denied'),
];

const kneeNote = (peak: string): string =>
  `peak: ${peak} of one client in a window. knee: the limit above which a higher limit ` +
  `helps few more clients. proposed: ${HEAD_ROOM} times the knee, or the limit that denies at ` +
  'most 1% of the clients if that is higher, rounded up.';

/** With fewer clients than this, 1 % of the clients is less than one client. */
const FEW_CLIENTS = 1 / DENIED_SHARE;
const FEW_NOTE =
  'With fewer than 100 clients, the proposed limits deny none of them. The table below shows how ' +
  'many clients lower limits deny.';

const COST_NOTE =
  'Limits and peaks are in units of cost. A request that costs more than the limit is always ' +
  'denied.';

const limitOf = ({ limits }: WindowReport, limit: number): LimitReport =>
  limits.find((each) => each.limit === limit)!;

const UNITS: Readonly<Record<string, string>> = {
  ...{ '1 s': 'second', '1 min': 'minute', '1 h': 'hour', '1 d': 'day' },
};

/** Returns a unit such as `minute` for a window of one unit, otherwise a text such as `15 min`. */
function perText(windowMs: number): string {
  const text = windowText(windowMs);
  return UNITS[text] ?? text;
}

/** Returns a text such as `Use 40 per minute: 6 of 1,753 clients would be denied.` */
export function adviceText({ proposed, clients, costs }: SuggestResult): string {
  const { limit, windowMs, clients: denied } = proposed;
  const unit = costs === undefined ? '' : 'a cost of ';
  const most = `${unit}${countText(limit)} per ${perText(windowMs)}`;
  const who = `${countText(denied)} of ${counted(clients, 'client')}`;
  return `Use ${most}: ${who} would be denied.`;
}

const share = (count: number, of: number): string =>
  `${countText(count)} (${percentText(count, of)})`;

export function suggestLines(result: SuggestResult, paint: Paint): readonly string[] {
  const { requests, clients, windows, proposed, leftOutMs, costs } = result;
  const rows = windows.map((each) => {
    const { clients: deniedClients, deniedRequests } = limitOf(each, each.proposed);
    return [
      windowText(each.windowMs),
      ...[each.peak, each.knee, each.proposed].map(countText),
      share(deniedClients, clients),
      share(deniedRequests, requests),
    ];
  });
  const left = leftOutMs.map(windowText).join(', ');
  const leftNote = `Windows omitted because of memory: ${left}.`;
  const chosen = windows.find(({ windowMs }) => windowMs === proposed.windowMs)!;
  return [
    ...labelled('traffic', `${counted(requests, 'request')} from ${counted(clients, 'client')}`),
    ...labelled('', ...costLines(costs)),
    '',
    ...tableLines(OVERVIEW, rows),
    ...wrapped(kneeNote(costs === undefined ? 'the most requests' : 'the highest cost')).map(
      (line) => paint('dim', line),
    ),
    ...(clients < FEW_CLIENTS ? wrapped(FEW_NOTE).map((line) => paint('dim', line)) : []),
    ...(costs === undefined ? [] : wrapped(COST_NOTE)),
    ...(leftOutMs.length === 0 ? [] : wrapped(leftNote)),
    '',
    paint(
      'bold',
      `Limits ${costs === undefined ? '' : 'of cost '}per ${windowText(chosen.windowMs)}`,
    ),
    ...curveLines(chosen, result),
  ];
}

function costLines(costs: SuggestResult['costs']): readonly string[] {
  if (costs === undefined) return [];
  const most = `at most ${countText(costs.highest)} per request`;
  return [`total cost ${countText(costs.requested)}, ${most}`];
}

const CURVE = [number('limit'), number('clients denied'), number('requests denied')];

function curveLines(
  { limits, knee, proposed }: WindowReport,
  { clients, requests, costs }: SuggestResult,
): readonly string[] {
  const rows = limits.map(({ limit, clients: deniedClients, deniedRequests, deniedCost = 0 }) => [
    countText(limit),
    share(deniedClients, clients),
    share(deniedRequests, requests),
    ...(costs === undefined ? [] : [share(deniedCost, costs.requested)]),
    [limit === knee ? 'knee' : '', limit === proposed ? 'proposed' : '']
      .filter((mark) => mark !== '')
      .map((mark) => `<- ${mark}`)
      .join(' '),
  ]);
  const cost = costs === undefined ? [] : [number('cost denied')];
  return tableLines([...CURVE, ...cost, { heading: '' }], rows);
}
