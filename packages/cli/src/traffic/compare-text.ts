/** The algorithms side by side, in tables. */

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
  number('let in'),
  number('kept out'),
  number('wrong'),
];
const DECISIONS_NOTE =
  'clients: denied at least once. let in, kept out: decided otherwise than sliding-log, which ' +
  'is exact and runs beside it. wrong: both, of all requests.';

const WINDOWS = [
  { heading: 'algorithm' },
  number('fullest window'),
  number('of the limit'),
  number('attacker'),
  number('bytes a key'),
  number('at most'),
];
const WINDOWS_NOTE =
  'fullest window: the most that any client got into a true window here. attacker: the most that ' +
  'a client gets who knows the algorithm, tried on the engine. bytes a key: what the memory ' +
  'store keeps of a client at its busiest, on average, computed from its layout.';

const COSTS = [
  { heading: 'algorithm' },
  number('admitted'),
  number('denied'),
  number('let in'),
  number('kept out'),
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
  const who = key === 'client' ? counted(clients, 'client') : `${counted(clients, 'key')} (${key})`;
  return [
    ...labelled('traffic', cut(`${counted(requests, 'request')} of ${who}`, ROOM)),
    ...labelled('limit', `${countText(limit)} in ${windowText(windowMs)}`, ...dearLines(result)),
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

/** What the limit counts, where that is costs, and what is above it all by itself. */
function dearLines({ costs }: CompareResult): readonly string[] {
  if (costs === undefined) return [];
  const dear = `${counted(costs.tooDear, 'request')} with a cost above it, which can never pass`;
  return [
    `of cost; all requests cost ${countText(costs.asked)}`,
    ...(costs.tooDear > 0 ? [dear] : []),
  ];
}

/** The decisions again, by what was asked for rather than by how often. */
function costLines({ algorithms, costs: all }: CompareResult): readonly string[] {
  if (all === undefined) return [];
  const rows = algorithms.flatMap(({ algorithm, costs }) => {
    if (costs === undefined) return [];
    const { admitted, denied, falseAdmits, falseDenials } = costs;
    const sums = [admitted, denied, falseAdmits, falseDenials].map(countText);
    return [[algorithm, ...sums, percentText(falseAdmits + falseDenials, all.asked)]];
  });
  return ['', 'The same in cost:', ...tableLines(COSTS, rows)];
}

/** Who had the fullest of all windows, if it was over the limit. */
function fullestLines(algorithms: readonly AlgorithmReport[]): readonly string[] {
  const over = algorithms.filter(({ worst }) => (worst?.multiple ?? 0) > 1);
  if (over.length === 0) return [];
  return [
    '',
    'Over the limit in a true window here:',
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

/** `100 at 59.9 s, 99 at 2 min` */
const scheduleText = ({ schedule }: AdversaryReport): string =>
  schedule
    .map(({ afterMs, admitted }) => `${countText(admitted)} after ${exactText(afterMs)}`)
    .join(', ');

/** Not rounded: an attack depends on the millisecond. */
const exactText = (ms: number): string => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);

function attackLines(algorithms: readonly AlgorithmReport[]): readonly string[] {
  const over = algorithms.filter(({ adversary }) => adversary.multiple > 1);
  if (over.length === 0) return [];
  return [
    '',
    "What the attacker does, counted from the start of one of the clock's windows:",
    ...tableLines(
      [{ heading: 'algorithm' }, { heading: 'sends' }],
      over.map(({ algorithm, adversary }) => [algorithm, scheduleText(adversary)]),
    ),
  ];
}
