/** The form that adds or changes an override. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Override, OverrideFields } from '../api/types.ts';
import { localTime, parseLocalTime } from '../clock.ts';
import type { Dialogs, FormError } from './dialog.ts';
import { keyView } from './key-text.ts';
import { limitText, type PolicyLimit } from './policy-text.ts';

export interface OverrideFormOptions {
  readonly policy: PolicyLimit & { readonly name: string };
  /** The key of the override; undefined if the user enters it. */
  readonly key?: string;
  /** The override to edit; undefined to add an override. */
  readonly existing?: Override | undefined;
  /** The current time by the service's clock. */
  readonly nowMs: number;
  readonly save: (key: string, fields: OverrideFields) => Promise<void>;
}

const HOUR_MS = 3_600_000;

/** Values and labels of the expiry choices. With `at`, the form has a field for the time. */
const EXPIRY_CHOICES: readonly [string, string][] = [
  ['1h', 'in 1 hour'],
  ['1d', 'in 1 day'],
  ['7d', 'in 7 days'],
  ['at', 'at a given time…'],
  ['never', 'never, until removed'],
];
const EXPIRY_MS: Readonly<Record<string, number>> = {
  '1h': HOUR_MS,
  '1d': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
};

const FIELDS = ['key', 'limit', 'expiresAt', 'reason'];

/** Error of a form field, identified by a JSON pointer as in error responses of the service. */
class FieldError extends Error {
  constructor(
    readonly pointer: string,
    message: string,
  ) {
    super(message);
  }
}

export function askForOverride(dialogs: Dialogs, options: OverrideFormOptions): void {
  const { existing, key, save } = options;
  let expiry = initialExpiry(existing);
  const choose = (chosen: string): void => {
    expiry = chosen;
    dialogs.redraw();
  };
  dialogs.ask({
    title: existing === undefined ? 'Add override' : 'Edit override',
    action: existing === undefined ? 'Add' : 'Save',
    fields: FIELDS,
    body: (error) => formBody(options, expiry, choose, error),
    run: async (form) => {
      const parsed = parseOverride(new FormData(form));
      await save(key ?? existing?.key ?? parsed.key, parsed.fields);
    },
  });
}

function initialExpiry(existing: Override | undefined): string {
  if (existing === undefined) return '1h';
  return existing.expiresAtMs === undefined ? 'never' : 'at';
}

/** Parses the form. Throws `FieldError`. The service validates the limit and the reason. */
export function parseOverride(form: FormData): {
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
      ...expiryFields(text('expiry'), text('at')),
      ...(reason !== '' && { reason }),
    },
  };
}

function expiryFields(
  expiry: string,
  at: string,
): Pick<OverrideFields, 'expiresAt' | 'expiresInMs'> {
  if (expiry === 'never') return {};
  if (expiry !== 'at') return { expiresInMs: EXPIRY_MS[expiry] };
  const expiresAt = parseLocalTime(at);
  if (Number.isNaN(expiresAt)) throw new FieldError('/expiresAt', 'Expected a date and a time');
  return { expiresAt };
}

type FindError = (field: string) => string | undefined;

function formBody(
  options: OverrideFormOptions,
  expiry: string,
  choose: (expiry: string) => void,
  error: FormError | undefined,
): TemplateResult {
  const { policy, existing } = options;
  const errorOf: FindError = (field) => (error?.field === field ? error.text : undefined);
  return html`
    <p class="hint">
      Replaces ${limitText(policy)} of
      <b>${policy.name}</b>, starting with the next decision.
    </p>
    ${keyField(options, errorOf('key'))}
    <div class="field">
      <label for="override-limit">Limit</label>
      <input id="override-limit" name="limit" inputmode="numeric" autocomplete="off"
        value=${existing?.limit ?? ''} aria-describedby="override-limit-wrong"
        aria-invalid=${errorOf('limit') !== undefined} />
      ${fieldError('limit', errorOf('limit'))}
    </div>
    <div class="field">
      <label for="override-end">Expires</label>
      <select id="override-end" name="expiry"
        @change=${(event: Event) => choose((event.target as HTMLSelectElement).value)}>
        ${EXPIRY_CHOICES.map(
          ([value, label]) =>
            html`<option value=${value} ?selected=${value === expiry}>${label}</option>`,
        )}
      </select>
      ${expiry === 'at' ? timeField(options, errorOf('expiresAt')) : nothing}
      ${fieldError('expiresAt', errorOf('expiresAt'))}
    </div>
    <div class="field">
      <label for="override-reason">Reason <span class="dim">(optional)</span></label>
      <input id="override-reason" name="reason" autocomplete="off" value=${existing?.reason ?? ''}
        aria-describedby="override-reason-wrong" aria-invalid=${errorOf('reason') !== undefined} />
      ${fieldError('reason', errorOf('reason'))}
    </div>
  `;
}

/** Shows the key as text if it is given, otherwise an input field. */
function keyField(
  { key, existing }: OverrideFormOptions,
  error: string | undefined,
): TemplateResult {
  const givenKey = key ?? existing?.key;
  if (givenKey !== undefined) {
    return html`<p class="field">
      <span class="label">Key</span>
      <code class="key">${keyView(givenKey)}</code>${fieldError('key', error)}
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

function timeField(
  { existing, nowMs }: OverrideFormOptions,
  error: string | undefined,
): TemplateResult {
  const expiresMs = existing?.expiresAtMs ?? nowMs + HOUR_MS;
  return html`<label for="override-at" class="unseen">Expiry time</label>
    <input id="override-at" name="at" type="datetime-local"
      value=${localTime(expiresMs).slice(0, 16).replace(' ', 'T')}
      aria-describedby="override-expiresAt-wrong" aria-invalid=${error !== undefined} />`;
}

const fieldError = (field: string, error: string | undefined): TemplateResult =>
  html`<span id=${`override-${field}-wrong`} class="wrong" role="alert">${error ?? nothing}</span>`;
