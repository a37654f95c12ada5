/** The form that adds or changes an override. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Override, OverrideFields } from '../api/types.ts';
import { localTime, readLocalTime } from '../clock.ts';
import type { Dialogs, FormError } from './dialog.ts';
import { countText, windowText } from './format.ts';

export interface OverrideQuestion {
  readonly policy: { readonly name: string; readonly limit: number; readonly windowMs: number };
  /** If given, the form has no key field. */
  readonly key?: string;
  /** The override to change. */
  readonly before?: Override | undefined;
  /** By the service's clock. */
  readonly nowMs: number;
  readonly save: (key: string, fields: OverrideFields) => Promise<void>;
}

const HOUR_MS = 3_600_000;

/** `at` shows a time field. */
const EXPIRIES: readonly [string, string][] = [
  ['1h', 'for 1 hour'],
  ['1d', 'for 1 day'],
  ['7d', 'for 7 days'],
  ['at', 'until a given time…'],
  ['never', 'until removed'],
];
const LASTS_MS: Readonly<Record<string, number>> = {
  '1h': HOUR_MS,
  '1d': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
};

const FIELDS = ['key', 'limit', 'expiresAt', 'reason'];

/** A validation error of the form, with a pointer like the errors of the service. */
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
    title: before === undefined ? 'Add override' : 'Edit override',
    action: before === undefined ? 'Add' : 'Save',
    fields: FIELDS,
    body: (error) => body(question, end, choose, error),
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

/** Reads the form. The service validates the values. */
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

type ErrorOf = (field: string) => string | undefined;

function body(
  question: OverrideQuestion,
  end: string,
  choose: (end: string) => void,
  error: FormError | undefined,
): TemplateResult {
  const { policy, before } = question;
  const errorOf: ErrorOf = (field) => (error?.field === field ? error.text : undefined);
  return html`
    <p class="hint">
      Replaces ${countText(policy.limit)} per ${windowText(policy.windowMs)} of
      <b>${policy.name}</b>, starting with the next decision.
    </p>
    ${keyField(question, errorOf('key'))}
    <div class="field">
      <label for="override-limit">Limit</label>
      <input id="override-limit" name="limit" inputmode="numeric" autocomplete="off"
        value=${before?.limit ?? ''} aria-describedby="override-limit-wrong"
        aria-invalid=${errorOf('limit') !== undefined} />
      ${fieldError('limit', errorOf('limit'))}
    </div>
    <div class="field">
      <label for="override-end">Expires</label>
      <select id="override-end" name="end"
        @change=${(event: Event) => choose((event.target as HTMLSelectElement).value)}>
        ${EXPIRIES.map(
          ([value, label]) =>
            html`<option value=${value} ?selected=${value === end}>${label}</option>`,
        )}
      </select>
      ${end === 'at' ? timeField(question, errorOf('expiresAt')) : nothing}
      ${fieldError('expiresAt', errorOf('expiresAt'))}
    </div>
    <div class="field">
      <label for="override-reason">Reason <span class="dim">(optional)</span></label>
      <input id="override-reason" name="reason" autocomplete="off" value=${before?.reason ?? ''}
        aria-describedby="override-reason-wrong" aria-invalid=${errorOf('reason') !== undefined} />
      ${fieldError('reason', errorOf('reason'))}
    </div>
  `;
}

/** Shows a given key as text, or a field for it. */
function keyField({ key, before }: OverrideQuestion, error: string | undefined): TemplateResult {
  const known = key ?? before?.key;
  if (known !== undefined) {
    return html`<p class="field">
      <span class="label">Key</span> <code class="key">${known}</code>${fieldError('key', error)}
    </p>`;
  }
  return html`<div class="field">
    <label for="override-key">Key or pattern</label>
    <input id="override-key" name="key" autocomplete="off" autocapitalize="off" spellcheck="false"
      class="mono" aria-describedby="override-key-hint override-key-wrong"
      aria-invalid=${error !== undefined} />
    <p id="override-key-hint" class="hint">In a pattern, * matches any characters.</p>
    ${fieldError('key', error)}
  </div>`;
}

function timeField({ before, nowMs }: OverrideQuestion, error: string | undefined): TemplateResult {
  const endsMs = before?.expiresAtMs ?? nowMs + HOUR_MS;
  return html`<label for="override-at" class="unseen">Expiry time</label>
    <input id="override-at" name="at" type="datetime-local"
      value=${localTime(endsMs).slice(0, 16).replace(' ', 'T')}
      aria-describedby="override-expiresAt-wrong" aria-invalid=${error !== undefined} />`;
}

const fieldError = (field: string, error: string | undefined): TemplateResult =>
  html`<span id=${`override-${field}-wrong`} class="wrong" role="alert">${error ?? nothing}</span>`;
