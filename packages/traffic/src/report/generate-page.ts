/** The page of generated traffic: its shape over time, its clients, and what became of it. */
import { SHAPES } from '../generate/shapes.ts';
import type { TrafficSettings } from '../generate/traffic.ts';
import type { NamedCount } from '../replay/bounded-counts.ts';
import type { ClientClass, SurveyResult } from '../replay/survey.ts';
import type { TimelineData } from '../replay/timeline.ts';
import { cellBar } from './bars.ts';
import { count, counted, percent, span, wait, whenExactly } from './format.ts';
import { type Html, type Part, tag } from './html.ts';
import { deniedClientsPart, isDenial, type LoadReport } from './load-report.ts';
import { nameText, note, pageText, part, type Tile, table, tiles } from './page.ts';
import { legend } from './scale.ts';
import { timeChart } from './time-chart.ts';

interface Generated {
  readonly kind: 'generate';
  readonly settings: TrafficSettings;
}

/** A log, in a file or on standard output. */
export interface GeneratedLog extends Generated, SurveyResult {
  readonly file: string | undefined;
  readonly format: string;
  readonly bytes: number;
}

/** What was sent to a service, and what that said. */
export interface GeneratedLoad extends Generated, LoadReport {
  readonly url: string;
  readonly timeline: TimelineData<'requests' | 'denied' | 'failed'>;
}

export type GenerateResult = GeneratedLog | GeneratedLoad;

/** A line that makes the same traffic once more. */
function commandOf(result: GenerateResult): string {
  const { shape, seed, requests, clients, durationMs, windowMs, startMs } = result.settings;
  const isLoad = 'url' in result;
  const words = [
    ...['sluice generate', shape, `--seed ${seed}`, `--requests ${requests}`],
    ...[`--clients ${clients}`, `--duration ${durationMs}ms`],
    ...(shape === 'boundary' ? [`--window ${windowMs}ms`] : []),
    ...(isLoad
      ? [`--against ${result.url}`]
      : [`--start ${whenExactly(startMs).replace(' ', 'T')}Z`]),
    ...(!isLoad && result.format !== 'combined' ? [`--format ${result.format}`] : []),
  ];
  return words.join(' ');
}

function settingsPart(result: GenerateResult): Html {
  const { shape, seed, requests, clients, durationMs, startMs, windowMs } = result.settings;
  const rows = [
    ['shape', `${shape}: ${SHAPES[shape].summary}`],
    ['seed', count(seed)],
    ['requests', count(requests)],
    ['ordinary clients', `${count(clients)}; whoever the shape is about comes on top`],
    ['from', whenExactly(startMs)],
    ['for', span(durationMs)],
    ...(shape === 'boundary' ? [['windows', span(windowMs)]] : []),
  ];
  return part(
    'What it was made from',
    'The same seed is the same traffic, on any machine.',
    table('settings', [{ heading: '', kind: 'time' }, { heading: '' }], rows),
    tag('pre', { class: 'command' }, commandOf(result)),
  );
}

const classText = ({ from, to }: ClientClass): string =>
  from === to ? count(from) : `${count(from)} to ${count(to)}`;

function clientsPart({ classes, topClients, isCut, requests }: GeneratedLog): Part {
  if (requests === 0) return undefined;
  const most = Math.max(1, ...classes.map((each) => each.clients));
  const rows = classes.map((each) => [
    classText(each),
    cellBar(each.clients, most, each.clients, 'allowed'),
    count(each.clients),
    percent(each.requests, requests),
  ]);
  const columns = [
    { heading: 'requests each', kind: 'time' },
    { heading: '', kind: 'bars' },
    { heading: 'clients', kind: 'number' },
    { heading: 'part of all', kind: 'number' },
  ] as const;
  const busiest = named('busiest', 'client', topClients, requests, isCut);
  const beside = tag('div', { class: 'beside' }, table('classes', columns, rows), busiest);
  return part('Clients', 'How many have how many requests, and the busiest.', beside);
}

function named(
  id: string,
  heading: string,
  all: readonly NamedCount[],
  requests: number,
  isCut: boolean,
): Html {
  const most = all[0]?.count ?? 1;
  const rows = all.map((each) => [
    nameText(each.name),
    cellBar(each.count, most, each.count, 'allowed'),
    `${isCut ? '≥ ' : ''}${count(each.count)}`,
    percent(each.count, requests),
  ]);
  const columns = [
    { heading, kind: 'name' },
    { heading: '', kind: 'bars' },
    { heading: 'requests', kind: 'number' },
    { heading: 'part', kind: 'number' },
  ] as const;
  return table(id, columns, rows);
}

