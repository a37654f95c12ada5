/** The fields of the lab. What is wrong in one is said there, and not tried. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import type { AlgorithmName } from '../api/types.ts';
import { countText } from '../view/format.ts';
import { durationCode, readDuration } from './address.ts';
import {
  ALGORITHMS,
  BOUNDS,
  isWithin,
  type LabSettings,
  type NumberName,
  TRAFFIC_NAMES,
  type TrafficName,
} from './settings.ts';
import { TRAFFIC_WORDS } from './traffic.ts';
import { callsText, readCalls, startOf } from './typed.ts';

type Change = (changes: Partial<LabSettings>) => void;

/** What stands in a field and cannot be taken, by the field's name, and why. */
interface Wrong {
  readonly text: string;
  readonly why: string;
}

const textIn = (event: Event): string => (event.target as HTMLInputElement).value;

export class Controls {
  readonly #change: Change;
  readonly #redraw: () => void;
  readonly #wrong = new Map<string, Wrong>();
  /** What is typed as calls, as it was typed. */
  #draft: { readonly text: string; readonly of: LabSettings['typed'] } | undefined = undefined;

  constructor(change: Change, redraw: () => void) {
    this.#change = change;
    this.#redraw = redraw;
  }

  /** Other settings came from elsewhere. */
  clear(): void {
    this.#wrong.clear();
    this.#draft = undefined;
  }

  traffic(settings: LabSettings): TemplateResult {
    const { traffic } = settings;
    const isShape = !['drawn', 'typed', 'adversary'].includes(traffic);
    return html`<section class="card lab-fields" aria-labelledby="traffic-title">
      <h2 id="traffic-title">Traffic</h2>
      <div class="field wide">
        <label for="lab-traffic">Shape</label>
        <select id="lab-traffic" .value=${live(traffic)} aria-describedby="lab-traffic-hint"
          @change=${(event: Event) => this.#change({ traffic: textIn(event) as TrafficName })}>
          ${TRAFFIC_NAMES.map(
            (name) => html`<option value=${name} ?selected=${name === traffic}>
              ${TRAFFIC_WORDS[name][0]}
            </option>`,
          )}
        </select>
        <p id="lab-traffic-hint" class="hint">${TRAFFIC_WORDS[traffic][1]}</p>
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
          : this.#number(settings, 'windows', 'Windows long')
      }
      ${this.#number(settings, 'startMs', 'Start, ms since 1970')}
    </section>`;
  }

  limits(settings: LabSettings): TemplateResult {
    const { algorithms } = settings;
    return html`<section class="card lab-fields" aria-labelledby="limit-title">
      <h2 id="limit-title">Policy</h2>
      ${this.#number(settings, 'limit', 'Limit')} ${this.#window(settings)}
      <fieldset class="wide">
        <legend>Algorithms to compare</legend>
        ${ALGORITHMS.map((name) => this.#algorithm(settings, name))}
      </fieldset>
      ${
        algorithms.includes('token-bucket')
          ? this.#number(settings, 'burst', 'Burst (tokens)')
          : nothing
      }
      ${
        algorithms.includes('sliding-buckets')
          ? this.#number(settings, 'buckets', 'Buckets')
          : nothing
      }
    </section>`;
  }

