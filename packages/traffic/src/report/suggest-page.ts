/** The page of a suggestion: for each window, whom which limit would touch, and the one to take. */

import { counted, countText, limitText, percentText, windowText } from '../format.ts';
import type { LimitReport, SuggestResult, WindowReport } from '../replay/suggest.ts';
import { cellBar } from './bars.ts';
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

const touchedBy = ({ proposed, limits }: WindowReport): number =>
  limits.find(({ limit }) => limit === proposed)?.clients ?? 0;

const LIMIT_COLUMNS = [
  { heading: 'limit', kind: 'time' },
  { heading: 'clients touched', kind: 'number' },
  { heading: 'part', kind: 'number' },
  { heading: 'requests denied', kind: 'number' },
  { heading: 'part', kind: 'number' },
] as const;

/** With costs there is one more, and less room for each. */
const COST_COLUMNS = [
  ...LIMIT_COLUMNS.slice(0, 3),
  { heading: 'denied', kind: 'number' },
  { heading: 'part', kind: 'number' },
  { heading: 'of cost', kind: 'number' },
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
    title: `Clients that ask for more than a limit in ${windowText(windowMs)}`,
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

function overviewPart({ windows, clients }: SuggestResult): Html {
  const most = Math.max(1, ...windows.map(touchedBy));
  const rows = windows.map((each) => [
    windowText(each.windowMs),
    countText(each.mostAsked),
    countText(each.knee),
    tag('b', {}, countText(each.proposed)),
    cellBar(touchedBy(each), most),
    countText(touchedBy(each)),
    percentText(touchedBy(each), clients),
  ]);
  const columns = [
    { heading: 'window' },
    { heading: 'most asked', kind: 'number' },
    { heading: 'knee', kind: 'number' },
    { heading: 'proposed', kind: 'number' },
    { heading: 'touches', kind: 'bars' },
    { heading: 'clients', kind: 'number' },
    { heading: 'part', kind: 'number' },
  ] as const;
  const remark =
    'The knee is where a larger limit stops sparing many clients. Proposed is twice that, or ' +
    'what spares all but 1% of the clients if that is more, rounded up.';
  return part('All windows', remark, table('windows', columns, rows));
}

const folded = (window: WindowReport): Html => {
  const { proposed: limit, windowMs } = window;
  const title = tag('summary', {}, limitText({ limit, windowMs }));
  return tag('details', {}, title, windowBody(window));
};

const filePart = (text: string): Html =>
  part(
    'As a file',
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
  'All limits, and what is asked for, are in units of cost. A request that costs more than a ' +
  'limit is denied by it in any case.';

export function suggestPage(result: SuggestResult, extras: ReportExtras): string {
  const { windows, proposed, clients, requests, leftOutMs, costs } = result;
  const chosen = windows.find(({ windowMs }) => windowMs === proposed.windowMs) ?? windows[0];
  const others = windows.filter((each) => each !== chosen);
  const who = `${countText(touchedBy(chosen))} of ${counted(clients, 'client')}`;
  const curve =
    'How many clients ask for more than each limit. Limits double with equal steps to the right.';
  const remark = costs === undefined ? curve : `${curve} ${COST_REMARK}`;
  return pageText({
    kind: 'suggest',
    headline: `${limitText(proposed)} would touch ${who}`,
    lead: leadOf(result, extras),
    body: [
      tiles([
        { id: 'proposed', value: limitText(proposed), name: 'proposed' },
        { id: 'requests', value: countText(requests), name: 'requests' },
        { id: 'clients', value: countText(clients), name: 'clients' },
        { id: 'most-asked', value: countText(chosen.mostAsked), name: 'most asked by a client' },
        ...(costs === undefined
          ? []
          : [
              costTile('cost', costs.asked, 'cost of all requests'),
              costTile('dearest', costs.dearest, 'the most that one costs'),
            ]),
      ]),
      part(`In ${windowText(chosen.windowMs)}`, remark, windowBody(chosen)),
      overviewPart(result),
      others.length > 0 && part('The other windows', undefined, others.map(folded)),
      leftOutMs.length > 0 &&
        note(`Left out, with too much traffic to hold: ${leftOutMs.map(windowText).join(', ')}.`),
      extras.policy !== undefined && filePart(extras.policy),
    ],
  });
}
