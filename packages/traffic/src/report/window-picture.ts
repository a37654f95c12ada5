/**
 * The time that an algorithm looks at: a tick for each request, higher where several came at once
 * or where one costs more, what of them counts, and where that begins and ends.
 */

import { countText, percentText, timeTextBeside } from '../format.ts';
import type { Explanation } from '../replay/explain.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import { AXIS, across, number, type SeriesClass, timeMarks } from './scale.ts';
import { counterOf, windowStartMs } from './state-explanation.ts';

interface Zone {
  readonly fromMs: number;
  readonly toMs: number;
  /** How much of it counts, from 0 to 1. */
  readonly weight: number;
  readonly name?: string;
}

interface Mark {
  readonly timeMs: number;
  readonly name: string;
}

interface Scene {
  readonly fromMs: number;
  readonly toMs: number;
  readonly zones: readonly Zone[];
  readonly marks: readonly Mark[];
  /** Whether what was admitted then counts still. */
  readonly counts: (timeMs: number) => boolean;
}

/** What is seen beside a window, as a part of it. */
const BESIDE = 0.2;

function sceneOf(explained: Explanation): Scene {
  const { algorithm, atMs, windowMs, bucketMs, used, retryAfterMs } = explained;
  const isLast = explained.allowed || explained.tooDear === true;
  const startMs = windowStartMs(explained);
  const endMs = startMs + windowMs;
  const asked = { timeMs: atMs, name: explained.wasAsked ? 'this request' : 'now' };
  const fits = { timeMs: atMs + retryAfterMs, name: 'fits' };
  const again = isLast ? [] : [fits];
  const lastMs = isLast ? atMs : fits.timeMs;
  const seen = (fromMs: number, toMs: number): Pick<Scene, 'fromMs' | 'toMs'> => ({
    fromMs: fromMs - BESIDE * windowMs,
    toMs: Math.max(toMs, lastMs) + (BESIDE * windowMs) / 4,
  });
  const begins = { timeMs: startMs, name: 'begins' };
  switch (algorithm) {
    case 'fixed-window':
      return {
        ...seen(startMs, endMs),
        zones: [{ fromMs: startMs, toMs: endMs, weight: 1, name: `${countText(used)} admitted` }],
        marks: [begins, asked, ...again],
        counts: (timeMs) => timeMs >= startMs,
      };
    case 'sliding-counter': {
      const { current, previous, leftMs } = counterOf(explained);
      const weight = leftMs / windowMs;
      const before = `${countText(previous)}, counts by ${percentText(weight, 1)}`;
      return {
        ...seen(startMs - windowMs, endMs),
        zones: [
          { fromMs: startMs - windowMs, toMs: startMs, weight, name: before },
          { fromMs: startMs, toMs: endMs, weight: 1, name: `${countText(current)} admitted` },
        ],
        marks: [begins, asked, ...again],
        counts: (timeMs) => timeMs >= startMs - windowMs,
      };
    }
    case 'token-bucket':
      return {
        ...seen(atMs - windowMs, atMs),
        zones: [],
        marks: [asked, ...again],
        counts: () => true,
      };
    default: {
      const isBuckets = algorithm === 'sliding-buckets';
      const lastOf = (timeMs: number): number =>
        isBuckets ? (Math.floor(timeMs / bucketMs) + 1) * bucketMs - 1 : timeMs;
      return {
        ...seen(atMs - windowMs, atMs),
        zones: [{ fromMs: atMs - windowMs, toMs: atMs, weight: 1 }],
        marks: [{ timeMs: atMs - windowMs, name: 'edge' }, asked, ...again],
        counts: (timeMs) => lastOf(timeMs) > atMs - windowMs,
      };
    }
  }
}

interface Tick {
  readonly timeMs: number;
  admitted: number;
  denied: number;
}

/** More ticks than that cannot be told apart, and are drawn together. */
const MAX_TICKS = 600;

/** What came at each time; of a service only what it holds is known. */
function ticksOf({ requests, entries, atMs }: Explanation, { fromMs, toMs }: Scene): Tick[] {
  const known = entries.map((each) => ({ timeMs: Math.min(each.atMs, atMs), cost: each.cost }));
  const all =
    requests.length > 0
      ? requests.map(({ timeMs, allowed, cost = 1 }) =>
          allowed ? { timeMs, admitted: cost, denied: 0 } : { timeMs, admitted: 0, denied: cost },
        )
      : known.map(({ timeMs, cost }) => ({ timeMs, admitted: cost, denied: 0 }));
  const shown = all.filter(({ timeMs }) => timeMs >= fromMs && timeMs <= toMs);
  const grainMs =
    new Set(shown.map(({ timeMs }) => timeMs)).size > MAX_TICKS ? (toMs - fromMs) / MAX_TICKS : 1;
  const ticks = new Map<number, Tick>();
  for (const { timeMs, admitted, denied } of shown) {
    const at = Math.floor((timeMs - fromMs) / grainMs);
    const tick = ticks.get(at) ?? { timeMs, admitted: 0, denied: 0 };
    ticks.set(at, tick);
    tick.admitted += admitted;
    tick.denied += denied;
  }
  return [...ticks.values()];
}

const MARK_LINE = 16;
const ADMITTED = 84;
const DENIED = 42;
/** For the names of zones. */
const NAMES = 20;
const MIN_HEIGHT = 5;
const TICK = 2;
/** Further right a name is written to the left of its place. */
const RIGHT = 0.55;

/** Whether anything of what is drawn is known one by one. */
export const hasTicks = ({ requests, entries }: Explanation): boolean =>
  requests.length + entries.length > 0;

