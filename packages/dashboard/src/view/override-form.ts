/** The form that gives a key, or all keys that a pattern fits, a limit of its own. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Override, OverrideFields } from '../api/types.ts';
import { localTime, readLocalTime } from '../clock.ts';
import type { Dialogs, Refusal } from './dialog.ts';
import { countText, windowText } from './format.ts';

export interface OverrideQuestion {
  readonly policy: { readonly name: string; readonly limit: number; readonly windowMs: number };
  /** Whose limit it is, if that is not asked for too. */
  readonly key?: string;
  /** The one that is changed. */
  readonly before?: Override | undefined;
  /** The time now, as the service has it. */
  readonly nowMs: number;
  readonly save: (key: string, fields: OverrideFields) => Promise<void>;
}

const HOUR_MS = 3_600_000;

/** How long it is to count. `at` asks for a time. */
const ENDS: readonly [string, string][] = [
  ['1h', 'for 1 hour'],
  ['1d', 'for 1 day'],
  ['7d', 'for 7 days'],
  ['at', 'until a time…'],
  ['never', 'until it is removed'],
];
const LASTS_MS: Readonly<Record<string, number>> = {
  '1h': HOUR_MS,
  '1d': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
};

const FIELDS = ['key', 'limit', 'expiresAt', 'reason'];

/** What the form says wrong about itself, in the shape in which the service refuses. */
class FieldError extends Error {
  constructor(
    readonly pointer: string,
    message: string,
  ) {
    super(message);
  }
}

export function askForOverride(dialogs: Dialogs, question: OverrideQuestion): void {
  const { before, key, save } = question;
  let end = firstEnd(before);
  const choose = (chosen: string): void => {
    end = chosen;
    dialogs.redraw();
  };
  dialogs.ask({
    title: before === undefined ? 'Add an override' : 'Change the override',
    action: before === undefined ? 'Add' : 'Save',
    fields: FIELDS,
    body: (refusal) => body(question, end, choose, refusal),
    run: async (form) => {
      const read = readOverride(new FormData(form));
      await save(key ?? before?.key ?? read.key, read.fields);
    },
  });
}

function firstEnd(before: Override | undefined): string {
  if (before === undefined) return '1h';
  return before.expiresAtMs === undefined ? 'never' : 'at';
}

/** What is in the form. What only the service can judge is left to it. */
export function readOverride(form: FormData): {
  readonly key: string;
  readonly fields: OverrideFields;
} {
  const text = (name: string): string => String(form.get(name) ?? '');
  const key = text('key');
  if (form.has('key') && key === '') {
    throw new FieldError('/key', 'Expected a key, or a pattern with * for any characters');
  }
  const limit = text('limit').trim();
  if (!/^\d+$/.test(limit)) {
    throw new FieldError('/limit', `Expected a whole number of at least 1, got \`${limit}\``);
  }
  const reason = text('reason').trim();
  return {
    key,
    fields: {
      limit: Number(limit),
      ...endOf(text('end'), text('at')),
      ...(reason !== '' && { reason }),
    },
  };
}

function endOf(end: string, at: string): Pick<OverrideFields, 'expiresAt' | 'expiresInMs'> {
  if (end === 'never') return {};
  if (end !== 'at') return { expiresInMs: LASTS_MS[end] };
  const expiresAt = readLocalTime(at);
  if (Number.isNaN(expiresAt)) throw new FieldError('/expiresAt', 'Expected a date and a time');
  return { expiresAt };
}

type WrongOf = (field: string) => string | undefined;

function body(
  question: OverrideQuestion,
  end: string,
  choose: (end: string) => void,
  refusal: Refusal | undefined,
): TemplateResult {
  const { policy, before } = question;
  const wrong: WrongOf = (field) => (refusal?.field === field ? refusal.text : undefined);
  return html`
    <p class="hint">
      In the place of ${countText(policy.limit)} per ${windowText(policy.windowMs)} of
      <b>${policy.name}</b>, from the very next decision on.
    </p>
    ${keyField(question, wrong('key'))}
    <div class="field">
      <label for="override-limit">Limit</label>
      <input id="override-limit" name="limit" inputmode="numeric" autocomplete="off"
        value=${before?.limit ?? ''} aria-describedby="override-limit-wrong"
        aria-invalid=${wrong('limit') !== undefined} />
      ${said('limit', wrong('limit'))}
    </div>
    <div class="field">
      <label for="override-end">Counts</label>
      <select id="override-end" name="end"
        @change=${(event: Event) => choose((event.target as HTMLSelectElement).value)}>
        ${ENDS.map(
          ([value, label]) =>
            html`<option value=${value} ?selected=${value === end}>${label}</option>`,
        )}
      </select>
      ${end === 'at' ? timeField(question, wrong('expiresAt')) : nothing}
      ${said('expiresAt', wrong('expiresAt'))}
    </div>
    <div class="field">
      <label for="override-reason">Reason <span class="dim">(optional)</span></label>
      <input id="override-reason" name="reason" autocomplete="off" value=${before?.reason ?? ''}
        aria-describedby="override-reason-wrong" aria-invalid=${wrong('reason') !== undefined} />
      ${said('reason', wrong('reason'))}
    </div>
  `;
}

/** A key that is not asked for is told, as text: it may be anything. */
function keyField({ key, before }: OverrideQuestion, wrong: string | undefined): TemplateResult {
  const known = key ?? before?.key;
  if (known !== undefined) {
    return html`<p class="field">
      <span class="label">Key</span> <code class="key">${known}</code>${said('key', wrong)}
    </p>`;
  }
  return html`<div class="field">
    <label for="override-key">Key or pattern</label>
    <input id="override-key" name="key" autocomplete="off" autocapitalize="off" spellcheck="false"
      class="mono" aria-describedby="override-key-hint override-key-wrong"
      aria-invalid=${wrong !== undefined} />
    <p id="override-key-hint" class="hint">In a pattern, * stands for any characters.</p>
    ${said('key', wrong)}
  </div>`;
}

function timeField({ before, nowMs }: OverrideQuestion, wrong: string | undefined): TemplateResult {
  const endsMs = before?.expiresAtMs ?? nowMs + HOUR_MS;
  return html`<label for="override-at" class="unseen">Time it ends</label>
    <input id="override-at" name="at" type="datetime-local"
      value=${localTime(endsMs).slice(0, 16).replace(' ', 'T')}
      aria-describedby="override-expiresAt-wrong" aria-invalid=${wrong !== undefined} />`;
}

const said = (field: string, wrong: string | undefined): TemplateResult =>
  html`<span id=${`override-${field}-wrong`} class="wrong" role="alert">${wrong ?? nothing}</span>`;