  #number(settings: LabSettings, name: NumberName, label: string): TemplateResult {
    const [least, most] = BOUNDS[name];
    const isOptional = name === 'burst';
    const take = (text: string): string | undefined => {
      if (isOptional && text === '') return this.#taken({ burst: undefined });
      const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
      if (isWithin(name, value)) return this.#taken({ [name]: value });
      return `Expected a whole number from ${countText(least)} to ${countText(most)}`;
    };
    const now = settings[name];
    const hint = isOptional && now === undefined ? `the limit, ${countText(settings.limit)}` : '';
    return this.#field(name, label, now === undefined ? '' : String(now), take, hint);
  }

  #window({ windowMs }: LabSettings): TemplateResult {
    return this.#field('windowMs', 'Window', durationCode(windowMs), (text) => {
      const value = readDuration(text);
      if (isWithin('windowMs', value)) return this.#taken({ windowMs: value });
      return 'Expected a duration such as 10s, 1m or 250ms, up to 30d';
    });
  }

  #taken(changes: Partial<LabSettings>): undefined {
    this.#change(changes);
    return undefined;
  }

  /** `take` answers what is wrong; undefined if it was taken. */
  #field(
    name: string,
    label: string,
    now: string,
    take: (text: string) => string | undefined,
    placeholder = '',
  ): TemplateResult {
    const wrong = this.#wrong.get(name);
    const typed = (event: Event): void => {
      const text = textIn(event);
      const why = take(text.trim());
      if (why === undefined) this.#wrong.delete(name);
      else this.#wrong.set(name, { text, why });
      this.#redraw();
    };
    return html`<div class=${name === 'startMs' ? 'field wide' : 'field'}>
      <label for="lab-${name}">${label}</label>
      <input id="lab-${name}" autocomplete="off"
        inputmode=${name === 'windowMs' ? 'text' : 'numeric'} placeholder=${placeholder}
        .value=${live(wrong?.text ?? now)}
        aria-describedby="lab-${name}-wrong" aria-invalid=${wrong !== undefined} @input=${typed} />
      <span id="lab-${name}-wrong" class="wrong" role="alert">${wrong?.why ?? nothing}</span>
    </div>`;
  }

  #against({ against }: LabSettings): TemplateResult {
    return html`<div class="field">
      <label for="lab-against">Against</label>
      <select id="lab-against" .value=${live(against)}
        @change=${(event: Event) => this.#change({ against: textIn(event) as AlgorithmName })}>
        ${ALGORITHMS.map(
          (name) => html`<option value=${name} ?selected=${name === against}>${name}</option>`,
        )}
      </select>
    </div>`;
  }

  #algorithm({ algorithms }: LabSettings, name: AlgorithmName): TemplateResult {
    const isOn = algorithms.includes(name);
    const toggle = (): void => {
      const on = new Set(algorithms);
      if (isOn) on.delete(name);
      else on.add(name);
      this.#change({ algorithms: ALGORITHMS.filter((each) => on.has(each)) });
    };
    return html`<label class="check">
      <input type="checkbox" .checked=${live(isOn)} @change=${toggle} /> ${name}
    </label>`;
  }

  /** Lines that were understood are taken at once, and stay as they were typed. */
  #typed(settings: LabSettings): TemplateResult {
    const { typed, startMs } = settings;
    const wrong = this.#wrong.get('typed');
    if (this.#draft?.of !== typed) this.#draft = { text: callsText(typed, startMs), of: typed };
    const taken = (event: Event): void => {
      const text = textIn(event);
      const read = readCalls(text, startMs);
      if (read.problem === undefined) {
        this.#wrong.delete('typed');
        this.#draft = { text, of: read.calls };
        this.#change({ typed: read.calls, startMs: startOf(settings, read.calls) });
      } else this.#wrong.set('typed', { text, why: read.problem });
      this.#redraw();
    };
    return html`<div class="field wide">
      <label for="lab-typed">Calls: time in ms, cost</label>
      <textarea id="lab-typed" class="mono" rows="8" spellcheck="false"
        aria-describedby="lab-typed-hint lab-typed-wrong" aria-invalid=${wrong !== undefined}
        .value=${live(wrong?.text ?? this.#draft.text)} @input=${taken}></textarea>
      <p id="lab-typed-hint" class="hint">
        A line each. Times count from the start; large ones are since 1970. Without a cost it is 1.
      </p>
      <span id="lab-typed-wrong" class="wrong" role="alert">${wrong?.why ?? nothing}</span>
    </div>`;
  }
}
