/**
 * Draws the picture of an algorithm for the documentation: one client takes all remaining capacity
 * every second, starting one second before a window boundary. Shows the calls admitted per second,
 * and their sum over the last window.
 */
import { definePolicy, memoryStore, type WindowAlgorithmName } from 'sluice';
import { countText, multipleText } from '../format.ts';
import { Html, html, type Part, shape, tag } from './html.ts';
import { number } from './scale.ts';

const LIMIT = 100;
const WINDOW_S = 60;
const SHOWN_S = 3 * WINDOW_S;
/** The first call is one second before the first window boundary. */
const FIRST_S = WINDOW_S - 1;

export interface Second {
  /** Calls admitted in this second. */
  readonly admitted: number;
  /** Calls admitted in the last window, including this second. */
  readonly inWindow: number;
}

/** Simulates a client that always takes all remaining capacity. */
export function simulateGreedyClient(algorithm: WindowAlgorithmName): readonly Second[] {
  const policy = definePolicy(algorithm, { limit: LIMIT, window: 1000 * WINDOW_S, algorithm });
  const params = policy.params!;
  const table = memoryStore().open(policy);
  const admitted: number[] = [];
  return Array.from({ length: SHOWN_S + 1 }, (_, second) => {
    // Second 0 is the start of a clock-aligned window. Which window does not matter.
    const nowMs = 1000 * (100 * WINDOW_S + second);
    const { remaining } = table.peekSync(params, 'client', 0, nowMs);
    const cost = second < FIRST_S ? 0 : remaining;
    if (cost > 0) table.takeSync(params, 'client', cost, nowMs);
    admitted.push(cost);
    const inWindow = admitted.slice(-WINDOW_S).reduce((sum, each) => sum + each, 0);
    return { admitted: cost, inWindow };
  });
}

const WIDTH = 720;
const LEFT = 44;
const RIGHT = 20;
const PLOT_TOP = 50;
const PLOT = 150;
const BASE = PLOT_TOP + PLOT;
const CALLS_TOP = BASE + 30;
const CALLS = 56;
const CALLS_BASE = CALLS_TOP + CALLS;
const HEIGHT = CALLS_BASE + 26;
const MOST = 2 * LIMIT;

const x = (second: number): number => LEFT + (second / SHOWN_S) * (WIDTH - LEFT - RIGHT);
const y = (value: number): number => BASE - (value / MOST) * PLOT;

const STYLE = `
svg { --card: #ffffff; --ink: #17160f; --soft: #5d5b54; --line: #dedcd5; }
svg { --true: #2f6fb7; --over: #c8372d; }
@media (prefers-color-scheme: dark) {
  svg { --card: #1d1c1a; --ink: #f3f1ea; --soft: #aeaba1; --line: #3a3833; }
  svg { --true: #5b9be0; --over: #ee6a5f; }
}
text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: var(--soft); }
.title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.card { fill: var(--card); }
.grid { stroke: var(--line); }
.limit { stroke: var(--ink); stroke-dasharray: 5 4; }
.boundary { stroke: var(--soft); stroke-dasharray: 1 3; }
.true { fill: var(--true); fill-opacity: .2; stroke: var(--true); stroke-width: 2; }
.over { fill: var(--over); fill-opacity: .35; }
.calls { fill: var(--true); }
.is-over { fill: var(--over); }
.is-true { fill: var(--true); }
`;

const line = (css: string, x1: number, y1: number, x2: number, y2: number): Html =>
  shape('line', { class: css, x1: number(x1), y1: number(y1), x2: number(x2), y2: number(y2) });

const text = (at: readonly [number, number], words: string, more: object = {}): Html =>
  tag('text', { x: number(at[0]), y: number(at[1]), ...more }, words);

/** Returns the SVG path of a step function, one second per step. */
const steps = (values: readonly number[]): string =>
  values
    .map(
      (value, at) =>
        `${at === 0 ? 'M' : 'H'}${number(x(at))}${at === 0 ? ' ' : 'V'}${number(y(value))}`,
    )
    .join('');

function frame(): Part {
  const marks = [0, LIMIT, MOST].map((value) => [
    line(value === LIMIT ? 'limit' : 'grid', LEFT, y(value), WIDTH - RIGHT, y(value)),
    text([LEFT - 6, y(value) + 4], String(value), { 'text-anchor': 'end' }),
  ]);
  const boundaries = Array.from({ length: SHOWN_S / WINDOW_S + 1 }, (_, at) => {
    const place = x(at * WINDOW_S);
    const anchor = at === 0 ? 'start' : place > WIDTH - 2 * RIGHT ? 'end' : 'middle';
    return [
      line('boundary', place, PLOT_TOP, place, CALLS_BASE),
      text([place, HEIGHT - 8], at === 0 ? '0' : `${at} min`, { 'text-anchor': anchor }),
    ];
  });
  return [marks, boundaries, line('grid', LEFT, CALLS_BASE, WIDTH - RIGHT, CALLS_BASE)];
}

function calls(seconds: readonly Second[]): Part {
  const width = x(1) - x(0);
  return seconds.map(({ admitted }, at) => {
    if (admitted === 0) return undefined;
    const height = Math.max(4, (admitted / LIMIT) * CALLS);
    const place = { x: number(x(at) - width / 2), y: number(CALLS_BASE - height) };
    return shape('rect', {
      class: 'calls',
      ...place,
      width: number(width),
      height: number(height),
    });
  });
}

const legend = (isOver: boolean): Part => [
  text([LEFT, 40], 'in the last minute', { class: 'is-true' }),
  isOver && text([LEFT + 118, 40], 'over the limit', { class: 'is-over' }),
  text([WIDTH - RIGHT, y(LIMIT) - 6], 'the limit', { 'text-anchor': 'end' }),
  text([LEFT, CALLS_TOP - 8], 'calls admitted per second'),
];

/** Returns the picture as an SVG file with light and dark colours. */
export function algorithmPicture(algorithm: WindowAlgorithmName): string {
  const seconds = simulateGreedyClient(algorithm);
  const most = Math.max(...seconds.map(({ inWindow }) => inWindow));
  const area = `${steps(seconds.map(({ inWindow }) => inWindow))}V${BASE}H${LEFT}Z`;
  const over = `${steps(seconds.map(({ inWindow }) => Math.max(LIMIT, inWindow)))}V${y(LIMIT)}Z`;
  const isOver = most > LIMIT;
  const verdict = isOver ? `${multipleText(most / LIMIT)} the limit` : 'never over the limit';
  const title = `${algorithm}: at most ${countText(most)} in a minute, ${verdict}`;
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  const picture = tag(
    'svg',
    { xmlns: 'http://www.w3.org/2000/svg', ...size, role: 'img', 'aria-label': title },
    tag('style', {}, new Html(STYLE)),
    shape('rect', { class: 'card', width: WIDTH, height: HEIGHT, rx: 8 }),
    text([LEFT, 22], title, { class: 'title' }),
    frame(),
    shape('path', { class: 'true', d: new Html(area) }),
    isOver && shape('path', { class: 'over', d: new Html(over) }),
    calls(seconds),
    legend(isOver),
  );
  return html`${picture}\n`.text;
}
