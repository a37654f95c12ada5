/** HTML report of `sluice suggest`. */

import { counted, countText, limitText, percentText, windowText } from '../format.ts';
import type { LimitReport, SuggestResult, WindowReport } from '../replay/suggest.ts';
import { curveChart } from './curve-chart.ts';
import { type Html, html, type Part, tag } from './html.ts';
import {
  costTile,
  leadOf,
  note,
  pageText,
  part,
  type ReportExtras,
  soft,
  table,
  tiles,
} from './page.ts';

const clientsDenied = ({ proposed, limits }: WindowReport): number =>
  limits.find(({ limit }) => limit === proposed)?.clients ?? 0;

const LIMIT_COLUMNS = [
  { heading: 'limit', kind: 'time' },
  { heading: 'clients denied', kind: 'number' },
  { heading: 'share', kind: 'number' },
  { heading: 'requests denied', kind: 'number' },
  { heading: 'share', kind: 'number' },
] as const;

/** Columns for a log with costs. Some headings are shorter, because there is one more column. */
const COST_COLUMNS = [
  ...LIMIT_COLUMNS.slice(0, 3),
  { heading: 'requests', kind: 'number' },
  { heading: 'share', kind: 'number' },
  { heading: 'cost', kind: 'number' },
] as const;

function limitRow(each: LimitReport, { knee, proposed }: WindowReport): readonly Part[] {
  const names = [each.limit === knee && 'knee', each.limit === proposed && 'proposed'];
  return [
    [countText(each.limit), ' ', soft(names.filter(Boolean).join(', '))],
    countText(each.clients),
    percentText(each.clientShare, 1),
    countText(each.deniedRequests),
    percentText(each.requestShare, 1),
    ...(each.costShare === undefined ? [] : [percentText(each.costShare, 1)]),
  ];
}

function windowBody(window: WindowReport): Html {
  const { windowMs, knee, proposed, curve, limits } = window;
  const chart = curveChart({
    id: `curve-${windowMs}`,
    title: `Clients denied by a limit per ${windowText(windowMs)}`,
    points: curve,
    marks: [
      { limit: knee, name: 'knee' },
      { limit: proposed, name: 'proposed' },
    ],
  });
  const rows = limits.map((each) => limitRow(each, window));
  const hasCosts = limits.some(({ costShare }) => costShare !== undefined);
  const columns = hasCosts ? COST_COLUMNS : LIMIT_COLUMNS;
  const list = table(`limits-${windowMs}`, columns, rows);
  return tag('div', { class: 'beside' }, tag('div', {}, chart), tag('div', {}, list));
}

function overviewPart({ windows, clients, costs }: SuggestResult): Html {
  const rows = windows.map((each) => [
    windowText(each.windowMs),
    countText(each.peak),
    countText(each.knee),
    tag('b', {}, countText(each.proposed)),
    countText(clientsDenied(each)),
    percentText(clientsDenied(each), clients),
  ]);
  const columns = [
    { heading: 'window' },
    { heading: 'peak', kind: 'number' },
    { heading: 'knee', kind: 'number' },
    { heading: 'proposed', kind: 'number' },
    { heading: 'clients denied', kind: 'number' },
    { heading: 'share', kind: 'number' },
  ] as const;
  const peak = costs === undefined ? 'the most requests' : 'the highest cost';
  const remark =
    `peak: ${peak} of one client in a window. knee: the limit above which a higher limit helps ` +
    'few more clients. proposed: twice the knee, or the limit that denies at most 1% of the ' +
    'clients if that is higher, rounded up.';
  return part('All windows', remark, table('windows', columns, rows));
}

const collapsedPart = (window: WindowReport): Html => {
  const { proposed: limit, windowMs } = window;
  const title = tag('summary', {}, limitText({ limit, windowMs }));
  return tag('details', {}, title, windowBody(window));
};

const filePart = (text: string): Html =>
  part(
    'Configuration file',
    undefined,
    tag(
      'pre',
      {},
      text
        .trimEnd()
        .split('\n')
        .map((line) => html`${line}\n`),
    ),
  );

const COST_REMARK =
  'Limits and peaks are in units of cost. A request that costs more than the limit is always ' +
  'denied.';

export function suggestPage(result: SuggestResult, extras: ReportExtras): string {
  const { windows, proposed, clients, requests, leftOutMs, costs } = result;
  const chosen = windows.find(({ windowMs }) => windowMs === proposed.windowMs) ?? windows[0];
  const others = windows.filter((each) => each !== chosen);
  const deniedClients = `${countText(clientsDenied(chosen))} of ${counted(clients, 'client')}`;
  const curve =
    'Clients that each limit would deny at least once (vertical), by limit (horizontal, ' +
    'logarithmic scale).';
  const most = costs === undefined ? 'most requests' : 'highest cost';
  const remark = costs === undefined ? curve : `${curve} ${COST_REMARK}`;
  return pageText({
    kind: 'suggest',
    headline: `A limit of ${limitText(proposed)} would deny ${deniedClients}`,
    lead: [leadOf(result, extras), extras.advice !== undefined && tag('p', {}, extras.advice)],
    body: [
      tiles([
        {
          id: 'proposed',
          value: limitText(proposed),
          name: costs === undefined ? 'proposed' : 'proposed, in units of cost',
        },
        { id: 'requests', value: countText(requests), name: 'requests' },
        { id: 'clients', value: countText(clients), name: 'clients' },
        {
          id: 'peak',
          value: countText(chosen.peak),
          name: `${most} of one client in ${windowText(chosen.windowMs)}`,
        },
        ...(costs === undefined
          ? []
          : [
              costTile('cost', costs.requested, 'total cost'),
              costTile('highest-cost', costs.highest, 'highest cost of a request'),
            ]),
      ]),
      part(`Limit per ${windowText(chosen.windowMs)}`, remark, windowBody(chosen)),
      overviewPart(result),
      others.length > 0 && part('Other windows', undefined, others.map(collapsedPart)),
      leftOutMs.length > 0 &&
        note(`Windows omitted because of memory: ${leftOutMs.map(windowText).join(', ')}.`),
      extras.policy !== undefined && filePart(extras.policy),
    ],
  });
}
