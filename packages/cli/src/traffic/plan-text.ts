/** Text of `sluice plan`. */

import type { ClientReport, Impact, PlanChange, PlanResult, PolicyReport } from 'sluice-traffic';
import { counted, countText, exactTimeText, percentText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import type { Column } from './text.ts';
import {
  barsText,
  cut,
  fitted,
  LABEL_COLUMNS,
  LINE_COLUMNS,
  labelled,
  tableLines,
  wrapped,
} from './text.ts';

const BAR_COLUMNS = LINE_COLUMNS - LABEL_COLUMNS;

export function planLines(result: PlanResult, top: number, paint: Paint): readonly string[] {
  const { against } = result;
  return [
    ...summaryLines(result, paint),
    '',
    ...policyLines(result.policies),
    ...(result.costs === undefined ? [] : wrapped(COST_NOTE)),
    ...section(
      `Most denied clients${ofAll(result.topClients, result.denied)}`,
      clientLines(result.topClients, top),
      paint,
    ),
    ...section('Denied routes', routeLines(result, top), paint),
    ...(against === undefined ? [] : changeLines(against, result, top, paint)),
  ];
}

/** Returns a text such as `, 20 of 1,234` if the list is incomplete, otherwise an empty text. */
const ofAll = (listed: readonly ClientReport[], { clients }: Impact): string =>
  listed.length < clients ? `, ${countText(listed.length)} of ${countText(clients)}` : '';

/** Returns a heading followed by its lines, or nothing if there are no lines. */
const section = (title: string, lines: readonly string[], paint: Paint): readonly string[] =>
  lines.length === 0 ? [] : ['', paint('bold', title), ...lines];

function summaryLines(result: PlanResult, paint: Paint): readonly string[] {
  const { requests, clients, denied, firstDeniedMs, heavyAbove, timeline, costs } = result;
  const traffic = [
    `${counted(requests, 'request')} from ${counted(clients, 'client')}`,
    ...(costs === undefined ? [] : [`total cost ${countText(costs.requested)}`]),
  ];
  if (denied.requests === 0) {
    return [...labelled('traffic', ...traffic), ...labelled('denied', paint('green', 'none'))];
  }
  const share = percentText(denied.requests, requests);
  const what = `${counted(denied.requests, 'request')} (${share})`;
  const clientShare = percentText(denied.clients, clients);
  const ordinary = `${countText(denied.ordinaryClients)} of them ordinary`;
  const who = `${counted(denied.clients, 'client')} (${clientShare}), ${ordinary}`;
  const most = countText(heavyAbove);
  const rule = `ordinary: all but the heaviest 1% by requests; at most ${most} requests`;
  const first = `first at ${exactTimeText(firstDeniedMs!)}`;
  const columnMs = timeline.bucketMs * Math.ceil(timeline.series.denied.length / BAR_COLUMNS);
  return [
    ...labelled('traffic', ...traffic),
    ...labelled('denied', paint('red', what), ...costLines(costs), who, first),
    ...labelled('', ...wrapped(rule, BAR_COLUMNS).map((line) => paint('dim', line))),
    '',
    ...labelled('requests', barsText(timeline.series.requests, BAR_COLUMNS)),
    ...labelled(
      'denied',
      barsText(
        timeline.series.denied,
        BAR_COLUMNS,
        Math.max(...fitted(timeline.series.requests, BAR_COLUMNS)),
      ),
    ),
    ...labelled('', paint('dim', `1 column = ${windowText(columnMs)}`)),
  ];
}

/**
 * Returns the cost of the denied requests, and the number of requests whose cost exceeds a limit.
 */
function costLines(costs: PlanResult['costs']): readonly string[] {
  if (costs === undefined) return [];
  const { requested, denied, requestsAboveLimit } = costs;
  const aboveLimit = `${counted(requestsAboveLimit, 'request')} with a cost above a limit`;
  return [
    `cost ${countText(denied)} (${percentText(denied, requested)})`,
    ...(requestsAboveLimit === 0 ? [] : [`${aboveLimit}, always denied`]),
  ];
}

const COST_NOTE = 'Limits count costs: the cost of the rule, else that of the log, else 1.';

const impactCells = ({ requests, clients, ordinaryClients }: Impact): readonly string[] =>
  [requests, clients, ordinaryClients].map(countText);

const IMPACT_COLUMNS: readonly Column[] = [
  { heading: 'requests', isNumber: true },
  { heading: 'clients', isNumber: true },
  { heading: 'ordinary', isNumber: true },
];

function policyLines(policies: readonly PolicyReport[]): readonly string[] {
  const rows = policies.map(({ name, limit, windowMs, algorithm, shadow, denied }) => [
    name,
    `${countText(limit)} in ${windowText(windowMs)}`,
    `${algorithm}${shadow ? ', shadow' : ''}`,
    ...impactCells(denied),
  ]);
  const first = ['policy', 'limit', 'algorithm'].map((heading) => ({ heading }));
  const lines = tableLines([...first, ...IMPACT_COLUMNS], rows);
  const hasShadow = policies.some(({ shadow }) => shadow);
  return hasShadow ? [...lines, ...wrapped(SHADOW_NOTE)] : lines;
}

const SHADOW_NOTE = 'shadow: would deny these of the requests that the enforced policies admit.';

function clientLines(clients: readonly ClientReport[], top: number): readonly string[] {
  if (clients.length === 0) return [];
  const rows = clients
    .slice(0, top)
    .map((each) => [
      `${each.client}${each.ordinary ? ' (ordinary)' : ''}`,
      countText(each.denied),
      countText(each.requests),
      exactTimeText(each.firstMs),
      each.policies[0]?.name ?? '',
    ]);
  return tableLines(
    [
      { heading: 'client' },
      { heading: 'denied', isNumber: true },
      { heading: 'of', isNumber: true },
      { heading: 'first at' },
      { heading: 'by' },
    ],
    rows,
  );
}

function routeLines({ topRoutes, denied }: PlanResult, top: number): readonly string[] {
  if (topRoutes.length === 0) return [];
  const rows = topRoutes
    .slice(0, top)
    .map(({ name, count }) => [countText(count), percentText(count, denied.requests), name]);
  return tableLines(
    [
      { heading: 'denied', isNumber: true },
      { heading: 'share', isNumber: true },
      { heading: 'route' },
    ],
    rows,
  );
}

function changeLines(
  change: PlanChange,
  { denied }: PlanResult,
  top: number,
  paint: Paint,
): readonly string[] {
  const { newlyDenied, noLongerDenied, requestsLost, requestsWon } = change;
  const clients = ({ clients: count, ordinaryClients }: Impact): string =>
    `${countText(count)} (${countText(ordinaryClients)} ordinary)`;
  const names = change.policies.map(({ name, limit, windowMs }) =>
    cut(`${name} ${countText(limit)} in ${windowText(windowMs)}`, BAR_COLUMNS),
  );
  return [
    '',
    paint('bold', 'Compared with the current policies'),
    ...labelled('current', ...wrapped(names.join(', '), BAR_COLUMNS)),
    ...labelled(
      'requests',
      `${countText(change.denied.requests)} denied now, ${countText(denied.requests)} planned:`,
      `${countText(requestsLost)} newly denied, ` + `${countText(requestsWon)} newly admitted`,
    ),
    ...labelled(
      'clients',
      `${clients(newlyDenied)} newly denied`,
      `${clients(noLongerDenied)} no longer denied`,
    ),
    ...section(
      `Newly denied clients${ofAll(change.newlyDeniedClients, newlyDenied)}`,
      clientLines(change.newlyDeniedClients, top),
      paint,
    ),
    ...section(
      `No longer denied clients${ofAll(change.noLongerDeniedClients, noLongerDenied)}`,
      clientLines(change.noLongerDeniedClients, top),
      paint,
    ),
  ];
}
