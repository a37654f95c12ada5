/** HTML report of `sluice plan`. */

import { counted, countText, dateTimeText, limitText, percentText, windowText } from '../format.ts';
import type { NamedCount } from '../replay/bounded-counts.ts';
import type { ClientReport, Impact, PlanChange, PlanResult, PolicyReport } from '../replay/plan.ts';
import { cellBar } from './bars.ts';
import { type Html, type Part, tag } from './html.ts';
import {
  costTile,
  leadOf,
  MAX_ROWS,
  nameText,
  note,
  pageText,
  part,
  type ReportExtras,
  soft,
  type Tile,
  table,
  thresholdsOf,
  tiles,
} from './page.ts';
import { legend, type SeriesClass } from './scale.ts';
import { type Layer, timeChart } from './time-chart.ts';

function headline({ denied, requests, clients }: PlanResult): string {
  if (requests === 0) return 'The log has no requests';
  if (denied.requests === 0) return `None of ${counted(requests, 'request')} would be denied`;
  const deniedClients = `${countText(denied.clients)} of ${counted(clients, 'client')}`;
  const share = percentText(denied.requests, requests);
  return `${deniedClients} would be denied, ${share} of the requests`;
}

function planTiles(result: PlanResult): readonly Tile[] {
  const { requests, clients, denied, ordinaryClients, costs } = result;
  const tile = (id: string, value: number, name: string): Tile => ({
    id,
    value: countText(value),
    name,
  });
  const ordinary = percentText(denied.ordinaryClients, ordinaryClients);
  const share = percentText(denied.clients, clients);
  return [
    tile('requests', requests, 'requests'),
    tile('clients', clients, 'clients'),
    tile(
      'denied-requests',
      denied.requests,
      `requests denied, ${percentText(denied.requests, requests)}`,
    ),
    tile('denied-clients', denied.clients, `clients denied, ${share}`),
    tile('denied-ordinary', denied.ordinaryClients, `ordinary clients denied, ${ordinary}`),
    ...(costs === undefined
      ? []
      : [
          costTile('cost', costs.requested, 'total cost'),
          costTile(
            'denied-cost',
            costs.denied,
            `cost denied, ${percentText(costs.denied, costs.requested)}`,
          ),
          tile(
            'requests-above-limit',
            costs.requestsAboveLimit,
            'requests with a cost above a limit',
          ),
        ]),
  ];
}

type Series = 'requests' | 'denied' | 'shadow' | 'current';

function timePart({ timeline, policies, against }: PlanResult): Html {
  const hasShadow = policies.some(({ shadow }) => shadow);
  const names: [SeriesClass, string][] = [
    ['allowed', 'allowed'],
    ['denied', 'denied'],
  ];
  const layers: Layer<Series>[] = [{ css: 'denied', of: ({ denied }) => denied }];
  if (hasShadow) {
    names.push(['shadow', 'would be denied by a shadow policy']);
    layers.push({ css: 'shadow', of: ({ shadow }) => shadow });
  }
  layers.push({ css: 'allowed', of: ({ requests, denied, shadow }) => requests - denied - shadow });
  if (against) names.push(['current', 'denied by the current policies']);
  const chart = timeChart<Series>({
    id: 'over-time',
    title: 'Requests over time',
    data: timeline,
    layers,
    ...(against && { line: ({ current }) => current }),
    tooltip: ({ requests, denied, shadow, current }) => {
      const parts = [`${counted(requests, 'request')}`, `${countText(denied)} denied`];
      if (hasShadow) parts.push(`${countText(shadow)} in shadow`);
      if (against) parts.push(`${countText(current)} denied by current policies`);
      return parts.join(', ');
    },
  });
  return part('Traffic', `Requests per ${windowText(timeline.bucketMs)}.`, legend(names), chart);
}

const impactCells = ({ requests, clients, ordinaryClients }: Impact): readonly Part[] =>
  [requests, clients, ordinaryClients].map(countText);

const IMPACT_COLUMNS = ['requests denied', 'clients denied', 'of them ordinary'].map(
  (heading) => ({ heading, kind: 'number' }) as const,
);

const COST_REMARK = 'Limits count costs: the cost of the rule, else that of the log, else 1.';

function policyPart(policies: readonly PolicyReport[], hasCosts: boolean): Html {
  const most = Math.max(1, ...policies.map(({ denied }) => denied.requests));
  const rows = policies.map((policy) => {
    const { name, algorithm, shadow, denied } = policy;
    const css = shadow ? 'shadow' : 'denied';
    const bar = cellBar(denied.requests, most, denied.requests, css);
    const label = [nameText(name), shadow && [' ', soft('shadow')]];
    return [label, limitText(policy), algorithm, bar, ...impactCells(denied)];
  });
  const columns = [
    { heading: 'policy', kind: 'name' } as const,
    { heading: 'limit', kind: 'time' } as const,
    { heading: 'algorithm', kind: 'time' } as const,
    { heading: '', kind: 'bars' } as const,
    ...IMPACT_COLUMNS,
  ];
  const remarks = [
    ...(policies.length > 1 ? ['Several policies may deny the same request.'] : []),
    ...(hasCosts ? [COST_REMARK] : []),
  ];
  return part(
    'By policy',
    remarks.length === 0 ? undefined : remarks.join(' '),
    table('policies', columns, rows),
  );
}

