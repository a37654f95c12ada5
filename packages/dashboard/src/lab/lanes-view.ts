/** Draws one lane per algorithm, stacked on a common time axis. */
import { html, nothing, svg, type TemplateResult } from 'lit-html';
import { guard } from 'lit-html/directives/guard.js';
import type { RunDecision } from 'sluice-traffic/lab';
import { countText, windowText } from '../view/format.ts';
import { decisionText, fullestText, multipleText, sinceText } from './lab-text.ts';
import {
  admittedSteps,
  areaPath,
  axisSteps,
  CALLS_BASELINE,
  type Columns,
  callColumns,
  costAt,
  highestColumn,
  LANE_HEIGHT,
  PLOT_BOTTOM,
  PLOT_HEIGHT,
  PLOT_TOP,
  plotY,
  type Step,
  type TimeScale,
  timeScale,
  usedPath,
} from './lane-shapes.ts';
import type { LabResult, Lane } from './run.ts';
import type { LabSettings } from './settings.ts';

const AXIS_HEIGHT = 22;
const MIN_AXIS_STEP_WIDTH = 70;
/** The top of the plots is the largest drawn cost times this factor. */
const HEAD_ROOM = 1.15;

/** The shapes of a lane, computed once per result and width. */
interface LaneShapes {
  readonly lane: Lane;
  readonly steps: readonly Step[];
  readonly area: string;
  readonly used: string;
  readonly columns: Columns;
}

/** A position in the traffic: a time, and the last call up to this time. */
export interface Position {
  readonly atMs: number;
  /** Index of the last call up to `atMs`; undefined before the first call. */
  readonly call: number | undefined;
}

export class LanesView {
  #settings: LabSettings;
  #result: LabResult;
  #scale: TimeScale;
  #top = 1;
  #lanes: readonly LaneShapes[] = [];

  constructor(settings: LabSettings, result: LabResult, width: number) {
    this.#settings = settings;
    this.#result = result;
    this.#scale = timeScale(result.traffic, width);
    const { lanes, traffic, busiestKey } = result;
    const { calls } = traffic;
    const steps = lanes.map((lane) => admittedSteps(calls, lane, busiestKey, settings.windowMs));
    const tops = steps.flat().map(({ cost }) => cost);
    const largest = Math.max(...lanes.map(({ capacity }) => capacity), settings.limit);
    this.#top = HEAD_ROOM * tops.reduce((most, cost) => Math.max(most, cost), largest);
    const most = highestColumn(calls, this.#scale);
    this.#lanes = lanes.map((lane, at) => ({
      ...{ lane, steps: steps[at] },
      area: areaPath(steps[at], this.#top, this.#scale),
      used: usedPath(lane.used, this.#top, this.#scale),
      columns: callColumns(calls, lane.decisions, most, this.#scale),
    }));
  }

  get scale(): TimeScale {
    return this.#scale;
  }

  view(position: Position): TemplateResult {
    const lanes = this.#lanes.map((shapes, at) => this.#lane(shapes, at, position));
    return html`${lanes} ${this.axis()}`;
  }

  #lane(shapes: LaneShapes, at: number, { atMs, call }: Position): TemplateResult {
    const { lane, steps } = shapes;
    const inWindow = costAt(steps, atMs);
    const { limit } = this.#settings;
    const isOver = inWindow > limit;
    const decision = call === undefined ? undefined : lane.decisions[call];
    return html`<section class="lane" aria-label=${lane.algorithm}>
      <div class="lane-head">
        <h3>${lane.algorithm}</h3>
        ${laneBadge(lane)}
        <span class="lane-now ${isOver ? 'over' : ''}">
          ${isOver ? '▲ ' : nothing}${countText(inWindow)} in this window
        </span>
        <span class="lane-decision">${decision && decisionMark(decision)}</span>
      </div>
      <svg role="img" aria-label=${laneLabel(lane)} width=${this.#scale.width}
        height=${LANE_HEIGHT} viewBox="0 0 ${this.#scale.width} ${LANE_HEIGHT}">
        ${this.#band(atMs)} ${guard([shapes], () => this.#plot(shapes, at))} ${this.#lines(atMs)}
      </svg>
    </section>`;
  }

  /** Draws the parts of a lane that do not change while the window slides. */
  #plot({ area, used, columns }: LaneShapes, at: number): unknown {
    const { width } = this.#scale;
    const limitY = plotY(this.#settings.limit, this.#top);
    const over = `lane-over-${at}`;
    const hatch = `lane-hatch-${at}`;
    return svg`<defs>
        <clipPath id=${over}><rect x="0" y="0" width=${width} height=${limitY} /></clipPath>
        <pattern id=${hatch} width="5" height="5" patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="5" /></pattern>
      </defs>
      <path class="true" d=${area} />
      <g clip-path="url(#${over})"><path class="true-over" d=${area} />
        <path fill="url(#${hatch})" d=${area} /></g>
      ${this.#boundaries().map(
        (place) =>
          svg`<line class="boundary" x1=${place} x2=${place} y1=${PLOT_TOP}
            y2=${CALLS_BASELINE} />`,
      )}
      <line class="axis" x1="0" x2=${width} y1=${PLOT_BOTTOM} y2=${PLOT_BOTTOM} />
      <line class="limit" x1="0" x2=${width} y1=${limitY} y2=${limitY} />
      <path class="used" d=${used} />
      <line class="ground" x1="0" x2=${width} y1=${CALLS_BASELINE} y2=${CALLS_BASELINE} />
      <path class="admitted" d=${columns.admitted} /><path class="denied" d=${columns.denied} />`;
  }

