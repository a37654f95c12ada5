/** The page of a demo: what happens at a boundary of windows, and what became of the traffic. */
import type { TimelineData } from '../replay/timeline.ts';
import { multipleChart } from './bars.ts';
import { type BoundaryRun, boundaryPicture, passedOf } from './boundary-picture.ts';
import { count, counted, limitText, percent, span, times, wait } from './format.ts';
import { type Html, type Part, tag } from './html.ts';
import { deniedClientsPart, type LoadedClient } from './load-report.ts';
import { note, pageText, part, type Tile, tiles } from './page.ts';
import { legend } from './scale.ts';
import { timeChart } from './time-chart.ts';

export interface DemoResult {
  readonly kind: 'demo';
  readonly url: string;
  readonly tookMs: number;
  readonly requests: number;
  readonly allowed: number;
  readonly denied: number;
  /** Since the start. */
  readonly firstDeniedMs?: number | undefined;
  /** What each client has. */
  readonly each: { readonly limit: number; readonly windowMs: number };
  /** The most denied first. */
  readonly deniedClients: readonly LoadedClient[];
  /** Whether both bursts were decided on their sides of the boundary. */
  readonly isShown: boolean;
  readonly boundary: readonly BoundaryRun[];
  readonly timeline: TimelineData<'allowed' | 'denied'>;
}

function headline({ boundary, isShown, denied, requests }: DemoResult): string {
  if (!isShown) return `${count(denied)} of ${counted(requests, 'request')} were denied`;
  const told = boundary.map((run) => `${run.algorithm} let ${count(passedOf(run))} through`);
  return `Where ${count(boundary[0].limit)} is the limit, ${told.join(', ')}`;
}

function boundaryPart({ boundary, isShown }: DemoResult): Html {
  const [{ limit, windowMs }] = boundary;
  const remark =
    `A limit of ${limitText({ limit, windowMs })}; ${count(limit)} calls just before a boundary ` +
    `of fixed windows, ${count(limit)} just after.`;
  if (!isShown) {
    return part(
      'The boundary',
      remark,
      note('The bursts could not be sent in time, so it was not shown.'),
    );
  }
  const pictures = boundary.map((run) =>
    tag('div', {}, tag('h3', {}, run.algorithm), boundaryPicture(run), promise(run)),
  );
  const groups = boundary.map((run) => {
    const multiple = passedOf(run) / run.limit;
    const css = multiple > 1 ? ('denied' as const) : ('allowed' as const);
    const text = `${times(multiple)} (${count(passedOf(run))})`;
    return { name: run.algorithm, bars: [{ name: 'passed', css, multiple, text }] };
  });
  const names = legend([
    ['allowed', 'passed'],
    ['denied', 'denied'],
  ]);
  return part(
    'The boundary',
    remark,
    names,
    tag('div', { class: 'beside' }, pictures),
    tag('h3', {}, 'Passed in all'),
    multipleChart('passed', 'What passed in all', groups),
  );
}

function promise({ retryAfterMs, cameBack }: BoundaryRun): Part {
  if (retryAfterMs === undefined) return undefined;
  const wasKept = tag(
    'span',
    { class: cameBack ? 'good' : 'bad' },
    cameBack ? 'allowed' : 'denied',
  );
  const came = cameBack === undefined ? '' : ['; came back then: ', wasKept];
  return note(`The rest was told to come back in ${count(retryAfterMs)} ms`, came, '.');
}

function trafficPart({ timeline, each }: DemoResult): Html {
  const chart = timeChart({
    id: 'over-time',
    title: 'Requests over time',
    data: timeline,
    layers: [
      { css: 'denied', of: (counts) => counts.denied },
      { css: 'allowed', of: (counts) => counts.allowed },
    ],
    tooltip: ({ allowed, denied }) => `${count(allowed)} allowed, ${count(denied)} denied`,
  });
  const names = legend([
    ['allowed', 'allowed'],
    ['denied', 'denied'],
  ]);
  const remark = `Each client has ${limitText(each)}. A column is ${span(timeline.bucketMs)}.`;
  return part('The traffic', remark, names, chart);
}

export function demoPage(result: DemoResult): string {
  const { url, tookMs, requests, allowed, denied, firstDeniedMs } = result;
  const all: Tile[] = [
    { id: 'requests', value: count(requests), name: 'requests' },
    { id: 'allowed', value: count(allowed), name: `allowed, ${percent(allowed, requests)}` },
    { id: 'denied', value: count(denied), name: `denied, ${percent(denied, requests)}` },
  ];
  if (firstDeniedMs !== undefined) {
    all.push({ id: 'first', value: wait(firstDeniedMs), name: 'until the first denial' });
  }
  const lead = ['A service at ', tag('span', { class: 'name' }, url), `, ${wait(tookMs)} long.`];
  return pageText({
    kind: 'demo',
    headline: headline(result),
    lead: tag('p', { class: 'soft' }, lead),
    body: [
      boundaryPart(result),
      tiles(all),
      trafficPart(result),
      deniedClientsPart(result.deniedClients),
    ],
  });
}
