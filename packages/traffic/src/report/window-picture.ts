/**
 * Draws the requests of a key in and around the window of its algorithm. A tick stands for the
 * requests at one time, and its height for their number or cost. The time ranges that count against
 * the limit are shaded.
 */

import { countText, percentText, timeTextBeside } from '../format.ts';
import { describeExplanation, type Explanation } from '../replay/explain.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import { AXIS, across, number, type SeriesClass, timeMarks } from './scale.ts';

/** A shaded time range. */
interface Zone {
  readonly fromMs: number;
  readonly toMs: number;
  /** Part of the cost in this range that counts against the limit, from 0 to 1. */
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
  /** Returns true if a request admitted at that time still counts against the limit. */
  readonly counts: (timeMs: number) => boolean;
}

/**
 * Time shown before the window, as a part of the window. A quarter of this time is shown after the
 * window.
 */
const SHARE_BEFORE = 0.2;

function sceneOf(explained: Explanation): Scene {
  const { atMs, windowMs, retryAfterMs } = explained;
  const description = describeExplanation(explained);
  const hasRetry = !explained.allowed && explained.costAboveLimit !== true;
  const current = { timeMs: atMs, name: explained.inLog ? 'this request' : 'now' };
  const retry = hasRetry ? [{ timeMs: atMs + retryAfterMs, name: 'fits' }] : [];
  const lastMs = hasRetry ? atMs + retryAfterMs : atMs;
  const scene = (zones: readonly Zone[], marks: readonly Mark[]): Scene => ({
    fromMs: (zones[0]?.fromMs ?? atMs - windowMs) - SHARE_BEFORE * windowMs,
    toMs: Math.max(zones.at(-1)?.toMs ?? atMs, lastMs) + (SHARE_BEFORE * windowMs) / 4,
    zones,
    marks: [...marks, current, ...retry],
    counts: (timeMs) => timeMs >= description.countsFromMs,
  });
  if (description.shape === 'level') return scene([], []);
  if (description.shape === 'entries') {
    const startMs = atMs - windowMs;
    return scene(
      [{ fromMs: startMs, toMs: atMs, weight: 1 }],
      [{ timeMs: startMs, name: 'start' }],
    );
  }
  const zones = description.windows.map(({ startMs, cost, weight }) => ({
    fromMs: startMs,
    toMs: startMs + windowMs,
    weight,
    name:
      weight === 1
        ? `${countText(cost)} admitted`
        : `${countText(cost)}, weight ${percentText(weight)}`,
  }));
  return scene(zones, [{ timeMs: zones.at(-1)!.fromMs, name: 'window start' }]);
}

interface Tick {
  readonly timeMs: number;
  admitted: number;
  denied: number;
}

/** If there are more ticks, adjacent ticks are merged, because they would overlap. */
const MAX_TICKS = 600;

/**
 * Returns the requests, grouped by time. If the explanation is from a running service, it has no
 * requests but only the entries of the key.
 */
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
/** Height of the zone names. */
const NAMES = 20;
const MIN_HEIGHT = 5;
const TICK = 2;
/** A mark at a position above this share of the width has its label on the left. */
const RIGHT = 0.45;

/** Returns true if the times of single requests are known. */
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
    const css = scene.counts(tick.timeMs) ? 'allowed' : 'expired';
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
    // Draw text last, so that no line crosses it.
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

/** Draws a zone whose opacity increases with its weight. */
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
  /** Cost used before this request. */
  readonly used: number;
  readonly cost: number;
  readonly most: number;
  readonly isOver: boolean;
  /** Label such as `limit, 30`. */
  readonly name: string;
}

const BAR_TOP = 22;
const BAR = 14;

/** Draws a bar of the used and the requested cost, with a mark at the limit. */
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
    // The second bar is 3 px wide, so that a cost of 1 is visible even if the limit is thousands.
    tag('svg', { x: across(used / end) }, bar(css, across(cost / end)), bar(css, 3)),
    shape('line', { class: 'dashed', x1: limit, x2: limit, y1: BAR_TOP - 4, y2: BAR_TOP + 20 }),
    tag('svg', { x: limit, overflow: 'visible' }, label),
  );
}