const MAX_NAMED = 3;
/** Longer names are truncated, so that the rows of a table stay low. */
const MAX_LISTED_LENGTH = 40;

/**
 * Lists counts by name. If details of the client were dropped, each count is a lower bound, with ≥.
 */
function countList(all: readonly NamedCount[], isComplete: boolean): Part {
  const shown = all.slice(0, MAX_NAMED);
  const left = all.length - shown.length;
  const amount = (each: NamedCount): string => `${isComplete ? '' : '≥ '}${countText(each.count)}`;
  return [
    shown.map((each) =>
      tag('div', {}, nameText(each.name, MAX_LISTED_LENGTH), ' ', soft(amount(each))),
    ),
    left > 0 && tag('div', {}, soft(`and ${countText(left)} more`)),
  ];
}

const CLIENT_COLUMNS = [
  { heading: 'client', kind: 'name' },
  { heading: 'denied, allowed', kind: 'bars' },
  { heading: 'requests', kind: 'number' },
  { heading: 'denied', kind: 'number' },
  { heading: 'share', kind: 'number' },
  { heading: 'first denied', kind: 'time' },
  { heading: 'policies', kind: 'name' },
  { heading: 'routes', kind: 'name' },
] as const;

const isComplete = ({ policies, denied }: ClientReport): boolean =>
  policies.reduce((sum, each) => sum + each.count, 0) >= denied;

function clientTable(id: string, clients: readonly ClientReport[]): Html {
  const shown = clients.slice(0, MAX_ROWS);
  const most = Math.max(1, ...shown.map(({ requests }) => requests));
  const rows = clients.map((each) => [
    [nameText(each.client), !each.ordinary && [' ', soft('heavy')]],
    cellBar(each.requests, most, each.denied),
    countText(each.requests),
    countText(each.denied),
    percentText(each.denied, each.requests),
    dateTimeText(each.firstMs),
    countList(each.policies, isComplete(each)),
    countList(each.routes, isComplete(each)),
  ]);
  return table(id, CLIENT_COLUMNS, rows);
}

function routePart({ topRoutes, denied }: PlanResult): Html {
  const most = topRoutes[0]?.count ?? 1;
  const rows = topRoutes.map(({ name, count: amount }) => [
    nameText(name),
    cellBar(amount, most),
    countText(amount),
    percentText(amount, denied.requests),
  ]);
  const columns = [
    { heading: 'route', kind: 'name' },
    { heading: '', kind: 'bars' },
    { heading: 'denied', kind: 'number' },
    { heading: 'share', kind: 'number' },
  ] as const;
  return part('Denied routes', undefined, table('routes', columns, rows));
}

/**
 * Returns a text such as ` 20 of 1,234 are listed.` if the list is incomplete, otherwise an empty
 * text.
 */
const listed = (clients: readonly ClientReport[], impact: Impact): string =>
  clients.length < impact.clients
    ? ` ${countText(clients.length)} of ${countText(impact.clients)} are listed.`
    : '';

function changePart(change: PlanChange): Html {
  const { newlyDenied, noLongerDenied, requestsLost, requestsWon } = change;
  const numbers = [
    ['newly-denied', newlyDenied.clients, 'clients newly denied'],
    ['no-longer-denied', noLongerDenied.clients, 'clients no longer denied'],
    ['requests-lost', requestsLost, 'requests newly denied'],
    ['requests-won', requestsWon, 'requests newly admitted'],
  ] as const;
  const lists = [
    ['Newly denied', 'newly', change.newlyDeniedClients, newlyDenied],
    ['No longer denied', 'no-longer', change.noLongerDeniedClients, noLongerDenied],
  ] as const;
  return part(
    'Changes',
    'Compared with the current policies.',
    tiles(numbers.map(([id, value, name]) => ({ id, value: countText(value), name }))),
    lists.map(
      ([title, id, clients, impact]) =>
        clients.length > 0 && [
          tag('h3', {}, title),
          clients.length < impact.clients && note(listed(clients, impact)),
          clientTable(id, clients),
        ],
    ),
  );
}

export function planPage(result: PlanResult, extras: ReportExtras): string {
  const { topClients, topRoutes, against, heavyAbove } = result;
  const ordinary =
    'Ordinary clients are all but the heaviest 1%, which have more than ' +
    `${counted(heavyAbove, 'request')} each.`;
  return pageText({
    kind: 'plan',
    headline: headline(result),
    lead: [leadOf(result, extras), thresholdsOf(extras)],
    body: [
      tiles(planTiles(result)),
      timePart(result),
      policyPart(result.policies, result.costs !== undefined),
      topClients.length > 0 &&
        part(
          'Most denied clients',
          `${ordinary}${listed(topClients, result.denied)}`,
          clientTable('top-clients', topClients),
        ),
      topRoutes.length > 0 && routePart(result),
      against && changePart(against),
    ],
  });
}
