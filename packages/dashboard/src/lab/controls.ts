/** The input fields of the lab. Invalid input shows an error at the field and is not applied. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import { durationCode, optionOf, windowAlgorithmNames } from 'sluice/engine';
import type { WindowAlgorithmName } from '../api/types.ts';
import { countText } from '../view/format.ts';
import { parseDuration } from './lab-query.ts';
import {
  BOUNDS,
  isWithin,
  type LabSettings,
  type NumberName,
  TRAFFIC_NAMES,
  type TrafficName,
} from './settings.ts';
import { TRAFFIC_LABELS } from './traffic.ts';
import { callsText, parseCalls, startOf } from './typed-calls.ts';

type Change = (changes: Partial<LabSettings>) => void;

interface InvalidInput {
  readonly text: string;
  readonly message: string;
}

const textIn = (event: Event): string => (event.target as HTMLInputElement).value;

export class Controls {
  readonly #change: Change;
  readonly #redraw: () => void;
  /** Invalid inputs by field name. */
  readonly #invalid = new Map<string, InvalidInput>();
  /**
   * The valid text in the text area, and the calls parsed from it. Calls formatted again would lose
   * the comments and spacing of the user.
   */
  #draft: { readonly text: string; readonly calls: LabSettings['typed'] } | undefined = undefined;

  constructor(change: Change, redraw: () => void) {
    this.#change = change;
    this.#redraw = redraw;
  }

  /** Discards invalid input and the text of typed calls. Called when the settings are replaced. */
  clear(): void {
    this.#invalid.clear();
    this.#draft = undefined;
  }

  traffic(settings: LabSettings): TemplateResult {
    const { traffic } = settings;
    const isShape = !['drawn', 'typed', 'adversary'].includes(traffic);
    return html`<section class="card lab-fields" aria-labelledby="traffic-title">
      <h2 id="traffic-title">Traffic source</h2>
      <div class="field wide">
        <label for="lab-traffic">Shape</label>
        <select id="lab-traffic" .value=${live(traffic)} aria-describedby="lab-traffic-hint"
          @change=${(event: Event) => this.#change({ traffic: textIn(event) as TrafficName })}>
          ${TRAFFIC_NAMES.map(
            (name) => html`<option value=${name} ?selected=${name === traffic}>
              ${TRAFFIC_LABELS[name][0]}
            </option>`,
          )}
        </select>
        <p id="lab-traffic-hint" class="hint">${TRAFFIC_LABELS[traffic][1]}</p>
      </div>
      ${isShape ? this.#number(settings, 'calls', 'Calls') : nothing}
      ${isShape ? this.#number(settings, 'seed', 'Seed') : nothing}
      ${traffic === 'adversary' ? this.#against(settings) : nothing}
      ${
        traffic === 'typed'
          ? this.#typed(settings)
          : this.#number(settings, 'cost', 'Cost of a call')
      }
      ${
        traffic === 'typed' || traffic === 'adversary'
          ? nothing
          : this.#number(settings, 'windows', 'Window count')
      }
      ${this.#number(settings, 'startMs', 'Start (Unix time, ms)')}
    </section>`;
  }

  limits(settings: LabSettings): TemplateResult {
    const hasOption = (option: 'burst' | 'buckets'): boolean =>
      settings.algorithms.some((name) => optionOf(name) === option);
    return html`<section class="card lab-fields" aria-labelledby="limit-title">
      <h2 id="limit-title">Policy</h2>
      ${this.#number(settings, 'limit', 'Limit')} ${this.#window(settings)}
      <fieldset class="wide">
        <legend>Algorithms to compare</legend>
        ${windowAlgorithmNames.map((name) => this.#algorithm(settings, name))}
      </fieldset>
      ${hasOption('burst') ? this.#number(settings, 'burst', 'Burst (tokens)') : nothing}
      ${hasOption('buckets') ? this.#number(settings, 'buckets', 'Buckets') : nothing}
    </section>`;
  }

  #number(settings: LabSettings, name: NumberName, label: string): TemplateResult {
    const [least, most] = BOUNDS[name];
    const isOptional = name === 'burst';
    const apply = (text: string): string | undefined => {
      if (isOptional && text === '') return this.#apply({ burst: undefined });
      const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
      if (isWithin(name, value)) return this.#apply({ [name]: value });
      return `Expected a whole number from ${countText(least)} to ${countText(most)}`;
    };
    const now = settings[name];
    const hint = isOptional && now === undefined ? `the limit, ${countText(settings.limit)}` : '';
    return this.#field(name, label, now === undefined ? '' : String(now), apply, hint);
  }

  #window({ windowMs }: LabSettings): TemplateResult {
    return this.#field('windowMs', 'Window', durationCode(windowMs), (text) => {
      const value = parseDuration(text);
      if (isWithin('windowMs', value)) return this.#apply({ windowMs: value });
      return 'Expected a duration such as 10s, 1m or 250ms, up to 30d';
    });
  }

  #apply(changes: Partial<LabSettings>): undefined {
    this.#change(changes);
    return undefined;
  }

  /** Shows an input. `apply` returns an error message, or undefined if it has applied the text. */
  #field(
    name: string,
    label: string,
    now: string,
    apply: (text: string) => string | undefined,
    placeholder = '',
  ): TemplateResult {
    const invalid = this.#invalid.get(name);
    const typed = (event: Event): void => {
      const text = textIn(event);
      const message = apply(text.trim());
      if (message === undefined) this.#invalid.delete(name);
      else this.#invalid.set(name, { text, message });
      this.#redraw();
    };
    return html`<div class=${name === 'startMs' ? 'field wide' : 'field'}>
      <label for="lab-${name}">${label}</label>
      <input id="lab-${name}" autocomplete="off"
        inputmode=${name === 'windowMs' ? 'text' : 'numeric'} placeholder=${placeholder}
        .value=${live(invalid?.text ?? now)}
        aria-describedby="lab-${name}-wrong" aria-invalid=${invalid !== undefined}
        @input=${typed} />
      <span id="lab-${name}-wrong" class="wrong" role="alert">${invalid?.message ?? nothing}</span>
    </div>`;
  }

  #against({ against }: LabSettings): TemplateResult {
    return html`<div class="field">
      <label for="lab-against">Against</label>
      <select id="lab-against" .value=${live(against)}
        @change=${(event: Event) =>
          this.#change({ against: textIn(event) as WindowAlgorithmName })}>
        ${windowAlgorithmNames.map(
          (name) => html`<option value=${name} ?selected=${name === against}>${name}</option>`,
        )}
      </select>
    </div>`;
  }

  #algorithm({ algorithms }: LabSettings, name: WindowAlgorithmName): TemplateResult {
    const isOn = algorithms.includes(name);
    const toggle = (): void => {
      const on = new Set(algorithms);
      if (isOn) on.delete(name);
      else on.add(name);
      this.#change({ algorithms: windowAlgorithmNames.filter((each) => on.has(each)) });
    };
    return html`<label class="check">
      <input type="checkbox" .checked=${live(isOn)} @change=${toggle} /> ${name}
    </label>`;
  }

  /**
   * Shows the text area of typed calls. Applies each valid text immediately, without changing it.
   */
  #typed(settings: LabSettings): TemplateResult {
    const { typed, startMs } = settings;
    const invalid = this.#invalid.get('typed');
    if (this.#draft?.calls !== typed) {
      this.#draft = { text: callsText(typed, startMs), calls: typed };
    }
    const changed = (event: Event): void => {
      const text = textIn(event);
      const read = parseCalls(text, startMs);
      if (read.problem === undefined) {
        this.#invalid.delete('typed');
        this.#draft = { text, calls: read.calls };
        this.#change({ typed: read.calls, startMs: startOf(settings, read.calls) });
      } else this.#invalid.set('typed', { text, message: read.problem });
      this.#redraw();
    };
    return html`<div class="field wide">
      <label for="lab-typed">Calls: time in ms, cost</label>
      <textarea id="lab-typed" class="mono" rows="8" spellcheck="false"
        aria-describedby="lab-typed-hint lab-typed-wrong" aria-invalid=${invalid !== undefined}
        .value=${live(invalid?.text ?? this.#draft.text)} @input=${changed}></textarea>
      <p id="lab-typed-hint" class="hint">
        One call per line. Times are relative to the start, or Unix times. The default cost is 1.
      </p>
      <span id="lab-typed-wrong" class="wrong" role="alert">${invalid?.message ?? nothing}</span>
    </div>`;
  }
}
