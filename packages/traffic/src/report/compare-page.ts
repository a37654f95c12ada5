/** HTML report of `sluice compare`. */

import { counted, countText, limitText, multipleText, percentText, windowText } from '../format.ts';
import type { AlgorithmReport, CompareResult } from '../replay/compare.ts';
import { type BarGroup, multipleChart } from './bars.ts';
import { type Html, type Part, tag } from './html.ts';
import {
  costTile,
  leadOf,
  nameText,
  pageText,
  part,
  type ReportExtras,
  soft,
  table,
  tiles,
} from './page.ts';
import { legend, niceEnd } from './scale.ts';
import { bucketsOf, timeChart } from './time-chart.ts';

function headline(result: CompareResult): string {
  const limit = limitText(result);
  if (result.requests === 0)
    return `Five algorithms with a limit of ${limit}: the log has no requests`;
  const multipleOf = ({ worst }: AlgorithmReport): number => worst?.multiple ?? 0;
  const [worst] = [...result.algorithms].sort((a, b) => multipleOf(b) - multipleOf(a));
  if (worst === undefined || multipleOf(worst) <= 1) {
    return `With a limit of ${limit}, no algorithm exceeded it in any window of this log`;
  }
  const most = multipleText(multipleOf(worst));
  return `With a limit of ${limit}, ${worst.algorithm} admitted ${most} the limit in one window`;
}

const barsOf = ({ algorithm, worst, adversary }: AlgorithmReport): BarGroup => {
  const { multiple, count: most } = worst ?? { multiple: 0, count: 0 };
  const text = (value: number, amount: number): string =>
    `${multipleText(value)} (${countText(amount)})`;
  return {
    name: algorithm,
    bars: [
      {
        name: 'this log',
        css: multiple > 1 ? 'denied' : 'allowed',
        multiple,
        text: text(multiple, most),
      },
      {
        name: 'attacker',
        css: 'shadow',
        multiple: adversary.multiple,
        text: text(adversary.multiple, adversary.count),
      },
    ],
  };
};

function worstPart({ algorithms, limit, windowMs }: CompareResult): Html {
  const names = legend([
    ['allowed', 'this log'],
    ['denied', 'this log, over the limit'],
    ['shadow', 'attacker that times its requests'],
  ]);
  const chart = multipleChart('worst', 'Fullest window', algorithms.map(barsOf));
  const rows = algorithms.map(({ algorithm, worst, adversary }) => [
    algorithm,
    countText(worst?.count ?? 0),
    nameText(worst?.client ?? ''),
    adversary.schedule.map(({ afterMs, admitted }) =>
      tag('div', {}, `${countText(admitted)} after ${afterMs / 1000} s`),
    ),
  ]);
  const columns = [
    { heading: 'algorithm', kind: 'time' },
    { heading: 'most', kind: 'number' },
    { heading: 'client', kind: 'name' },
    { heading: 'schedule of the attacker' },
  ] as const;
  const remark = `No window of ${windowText(windowMs)} may contain more than ${countText(limit)}.`;
  const list = table('worst-windows', columns, rows, true);
  const beside = tag('div', { class: 'beside' }, tag('div', {}, names, chart), list);
  return part('Fullest window', remark, beside);
}

const NUMBERS = [
  ...['admitted', 'denied', 'clients denied', 'false admits', 'false denials', 'wrong'],
  ...['bytes per key', 'largest key'],
];

function decisionPart({ algorithms, requests }: CompareResult): Html {
  const rows = algorithms.map((each) => [
    each.algorithm,
    countText(each.admitted),
    countText(each.denied),
    countText(each.deniedClients),
    countText(each.falseAdmits),
    countText(each.falseDenials),
    percentText(each.falseAdmits + each.falseDenials, requests),
    countText(Math.round(each.memory.meanBytes)),
    countText(each.memory.mostBytes),
  ]);
  const numbers = NUMBERS.map((heading) => ({ heading, kind: 'number' }) as const);
  const remark =
    'Wrong decisions are those that differ from sliding-log, which is exact. bytes per key: mean ' +
    'and largest state of a client in the memory store, computed from its layout.';
  const list = table('decisions', [{ heading: 'algorithm', kind: 'time' }, ...numbers], rows);
  return part('Decisions', remark, list);
}

const COSTS = ['admitted', 'denied', 'false admits', 'false denials', 'wrong'];

/** Returns the table of decisions in units of cost, if the log has costs. */
function costPart({ algorithms, costs: all }: CompareResult): Part {
  if (all === undefined) return undefined;
  const rows = algorithms.flatMap(({ algorithm, costs }) => {
    if (costs === undefined) return [];
    const { admitted, denied, falseAdmits, falseDenials } = costs;
    const sums = [admitted, denied, falseAdmits, falseDenials].map(countText);
    return [[algorithm, ...sums, percentText(falseAdmits + falseDenials, all.requested)]];
  });
  const numbers = COSTS.map((heading) => ({ heading, kind: 'number' }) as const);
  const { requestsAboveLimit } = all;
  const aboveLimit =
    requestsAboveLimit === 0
      ? ''
      : ` ${counted(requestsAboveLimit, 'request')} with a cost above the limit, always denied.`;
  const list = table('costs', [{ heading: 'algorithm', kind: 'time' }, ...numbers], rows, true);
  return part('Decisions by cost', `The limit counts cost.${aboveLimit}`, list);
}

/** Returns a chart of the denials of each algorithm. All charts have the same scale. */
function timePart({ algorithms, timeline }: CompareResult): Html {
  const buckets = bucketsOf(timeline);
  const all = buckets.flatMap((counts) => algorithms.map(({ algorithm }) => counts[algorithm]));
  const end = niceEnd(Math.max(0, ...all));
  const charts = algorithms.map(({ algorithm, denied }) => [
    tag('h3', {}, algorithm, ' ', soft(`${denied === 0 ? 'none' : countText(denied)} denied`)),
    denied > 0 &&
      timeChart({
        id: `denied-by-${algorithm}`,
        title: `Denied by ${algorithm} over time`,
        data: timeline,
        layers: [{ css: 'denied', of: (counts) => counts[algorithm] }],
        tooltip: (counts) =>
          `${countText(counts[algorithm])} of ${countText(counts.requests)} denied`,
        height: 56,
        end,
      }),
  ]);
  return part('Denied over time', `Denied requests per ${windowText(timeline.bucketMs)}.`, charts);
}

export function comparePage(result: CompareResult, extras: ReportExtras): string {
  const { requests, clients, costs } = result;
  return pageText({
    kind: 'compare',
    headline: headline(result),
    lead: leadOf(result, extras),
    body: [
      tiles([
        {
          id: 'limit',
          value: limitText(result),
          name: costs === undefined ? 'limit' : 'limit, in units of cost',
        },
        { id: 'requests', value: countText(requests), name: 'requests' },
        { id: 'clients', value: countText(clients), name: 'clients' },
        ...(costs === undefined ? [] : [costTile('cost', costs.requested, 'total cost')]),
      ]),
      worstPart(result),
      decisionPart(result),
      costPart(result),
      timePart(result),
    ],
  });
}