function logPage(result: GeneratedLog): string {
  const { settings, requests, clients, file, bytes, timeline, firstMs, lastMs } = result;
  const period =
    firstMs === undefined || lastMs === undefined
      ? 'nothing was made'
      : `${whenExactly(firstMs)} to ${whenExactly(lastMs)}`;
  const where = file === undefined ? 'standard output' : tag('span', { class: 'name' }, file);
  const chart = timeChart({
    id: 'over-time',
    title: 'Requests over time',
    data: timeline,
    layers: [{ css: 'allowed', of: (counts) => counts.requests }],
    tooltip: (counts) => counted(counts.requests, 'request'),
  });
  return pageText({
    kind: 'generate',
    headline: `${counted(requests, 'request')} of ${settings.shape} traffic`,
    lead: tag('p', { class: 'soft' }, `${period}, in `, where, ` (${result.format})`),
    body: [
      tiles([
        { id: 'requests', value: count(requests), name: 'requests' },
        { id: 'clients', value: count(clients), name: 'clients, as a service counts them' },
        { id: 'seed', value: count(settings.seed), name: 'seed' },
        { id: 'bytes', value: `${(bytes / 1e6).toFixed(1)} MB`, name: result.format },
      ]),
      part('Over time', `A column is ${span(timeline.bucketMs)}.`, chart),
      clientsPart(result),
      requests > 0 &&
        part(
          'What is asked for',
          undefined,
          named('routes', 'route', result.topRoutes, requests, false),
        ),
      settingsPart(result),
    ],
  });
}

function answersPart({ statuses, failures, sent }: GeneratedLoad): Html {
  const answers = Object.entries(statuses).map(([name, amount]) => ({
    name,
    amount,
    css: isDenial(Number(name)) ? ('denied' as const) : ('allowed' as const),
  }));
  const lost = Object.entries(failures).map(([name, amount]) => ({
    name: `no answer: ${name}`,
    amount,
    css: 'shadow' as const,
  }));
  const rows = [...answers, ...lost].map(({ name, amount, css }) => [
    nameText(name),
    cellBar(amount, sent, amount, css),
    count(amount),
    percent(amount, sent),
  ]);
  const columns = [
    { heading: 'answer', kind: 'name' },
    { heading: '', kind: 'bars' },
    { heading: 'requests', kind: 'number' },
    { heading: 'part', kind: 'number' },
  ] as const;
  return part('Answers', undefined, table('answers', columns, rows));
}

function loadTiles(result: GeneratedLoad, denials: number): readonly Tile[] {
  const { sent, clients, hasMoreClients, tookMs, firstDeniedMs } = result;
  const rate = tookMs > 0 ? Math.round((1000 * sent) / tookMs) : sent;
  return [
    { id: 'sent', value: count(sent), name: `requests sent, ${count(rate)} a second` },
    { id: 'clients', value: `${hasMoreClients ? '≥ ' : ''}${count(clients)}`, name: 'addresses' },
    { id: 'denied', value: count(denials), name: `denied, ${percent(denials, sent)}` },
    ...(firstDeniedMs === undefined
      ? []
      : [{ id: 'first', value: wait(firstDeniedMs), name: 'until the first denial' }]),
  ];
}

function loadPage(result: GeneratedLoad): string {
  const { settings, sent, statuses, lateMs, timeline, tookMs, url } = result;
  const denials = Object.entries(statuses)
    .filter(([status]) => isDenial(Number(status)))
    .reduce((sum, [, amount]) => sum + amount, 0);
  const chart = timeChart({
    id: 'over-time',
    title: 'Answers over time',
    data: timeline,
    layers: [
      { css: 'denied', of: (counts) => counts.denied },
      { css: 'shadow', of: (counts) => counts.failed },
      { css: 'allowed', of: ({ requests, denied, failed }) => requests - denied - failed },
    ],
    tooltip: ({ requests, denied, failed }) =>
      `${counted(requests, 'request')}, ${count(denied)} denied, ${count(failed)} without answer`,
  });
  const names = [
    ['allowed', 'passed'],
    ['denied', 'denied'],
    ['shadow', 'no answer'],
  ] as const;
  return pageText({
    kind: 'generate',
    headline: `${count(denials)} of ${counted(sent, 'request')} of ${settings.shape} were denied`,
    lead: [
      tag(
        'p',
        { class: 'soft' },
        'Sent to ',
        tag('span', { class: 'name' }, url),
        ` in ${wait(tookMs)}`,
      ),
      lateMs > LATE_MS && note(`It could not keep up: the last was ${wait(lateMs)} late.`),
    ],
    body: [
      tiles(loadTiles(result, denials)),
      part('Over time', `A column is ${span(timeline.bucketMs)}.`, legend(names), chart),
      answersPart(result),
      deniedClientsPart(result.denied),
      settingsPart(result),
    ],
  });
}

/** A little late is what timers are anyway. */
const LATE_MS = 250;

export const generatePage = (result: GenerateResult): string =>
  'url' in result ? loadPage(result) : logPage(result);
