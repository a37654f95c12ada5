/** Draws the window of a key at the time of its report as SVG. */
import { html, nothing, svg, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import { clockText, countText, dateText, windowText } from '../view/format.ts';
import type { WidthObserver } from '../view/width-observer.ts';
import type { BarScene, LevelScene, Scene, TickScene } from './scene.ts';
import {
  createScale,
  HEIGHT,
  heightOf,
  MIN_TICK_HEIGHT,
  PLOT_BOTTOM,
  PLOT_HEIGHT,
  PLOT_TOP,
  pixels,
  type Scale,
  ticksPath,
} from './window-shapes.ts';

export class WindowView {
  readonly #widthObserver: WidthObserver;

  constructor(widthObserver: WidthObserver) {
    this.#widthObserver = widthObserver;
  }

  view(scene: Scene, label: string): TemplateResult {
    const { width } = this.#widthObserver;
    return html`<div class="window" ${ref(this.#widthObserver.observe)}>
      ${width === 0 ? nothing : this.#picture(scene, label, width)}
    </div>`;
  }

  #picture(scene: Scene, label: string, width: number): TemplateResult {
    const scale = createScale(scene.span, width);
    const solidX = Math.max(0, scale.x(scene.solidFromMs));
    return html`<svg role="img" aria-label=${label} width=${width} height=${HEIGHT}
      viewBox="0 0 ${width} ${HEIGHT}">
      <defs>
        <clipPath id="window-solid">
          <rect x=${solidX} y="0" width=${Math.max(0, width - solidX)} height=${PLOT_BOTTOM} />
        </clipPath>
        <clipPath id="window-gone">
          <rect x="0" y="0" width=${solidX} height=${PLOT_BOTTOM} />
        </clipPath>
        <clipPath id="window-past">
          <rect x="0" y="0" width=${scale.x(scene.nowMs)} height=${PLOT_BOTTOM} />
        </clipPath>
        <clipPath id="window-ahead">
          <rect x=${scale.x(scene.nowMs)} y="0" width=${width} height=${PLOT_BOTTOM} />
        </clipPath>
        <pattern id="window-hatch" width="6" height="6" patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)">
          <line class="hatch" x1="0" y1="0" x2="0" y2="6" />
        </pattern>
      </defs>
      ${windowBand(scene, scale, width)} ${contentOf(scene, scale)}
      ${lines(scene, scale, width)}
    </svg>`;
  }
}

function contentOf(scene: Scene, scale: Scale): unknown {
  if (scene.kind === 'bars') return barsOf(scene, scale);
  if (scene.kind === 'level') return levelOf(scene, scale);
  return ticksOf(scene, scale);
}

function ticksOf(scene: TickScene, scale: Scale): unknown {
  const { entries, unlistedUntilMs, span, bucketMs } = scene;
  const path = ticksPath(scene, scale.perMs);
  const place = `translate(${pixels(scale.x(entries[entries.length - 1]?.atMs ?? span.toMs))} 0)`;
  const shape = bucketMs === 0 ? 'ticks' : 'buckets';
  const tallest = `tallest: cost ${countText(scene.top)}`;
  return svg`${unlisted(unlistedUntilMs, scene, scale)}
    <text class="gone-label" x="2" y=${PLOT_TOP + 12}>expired</text>
    ${scene.top > 1 ? svg`<text x="2" y=${PLOT_TOP - 10}>${tallest}</text>` : nothing}
    <g clip-path="url(#window-gone)"><g transform=${place}>
      <path class="${shape} gone" d=${path} /></g></g>
    <g clip-path="url(#window-solid)"><g transform=${place}>
      <path class="${shape}" d=${path} /></g></g>`;
}

/** Hatches the part of the window whose entries the report does not list. */
function unlisted(untilMs: number | undefined, { window }: TickScene, { x }: Scale): unknown {
  if (untilMs === undefined || window === undefined) return nothing;
  const from = Math.max(0, x(window.fromMs));
  const width = Math.max(0, x(untilMs) - from);
  return svg`<rect fill="url(#window-hatch)" x=${from} y=${PLOT_TOP} width=${width}
    height=${PLOT_HEIGHT} />`;
}

/** Shades the current window. */
function windowBand({ window }: Scene, { x }: Scale, width: number): unknown {
  if (window === undefined) return nothing;
  const from = Math.max(0, x(window.fromMs));
  const to = Math.min(width, x(window.toMs));
  return svg`<rect class="band" x=${from} y=${PLOT_TOP} width=${Math.max(0, to - from)}
    height=${PLOT_HEIGHT} />`;
}

