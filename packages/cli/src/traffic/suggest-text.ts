/** Limits that fit, in tables. */

import { HEAD_ROOM, type LimitReport, type SuggestResult, type WindowReport } from 'sluice-traffic';
import { counted, countText, percentText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import { type Column, labelled, tableLines, wrapped } from './text.ts';

const number = (heading: string): Column => ({ heading, isNumber: true });

const OVERVIEW = [
  number('window'),
  number('most asked'),
  number('knee'),
  number('proposed'),
  number('clients touched'),
  number('requests denied'),
];

const KNEE_NOTE =
  'The knee is where raising the limit stops sparing many clients. Proposed is ' +
  `${HEAD_ROOM} times that, ` +
  'or what spares all but 1% of the clients, if that is more, rounded up. A client is ' +
  'touched if it ever asks for more than the limit in a window.';

const COST_NOTE =
  'All limits, and what is asked for, are in units of cost. A request that costs more than a ' +
  'limit is denied by it in any case.';

const limitOf = ({ limits }: WindowReport, limit: number): LimitReport =>
  limits.find((each) => each.limit === limit)!;

const share = (count: number, of: number): string =>
  `${countText(count)} (${percentText(count, of)})`;

export function suggestLines(result: SuggestResult, paint: Paint): readonly string[] {
  const { requests, clients, windows, proposed, leftOutMs, costs } = result;
  const rows = windows.map((each) => {
    const { clients: touched, deniedRequests } = limitOf(each, each.proposed);
    return [
      windowText(each.windowMs),
      ...[each.mostAsked, each.knee, each.proposed].map(countText),
      share(touched, clients),
      share(deniedRequests, requests),
    ];
  });
  const left = leftOutMs.map(windowText).join(', ');
  const leftNote = `Left out, because the log has more requests in them than are held: ${left}.`;
  const chosen = windows.find(({ windowMs }) => windowMs === proposed.windowMs)!;
  return [
    ...labelled('traffic', `${counted(requests, 'request')} of ${counted(clients, 'client')}`),
    ...labelled('', ...costLines(costs)),
    '',
    ...tableLines(OVERVIEW, rows),
    ...wrapped(KNEE_NOTE).map((line) => paint('dim', line)),
    ...(costs === undefined ? [] : wrapped(COST_NOTE)),
    ...(leftOutMs.length === 0 ? [] : wrapped(leftNote)),
    '',
    paint(
      'bold',
      `Limits ${costs === undefined ? '' : 'of cost '}in ${windowText(chosen.windowMs)}`,
    ),
    ...curveLines(chosen, result),
  ];
}

function costLines(costs: SuggestResult['costs']): readonly string[] {
  if (costs === undefined) return [];
  const most = `at most ${countText(costs.dearest)} of one request`;
  return [`a cost of ${countText(costs.asked)} in all, ${most}`];
}

const CURVE = [number('limit'), number('clients touched'), number('requests denied')];

function curveLines(
  { limits, knee, proposed }: WindowReport,
  { clients, requests, costs }: SuggestResult,
): readonly string[] {
  const rows = limits.map(({ limit, clients: touched, deniedRequests, deniedCost = 0 }) => [
    countText(limit),
    share(touched, clients),
    share(deniedRequests, requests),
    ...(costs === undefined ? [] : [share(deniedCost, costs.asked)]),
    [limit === knee ? 'knee' : '', limit === proposed ? 'proposed' : '']
      .filter((mark) => mark !== '')
      .map((mark) => `<- ${mark}`)
      .join(' '),
  ]);
  const cost = costs === undefined ? [] : [number('cost denied')];
  return tableLines([...CURVE, ...cost, { heading: '' }], rows);
}