export function windowPicture(explained: Explanation): Html {
  const scene = sceneOf(explained);
  const { fromMs, toMs, zones, marks } = scene;
  const place = (timeMs: number): number =>
    Math.min(1, Math.max(0, (timeMs - fromMs) / (toMs - fromMs)));
  const top = marks.length * MARK_LINE + 6;
  const base = top + ADMITTED;
  const bottom = base + DENIED + (zones.some(({ name }) => name !== undefined) ? NAMES : 0);
  const drawn = ticksOf(explained, scene);
  const most = Math.max(1, ...drawn.map(({ admitted, denied }) => Math.max(admitted, denied)));
  const tall = (amount: number, room: number): number =>
    amount === 0 ? 0 : Math.max(MIN_HEIGHT, (amount / most) * (room - 6));
  const ticks = drawn.map((tick) => {
    const x = -TICK / 2;
    const bar = (css: SeriesClass, y: number, height: number): Part =>
      height > 0 &&
      shape('rect', { class: css, x, y: number(y), width: TICK, height: number(height) });
    const up = tall(tick.admitted, ADMITTED);
    const css = scene.counts(tick.timeMs) ? 'allowed' : 'gone';
    return tag(
      'svg',
      { x: across(place(tick.timeMs)), overflow: 'visible' },
      tag('title', {}, tickText(tick, explained.atMs)),
      bar(css, base - up, up),
      bar('denied', base + 1, tall(tick.denied, DENIED)),
    );
  });
  return tag(
    'svg',
    { id: 'window', role: 'img', 'aria-label': 'The window', height: bottom + AXIS },
    zones.map((zone) => zoneShape(zone, place, top, bottom)),
    shape('line', { class: 'edge', x2: '100%', y1: base, y2: base }),
    shape('line', { class: 'grid', x2: '100%', y1: bottom, y2: bottom }),
    marks.map(({ timeMs }, row) => markLine(place(timeMs), row, bottom)),
    ticks,
    // Words come last, so that no line goes through them.
    marks.map((mark, row) => markName(mark, place(mark.timeMs), row, explained.atMs)),
    zones.map((zone) => zoneName(zone, place, bottom)),
    timeMarks(fromMs, toMs - fromMs, bottom + 16),
  );
}

function tickText({ timeMs, admitted, denied }: Tick, atMs: number): string {
  const parts = [
    ...(admitted > 0 ? [`${admitted} admitted`] : []),
    ...(denied > 0 ? [`${denied} denied`] : []),
  ];
  return `${timeTextBeside(timeMs, atMs)}: ${parts.join(', ')}`;
}

/** What counts only in part is as much paler. */
function zoneShape(
  { fromMs, toMs, weight }: Zone,
  place: (timeMs: number) => number,
  top: number,
  bottom: number,
): Html {
  const x = place(fromMs);
  const size = { width: across(place(toMs) - x), height: bottom - top };
  const opacity = number(0.04 + 0.12 * weight);
  return shape('rect', { class: 'zone', x: across(x), y: top, ...size, 'fill-opacity': opacity });
}

const zoneName = ({ fromMs, name }: Zone, place: (timeMs: number) => number, y: number): Part =>
  name !== undefined &&
  tag(
    'svg',
    { x: across(place(fromMs)), overflow: 'visible' },
    tag('text', { x: 6, y: y - 6 }, name),
  );

const rowOf = (row: number): number => 12 + row * MARK_LINE;

function markLine(at: number, row: number, bottom: number): Html {
  const x = across(at);
  return shape('line', { class: 'dashed', x1: x, x2: x, y1: rowOf(row) - 9, y2: bottom });
}

function markName(mark: Mark, at: number, row: number, atMs: number): Html {
  const side = at > RIGHT ? { x: -6, 'text-anchor': 'end' } : { x: 6, 'text-anchor': 'start' };
  const name = `${mark.name} ${timeTextBeside(mark.timeMs, atMs)}`;
  const label = tag('text', { class: 'strong', y: rowOf(row), ...side }, name);
  return tag('svg', { x: across(at), overflow: 'visible' }, label);
}

export interface SumBar {
  /** What counts already, and what this request adds. */
  readonly used: number;
  readonly cost: number;
  readonly most: number;
  readonly isOver: boolean;
  /** `the limit, 30` */
  readonly name: string;
}

const BAR_TOP = 22;
const BAR = 14;

/** What counts and what is asked for, beside what there is. */
export function sumBar({ used, cost, most, isOver, name }: SumBar): Html {
  const end = 1.12 * Math.max(most, used + cost);
  const bar = (css: string, width: string | number): Html =>
    shape('rect', { class: css, y: BAR_TOP, width, height: BAR });
  const css = isOver ? 'denied' : 'shadow';
  const limit = across(most / end);
  const label = tag('text', { class: 'strong', x: 4, y: 12, 'text-anchor': 'end' }, name);
  return tag(
    'svg',
    {
      id: 'sum',
      role: 'img',
      'aria-label': `${countText(used)} and ${countText(cost)}`,
      height: 46,
    },
    bar('track', limit),
    used > 0 && bar('allowed', across(used / end)),
    // A cost of one beside a limit of thousands is seen as well.
    tag('svg', { x: across(used / end) }, bar(css, across(cost / end)), bar(css, 3)),
    shape('line', { class: 'dashed', x1: limit, x2: limit, y1: BAR_TOP - 4, y2: BAR_TOP + 20 }),
    tag('svg', { x: limit, overflow: 'visible' }, label),
  );
}