  #boundaries(): readonly number[] {
    const { startMs, endMs } = this.#result.traffic;
    const { windowMs } = this.#settings;
    const firstMs = Math.ceil(startMs / windowMs) * windowMs;
    const count = Math.floor((endMs - firstMs) / windowMs) + 1;
    return Array.from({ length: count }, (_, at) => this.#scale.x(firstMs + at * windowMs));
  }

  #band(atMs: number): unknown {
    const { x } = this.#scale;
    const from = Math.max(0, x(atMs - this.#settings.windowMs));
    const width = Math.max(0, x(atMs) - from);
    return svg`<rect class="band" x=${from} y=${PLOT_TOP} width=${width} height=${PLOT_HEIGHT} />`;
  }

  #lines(atMs: number): unknown {
    const { x } = this.#scale;
    const edge = x(atMs - this.#settings.windowMs);
    return svg`
      ${
        edge < 0
          ? nothing
          : svg`<line class="edge" x1=${edge} x2=${edge} y1=${PLOT_TOP} y2=${CALLS_BASELINE} />`
      }
      <line class="now" x1=${x(atMs)} x2=${x(atMs)} y1=${PLOT_TOP - 6} y2=${LANE_HEIGHT} />`;
  }

  /** Draws the time axis below all lanes, relative to the start. */
  axis(): TemplateResult {
    const { width, perMs } = this.#scale;
    return html`<svg class="lane-axis" width=${width} height=${AXIS_HEIGHT} aria-hidden="true">
      ${axisSteps(this.#scale, MIN_AXIS_STEP_WIDTH).map((sinceMs) => {
        const place = sinceMs * perMs;
        const anchor = place < 20 ? 'start' : place > width - 30 ? 'end' : 'middle';
        return svg`<line class="axis" x1=${place} x2=${place} y1="0" y2="4" />
          <text x=${place} y="17" text-anchor=${anchor}>
            ${sinceMs === 0 ? '0' : windowText(sinceMs)}</text>`;
      })}
    </svg>`;
  }
}

/** Shows a decision with a colour and a sign, for users who cannot distinguish the colours. */
function decisionMark(decision: RunDecision): TemplateResult {
  const [name, sign] = decision.allowed ? ['is-admitted', '✓'] : ['is-denied', '✕'];
  return html`<span class=${name}>${sign} ${decisionText(decision)}</span>`;
}

function laneBadge({ fullest, admitted, denied }: Lane): TemplateResult {
  const multiple = fullest?.multiple ?? 0;
  const isOver = multiple > 1;
  const counts = `${countText(admitted)} admitted, ${countText(denied)} denied`;
  return html`<span class="badge ${isOver ? 'over' : 'within'}">
      ${isOver ? `${multipleText(multiple)} the limit` : 'within the limit'}
    </span>
    <span class="lane-counts">${counts}</span>`;
}

function laneLabel(lane: Lane): string {
  const { algorithm, admitted, denied, fullest } = lane;
  return (
    `${algorithm}: ${countText(admitted)} admitted, ${countText(denied)} denied; ` +
    `fullest window: ${fullestText(fullest)}`
  );
}

export function callText({ traffic }: LabResult, { call }: Position): string {
  const { calls, startMs } = traffic;
  if (call === undefined) return 'Before the first call';
  const { atMs, cost, key } = calls[call];
  const client = calls.some((each) => each.key !== key) ? `, client ${key}` : '';
  const number = `Call ${countText(call + 1)} of ${countText(calls.length)}`;
  return `${number}, at ${sinceText(atMs - startMs)}, cost ${countText(cost)}${client}`;
}

/** Returns text for screen readers: the call at the position, and each algorithm's decision. */
export function decisionsText(result: LabResult, position: Position): string {
  const { call } = position;
  if (call === undefined) return callText(result, position);
  const decisions = result.lanes.map(
    (lane) => `${lane.algorithm} ${decisionText(lane.decisions[call])}`,
  );
  return [callText(result, position), ...decisions].join('; ');
}

const swatch = (shape: unknown): TemplateResult =>
  html`<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true">${shape}</svg>`;

export function legend({ windowMs, limit }: LabSettings): TemplateResult {
  const line = (name: string): unknown => svg`<line class=${name} x1="0" x2="22" y1="5" y2="5" />`;
  const entries: readonly [shape: unknown, text: string][] = [
    [
      svg`<rect class="true" y="2" width="22" height="8" />`,
      `admitted in the last ${windowText(windowMs)}`,
    ],
    [svg`<rect class="true-over" y="2" width="22" height="8" />`, 'the part above the limit'],
    [svg`<rect class="band" width="22" height="10" />`, 'the window that ends at the time above'],
    [line('used'), 'usage counted by the algorithm'],
    [line('limit'), `limit ${countText(limit)}`],
    [svg`<path class="admitted" d="M4 10v-8M10 10v-8M16 10v-8" />`, 'admitted (up)'],
    [svg`<path class="denied" d="M4 0v8M10 0v8M16 0v8" />`, 'denied (down)'],
  ];
  return html`<ul class="lab-legend">
    ${entries.map(([shape, text]) => html`<li>${swatch(shape)}${text}</li>`)}
  </ul>`;
}
