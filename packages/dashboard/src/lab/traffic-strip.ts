/** Bar chart of the calls per time slot. The user edits it with the pointer or the arrow keys. */
import { html, svg, type TemplateResult } from 'lit-html';
import { countWithNoun, windowText } from '../view/format.ts';
import { MAX_IN_SLOT, SLOTS } from './settings.ts';
import { MIN_TOP, type SlotCount, stripTop, withLine } from './slots.ts';

const HEIGHT = 92;
/** By how many calls Page Up and Page Down change a slot. */
const PAGE_CALLS = 10;

export interface StripState {
  readonly slots: readonly number[];
  readonly limit: number;
  readonly slotMs: number;
  readonly width: number;
}

export class TrafficStrip {
  readonly #onDraw: (slots: readonly number[]) => void;
  readonly #redraw: () => void;
  #state!: StripState;
  /** The slot that the arrow keys change. */
  #slot = 0;
  /** The last position of the pressed pointer; undefined if it is not pressed. */
  #last: SlotCount | undefined = undefined;
  /** Result of `stripTop`. Constant while the user draws, so that the scale does not change. */
  #top = MIN_TOP;

  constructor(onDraw: (slots: readonly number[]) => void, redraw: () => void) {
    this.#onDraw = onDraw;
    this.#redraw = redraw;
  }

  view(state: StripState): TemplateResult {
    this.#state = state;
    if (this.#last === undefined) this.#top = stripTop(state.slots, state.limit);
    const { slots, slotMs } = state;
    const count = slots[this.#slot];
    const from = windowText(Math.round(this.#slot * slotMs));
    const each = windowText(Math.round(slotMs));
    const label = `Calls in slot ${this.#slot + 1} of ${SLOTS}, ${each} each`;
    return html`<div class="strip" tabindex="0" role="slider" aria-label=${label}
      aria-orientation="vertical" aria-valuemin="0" aria-valuemax=${this.#top}
      aria-valuenow=${count}
      aria-valuetext="${countWithNoun(count, 'call')}${this.#slot === 0 ? '' : ` after ${from}`}"
      @pointerdown=${(event: PointerEvent) => this.#pressed(event)}
      @pointermove=${(event: PointerEvent) => this.#dragged(event)}
      @pointerup=${() => this.#released()} @pointercancel=${() => this.#released()}
      @keydown=${(event: KeyboardEvent) => this.#typed(event)}>
      ${this.#picture(state)}
    </div>`;
  }

  #picture({ slots, width }: StripState): TemplateResult {
    const each = width / SLOTS;
    return html`<svg width=${width} height=${HEIGHT} aria-hidden="true">
      <rect class="strip-slot" x=${this.#slot * each} y="0" width=${each} height=${HEIGHT} />
      ${slots.map((count, slot) => {
        const height = (Math.min(count, this.#top) / this.#top) * (HEIGHT - 4);
        return svg`<rect class="strip-bar" x=${slot * each + 0.5} y=${HEIGHT - 1 - height}
          width=${Math.max(1, each - 1)} height=${height} />`;
      })}
      <line class="axis" x1="0" x2=${width} y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
      <text x="2" y="12">${countWithNoun(this.#top, 'call')}</text>
    </svg>`;
  }

  #placeOf(event: PointerEvent): SlotCount {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width;
    const up = 1 - (event.clientY - box.top) / box.height;
    return {
      slot: Math.min(SLOTS - 1, Math.max(0, Math.floor(across * SLOTS))),
      count: Math.round(Math.min(1, Math.max(0, up)) * this.#top),
    };
  }

  #pressed(event: PointerEvent): void {
    if (event.button !== 0) return;
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    const place = this.#placeOf(event);
    this.#last = place;
    this.#put(place, place);
  }

  #dragged(event: PointerEvent): void {
    if (this.#last === undefined) return;
    const place = this.#placeOf(event);
    this.#put(this.#last, place);
    this.#last = place;
  }

  #released(): void {
    this.#last = undefined;
    this.#redraw();
  }

  /** Sets the counts of all slots between two positions. */
  #put(from: SlotCount, to: SlotCount): void {
    this.#slot = to.slot;
    const slots = withLine(this.#state.slots, from, to);
    // Update the state now: the next pointer event may arrive before the redraw.
    this.#state = { ...this.#state, slots };
    this.#onDraw(slots);
  }

  /** Handles arrow keys: left and right select a slot; up and down change its calls. */
  #typed(event: KeyboardEvent): void {
    const moves: Readonly<Record<string, number>> = {
      ...{ ArrowLeft: -1, ArrowRight: 1, Home: -SLOTS, End: SLOTS },
    };
    const changes: Readonly<Record<string, number>> = {
      ...{ ArrowUp: 1, ArrowDown: -1, PageUp: PAGE_CALLS, PageDown: -PAGE_CALLS },
    };
    const move = moves[event.key];
    const change = changes[event.key];
    if (move === undefined && change === undefined) return;
    event.preventDefault();
    if (move !== undefined) {
      this.#slot = Math.min(SLOTS - 1, Math.max(0, this.#slot + move));
      this.#redraw();
      return;
    }
    const before = this.#state.slots[this.#slot];
    const count = Math.min(MAX_IN_SLOT, Math.max(0, before + change));
    const place = { slot: this.#slot, count };
    this.#put(place, place);
  }
}