/** Draws windows as bars: solid up to now, outlined for the rest of the current window. */
function barsOf({ bars, top, nowMs, boundaries }: BarScene, { x }: Scale): unknown {
  const windowMs = boundaries.length > 1 ? boundaries[1] - boundaries[0] : 0;
  return bars.map(({ startMs, cost }) => {
    const height = heightOf(cost, top, MIN_TICK_HEIGHT);
    const y = PLOT_BOTTOM - height;
    const [from, to] = [x(startMs) + 1, x(startMs + windowMs) - 1];
    const width = Math.max(0, to - from);
    const isOpen = startMs + windowMs > nowMs;
    const filled = Math.max(0, Math.min(to, x(nowMs)) - from);
    const labelX = Math.max(from + 6, Math.min(from + width / 2, to - 6));
    return svg`
      <g clip-path="url(#window-gone)"><rect class="bar gone" x=${from} y=${y} width=${width}
        height=${height} /></g>
      <g clip-path="url(#window-solid)"><rect class="bar" x=${from} y=${y} width=${filled}
        height=${height} />${
          isOpen
            ? svg`<rect class="bar open" x=${from} y=${y} width=${width} height=${height} />`
            : nothing
        }</g>
      <text class="bar-label" x=${labelX} y=${labelY(y)} text-anchor="middle">
        ${countText(cost)}</text>`;
  });
}

/** Returns the y coordinate of a label: above the bar, or inside it if there is no room above. */
const labelY = (top: number): number => (top - 20 < PLOT_TOP ? top + 16 : top - 5);

function levelOf({ points, top, level, nowMs }: LevelScene, { x }: Scale): unknown {
  const y = (tokens: number): number =>
    PLOT_BOTTOM - Math.max(0, Math.min(1, tokens / top)) * PLOT_HEIGHT;
  const path = points
    .map(({ atMs, tokens }) => `${pixels(x(atMs))} ${pixels(y(tokens))}`)
    .join('L');
  const last = points[points.length - 1];
  const [left, right] = [pixels(x(points[0].atMs)), pixels(x(last.atMs))];
  const area = `M${path}L${right} ${PLOT_BOTTOM}L${left} ${PLOT_BOTTOM}z`;
  const now = x(nowMs);
  return svg`
    <g clip-path="url(#window-past)"><path class="area" d=${area} /><path class="level"
      d="M${path}" /></g>
    <g clip-path="url(#window-ahead)"><path class="level ahead" d="M${path}" /></g>
    <circle class="level-now" cx=${now} cy=${y(level)} r="5" />`;
}

/** Draws lines for the current time, the start of the window, the limit and window boundaries. */
function lines(scene: Scene, scale: Scale, width: number): unknown {
  const { nowMs, boundaries } = scene;
  const now = scale.x(nowMs);
  return svg`<line class="axis" x1="0" x2=${width} y1=${PLOT_BOTTOM} y2=${PLOT_BOTTOM} />
    ${boundaries.map((atMs) => boundary(atMs, boundaryText(boundaries), scale.x(atMs), width))}
    ${limitLine(scene, width)} ${edgeLine(scene, scale)}
    <line class="now" x1=${now} x2=${now} y1=${PLOT_TOP - 8} y2=${PLOT_BOTTOM} />
    <text class="now-label" x=${now} y=${HEIGHT - 8}
      text-anchor=${width - now < 32 ? 'end' : 'middle'}>${clockText(nowMs)}</text>`;
}

function limitLine({ kind, limit, top }: Scene, width: number): unknown {
  if (limit === undefined) return nothing;
  const y = PLOT_BOTTOM - (limit / top) * PLOT_HEIGHT;
  return svg`<line class="limit" x1="0" x2=${width} y1=${y} y2=${y} />
    <text class="limit-label" x=${width - 2} y=${y + 14} text-anchor="end">
      ${kind === 'level' ? 'capacity' : 'limit'} ${countText(limit)}</text>`;
}

/** Draws the start of a sliding window and its age. Clock-aligned windows have boundary lines. */
function edgeLine({ window, nowMs, span }: Scene, { x }: Scale): unknown {
  const fromMs = window?.fromMs ?? span.fromMs;
  if (window !== undefined && window.toMs > nowMs) return nothing;
  const place = x(fromMs);
  const line = svg`<line class="edge" x1=${place} x2=${place} y1=${PLOT_TOP - 8}
    y2=${PLOT_BOTTOM} />`;
  return svg`${window === undefined ? nothing : line}
    <text x=${Math.max(2, place)} y=${HEIGHT - 8}
      text-anchor=${place < 40 ? 'start' : 'middle'}>${windowText(nowMs - fromMs)} ago</text>`;
}

const DAY_MS = 86_400_000;

/** Returns a function that formats boundaries: with the date if they are a day or more apart. */
const boundaryText = ([first, second]: readonly number[]): ((atMs: number) => string) =>
  second - first < DAY_MS ? clockText : (atMs) => dateText(atMs).slice(5);

/** Draws the boundary between two clock-aligned windows. */
function boundary(
  atMs: number,
  text: (atMs: number) => string,
  place: number,
  width: number,
): unknown {
  const anchor = place < 40 ? 'start' : place > width - 40 ? 'end' : 'middle';
  return svg`<line class="boundary" x1=${place} x2=${place} y1=${PLOT_TOP - 4} y2=${PLOT_BOTTOM} />
    <text x=${place} y=${PLOT_TOP - 10} text-anchor=${anchor}>${text(atMs)}</text>`;
}
