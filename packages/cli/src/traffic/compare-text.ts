/** Text of `sluice compare`. */

import type { AdversaryReport, AlgorithmReport, CompareResult } from 'sluice-traffic';
import { counted, countText, exactTimeText, percentText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import {
  type Column,
  cut,
  LABEL_COLUMNS,
  LINE_COLUMNS,
  labelled,
  tableLines,
  wrapped,
} from './text.ts';

const number = (heading: string): Column => ({ heading, isNumber: true });

const DECISIONS = [
  { heading: 'algorithm' },
  number('admitted'),
  number('denied'),
  number('clients'),
  number('false admits'),
  number('false denials'),
  number('wrong'),
];
const DECISIONS_NOTE =
  'clients: denied at least once. false admits, false denials: decisions that differ from ' +
  'sliding-log, which is exact. wrong: both, as a share of all requests.';

const WINDOWS = [
  { heading: 'algorithm' },
  number('fullest window'),
  number('of limit'),
  number('attacker'),
  number('bytes per key'),
  number('largest'),
];
const WINDOWS_NOTE =
  'fullest window: the most admitted for one client in any sliding window of this log. attacker: ' +
  'the most that a client can get by timing its requests, found by search. bytes per key: mean ' +
  'of the largest state of each client in the memory store, computed from its layout.';

const COSTS = [
  { heading: 'algorithm' },
  number('admitted'),
  number('denied'),
  number('false admits'),
  number('false denials'),
  number('wrong'),
];

const times = (multiple: number): string => `${multiple.toFixed(2)} x`;

const decisionCells = (report: AlgorithmReport, requests: number): readonly string[] => {
  const { algorithm, admitted, denied, deniedClients, falseAdmits, falseDenials } = report;
  const counts = [admitted, denied, deniedClients, falseAdmits, falseDenials].map(countText);
  return [algorithm, ...counts, percentText(falseAdmits + falseDenials, requests)];
};

const windowCells = ({
  algorithm,
  worst,
  adversary,
  memory,
}: AlgorithmReport): readonly string[] => [
  algorithm,
  countText(worst?.count ?? 0),
  times(worst?.multiple ?? 0),
  times(adversary.multiple),
  countText(Math.round(memory.meanBytes)),
  countText(memory.mostBytes),
];

export function compareLines(result: CompareResult, key: string, paint: Paint): readonly string[] {
  const { limit, windowMs, requests, clients, algorithms } = result;
  const rows = algorithms.map((each) => decisionCells(each, requests));
  const keys =
    key === 'client' ? counted(clients, 'client') : `${counted(clients, 'key')} (${key})`;
  return [
    ...labelled('traffic', cut(`${counted(requests, 'request')} from ${keys}`, ROOM)),
    ...labelled('limit', `${countText(limit)} in ${windowText(windowMs)}`, ...costSummary(result)),
    '',
    ...tableLines(DECISIONS, rows),
    ...wrapped(DECISIONS_NOTE).map((line) => paint('dim', line)),
    ...costLines(result),
    '',
    ...tableLines(WINDOWS, algorithms.map(windowCells)),
    ...wrapped(WINDOWS_NOTE).map((line) => paint('dim', line)),
    ...fullestLines(algorithms),
    ...attackLines(algorithms),
  ];
}

const ROOM = LINE_COLUMNS - LABEL_COLUMNS;

/** Returns the total cost and the number of requests above the limit, if the log has costs. */
function costSummary({ costs }: CompareResult): readonly string[] {
  if (costs === undefined) return [];
  const aboveLimit = counted(costs.requestsAboveLimit, 'request');
  return [
    `in units of cost; total cost ${countText(costs.requested)}`,
    ...(costs.requestsAboveLimit > 0
      ? [`${aboveLimit} with a cost above the limit, always denied`]
      : []),
  ];
}

/** Returns the table of decisions in units of cost. */
function costLines({ algorithms, costs: all }: CompareResult): readonly string[] {
  if (all === undefined) return [];
  const rows = algorithms.flatMap(({ algorithm, costs }) => {
    if (costs === undefined) return [];
    const { admitted, denied, falseAdmits, falseDenials } = costs;
    const sums = [admitted, denied, falseAdmits, falseDenials].map(countText);
    return [[algorithm, ...sums, percentText(falseAdmits + falseDenials, all.requested)]];
  });
  return ['', 'In units of cost:', ...tableLines(COSTS, rows)];
}

/** Returns the fullest window of each algorithm that exceeded the limit. */
function fullestLines(algorithms: readonly AlgorithmReport[]): readonly string[] {
  const over = algorithms.filter(({ worst }) => (worst?.multiple ?? 0) > 1);
  if (over.length === 0) return [];
  return [
    '',
    'Windows over the limit in this log:',
    ...tableLines(
      [{ heading: 'algorithm' }, number('count'), { heading: 'at' }, { heading: 'client' }],
      over.map(({ algorithm, worst }) => [
        algorithm,
        countText(worst!.count),
        exactTimeText(worst!.atMs),
        worst!.client,
      ]),
    ),
  ];
}

/** Returns a text such as `100 after 59.999 s, 99 after 60 s`. */
const scheduleText = ({ schedule }: AdversaryReport): string =>
  schedule
    .map(({ afterMs, admitted }) => `${countText(admitted)} after ${exactText(afterMs)}`)
    .join(', ');

/** Returns a time without rounding, because an attack depends on the millisecond. */
const exactText = (ms: number): string => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);

function attackLines(algorithms: readonly AlgorithmReport[]): readonly string[] {
  const over = algorithms.filter(({ adversary }) => adversary.multiple > 1);
  if (over.length === 0) return [];
  return [
    '',
    'Schedule of the attacker, from the start of a clock-aligned window:',
    ...tableLines(
      [{ heading: 'algorithm' }, { heading: 'sends' }],
      over.map(({ algorithm, adversary }) => [algorithm, scheduleText(adversary)]),
    ),
  ];
}
