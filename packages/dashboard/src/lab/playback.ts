/** Controls of the position in the traffic: two sliders, the pointer, and a play button. */
import { html, type TemplateResult } from 'lit-html';
import { sinceText } from './lab-text.ts';
import { callText, decisionsText, type Position } from './lanes-view.ts';
import { Player } from './player.ts';
import type { LabResult } from './run.ts';

export type PositionQuery = Readonly<Partial<Record<'call' | 'at', string>>>;

const sliderValue = (event: Event): number => Number((event.target as HTMLInputElement).value);

export class Playback {
  readonly #onMove: (isChosen: boolean) => void;
  readonly #player: Player;
  #result!: LabResult;
  /** The chosen position. Undefined at first: the page then shows the fullest window. */
  #position: Position | undefined = undefined;
  /** Index of the call under the pointer. */
  #pointed: number | undefined = undefined;

  /**
   * Calls `onMove` after each change of the position: with true if the user has chosen it, with
   * false while the animation plays or the pointer moves.
   */
  constructor(onMove: (isChosen: boolean) => void) {
    this.#onMove = onMove;
    this.#player = new Player((progress) => this.#seek(progress));
  }

  /** Replaces the result and resets the position. */
  load(result: LabResult): void {
    this.#result = result;
    this.#position = undefined;
    this.#pointed = undefined;
    this.#player.stop();
  }

  stop(): void {
    this.#player.stop();
  }

  /** Restores the position from the URL. Returns an error message if the position is invalid. */
  restore(query: PositionQuery): string | undefined {
    const { calls, startMs, endMs } = this.#result.traffic;
    const call = Number(query.call);
    const at = Number(query.at);
    if (Number.isSafeInteger(call) && call >= 1 && call <= calls.length) this.#choose(call - 1);
    else if (Number.isSafeInteger(at) && at >= 0 && at <= endMs - startMs)
      this.#moveTo(startMs + at);
    else if (query.call !== undefined || query.at !== undefined) {
      return 'Expected `call` or `at` to be a position in this traffic';
    }
    return undefined;
  }

  get query(): PositionQuery {
    const position = this.#position;
    if (position === undefined) return {};
    const { startMs, calls } = this.#result.traffic;
    const { atMs, call } = position;
    const isCall = call !== undefined && calls[call].atMs === atMs;
    return isCall ? { call: String(call + 1) } : { at: String(atMs - startMs) };
  }

  /** The position of the call under the pointer, else the chosen one, else the fullest window. */
  get position(): Position {
    const { calls, startMs } = this.#result.traffic;
    if (this.#pointed !== undefined) {
      return { atMs: calls[this.#pointed].atMs, call: this.#pointed };
    }
    if (this.#position !== undefined) return this.#position;
    const fullest = this.#result.lanes
      .map((lane) => lane.fullest)
      .reduce((most, each) => ((each?.count ?? 0) > (most?.count ?? 0) ? each : most), undefined);
    const atMs = fullest?.atMs ?? startMs;
    return { atMs, call: this.#callAt(atMs) };
  }

  /**
   * Shows the call under the pointer, unless the animation plays. `call` is undefined if the
   * pointer has left the lanes.
   */
  point(call: number | undefined): void {
    if (this.#player.isPlaying && call !== undefined) return;
    this.#pointed = call;
    this.#onMove(false);
  }

  choosePointed(): void {
    if (this.#pointed === undefined) return;
    this.#choose(this.#pointed);
    this.#onMove(true);
  }

  playRow(): TemplateResult {
    const { startMs, endMs } = this.#result.traffic;
    const sinceMs = this.position.atMs - startMs;
    return html`<div class="row play">
      <button type="button" @click=${() => this.#togglePlay()}>
        ${this.#player.isPlaying ? 'Pause' : 'Play'}
      </button>
      <label for="lab-at">Window ends at</label>
      <input id="lab-at" type="range" min="0" max=${endMs - startMs} step="1"
        .value=${String(sinceMs)} aria-valuetext=${sinceText(sinceMs)}
        @input=${(event: Event) =>
          this.#onSlide(() => this.#moveTo(startMs + sliderValue(event)))} />
      <span class="mono">${sinceText(sinceMs)}</span>
    </div>`;
  }

  callRow(): TemplateResult {
    const { position } = this;
    const { calls } = this.#result.traffic;
    return html`<div class="row play">
      <label for="lab-call">Call</label>
      <input id="lab-call" type="range" min="1" max=${calls.length} step="1"
        .value=${String((position.call ?? 0) + 1)}
        aria-valuetext=${decisionsText(this.#result, position)}
        @input=${(event: Event) => this.#onSlide(() => this.#choose(sliderValue(event) - 1))} />
      <span class="chosen">${callText(this.#result, position)}</span>
    </div>`;
  }

  /** Stops the animation and moves to the position of a slider. */
  #onSlide(move: () => void): void {
    this.#player.stop();
    move();
    this.#onMove(true);
  }

  /** Returns the index of the last call at or before a time. */
  #callAt(timeMs: number): number | undefined {
    const last = this.#result.traffic.calls.findLastIndex(({ atMs }) => atMs <= timeMs);
    return last < 0 ? undefined : last;
  }

  #moveTo(atMs: number): void {
    this.#position = { atMs, call: this.#callAt(atMs) };
  }

  #choose(call: number): void {
    this.#position = { atMs: this.#result.traffic.calls[call].atMs, call };
  }

  #seek(progress: number): void {
    const { startMs, endMs } = this.#result.traffic;
    this.#moveTo(Math.round(startMs + progress * (endMs - startMs)));
    this.#onMove(progress === 1);
  }

  #togglePlay(): void {
    if (this.#player.isPlaying) {
      this.#player.stop();
      this.#onMove(true);
      return;
    }
    const { startMs, endMs } = this.#result.traffic;
    const progress = (this.position.atMs - startMs) / (endMs - startMs);
    // Without a chosen position, play from the start, not from the fullest window: little happens
    // after it.
    const isChosen = this.#position !== undefined && progress < 1;
    this.#pointed = undefined;
    this.#player.play(isChosen ? progress : 0);
    this.#onMove(false);
  }
}
