/** Card with the shadow mode of a policy: its state, its effect and the buttons to change it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { PolicyDefinition, TopReport } from '../api/types.ts';
import type { Question } from '../view/dialog.ts';
import { capitalized, clockText, countWithNoun } from '../view/format.ts';
import { definitionText, deniesAll } from '../view/policy-text.ts';

/** Maximum number of keys that `/v1/top` lists. */
export const MAX_KEYS = 200;

/** Returns `12 keys`, or `at least 200 keys` if the list is incomplete. */
export function keysText({ keys, othersAtMost }: TopReport): string {
  const certain = keys.filter(({ atLeast }) => atLeast > 0).length;
  const isAll = keys.length < MAX_KEYS && othersAtMost === 0;
  return `${isAll ? '' : 'at least '}${countWithNoun(certain, 'key')}`;
}

export interface ShadowActions {
  readonly ask: (question: Question) => void;
  /** Sets shadow mode. Null restores the value of the configuration files. */
  readonly set: (shadow: boolean | null) => Promise<void>;
}

export function shadowCard(
  policy: PolicyDefinition,
  denied: TopReport | undefined,
  actions: ShadowActions,
): TemplateResult {
  return html`<section class="card" aria-labelledby="shadow-title">
    <h2 id="shadow-title">${policy.shadow ? 'Shadow mode' : 'Enforced'}</h2>
    ${policy.shadow ? shadowSummary(denied) : enforcedSummary(policy, denied)}
    ${policy.shadowBy === 'api' ? overrideNote(policy) : nothing}
    ${
      deniesAll(policy)
        ? html`<p class="hint">A limit of 0 can be changed only in the configuration files.</p>`
        : buttons(policy, denied, actions)
    }
  </section>`;
}

function buttons(
  policy: PolicyDefinition,
  denied: TopReport | undefined,
  actions: ShadowActions,
): TemplateResult {
  return html`<div class="row">
    ${policy.shadow ? enforceButton(policy, denied, actions) : shadowButton(policy, actions)}
    ${policy.shadowBy === 'api' ? filesButton(actions) : nothing}
  </div>`;
}

function shadowSummary(denied: TopReport | undefined): TemplateResult {
  const meaning = html`<p>Decisions are reported, but no call is denied.</p>`;
  if (denied === undefined) return meaning;
  const since = clockText(denied.sinceMs);
  if (denied.keys.length === 0) {
    return html`${meaning}
      <p>If enforced, no key would have been denied since ${since}.</p>`;
  }
  return html`${meaning}
    <p class="denied-summary">
      If enforced, <b>${keysText(denied)}</b> would have been denied since ${since},
      ${countWithNoun(denied.hits, 'call')} in total.
    </p>`;
}

function enforcedSummary(policy: PolicyDefinition, denied: TopReport | undefined): TemplateResult {
  const calls = deniesAll(policy) ? 'All calls' : 'Calls above the limit';
  const meaning = html`<p>${calls} are denied.</p>`;
  if (denied === undefined) return meaning;
  const keys = denied.keys.length === 0 ? 'No key' : keysText(denied);
  const total = denied.hits === 0 ? '' : `, ${countWithNoun(denied.hits, 'call')} in total`;
  return html`${meaning}
    <p class="denied-summary">
      ${capitalized(keys)} denied since ${clockText(denied.sinceMs)}${total}.
    </p>`;
}

function overrideNote({ shadow, shadowInFile }: PolicyDefinition): TemplateResult {
  const files = shadowInFile ? 'shadow mode' : 'enforced';
  return html`<p class="hint">
    Set through the API, which overrides the configuration files, also after a reload. In the files:
    ${shadow === shadowInFile ? 'the same.' : `${files}.`}
  </p>`;
}

function enforceButton(
  policy: PolicyDefinition,
  denied: TopReport | undefined,
  { ask, set }: ShadowActions,
): TemplateResult {
  const before =
    denied === undefined || denied.hits === 0
      ? nothing
      : html`<p>
          Since ${clockText(denied.sinceMs)}, it would have denied
          ${countWithNoun(denied.hits, 'call')} of ${keysText(denied)}.
        </p>`;
  const question: Question = {
    title: `Enforce ${policy.name}?`,
    action: 'Enforce',
    isDanger: true,
    body: () => html`<p>
        From the next decision on, all processes deny calls above
        <b>${definitionText(policy)}</b>. Current usage is kept.
      </p>
      ${before}`,
    run: () => set(false),
  };
  return html`<button type="button" @click=${() => ask(question)}>Enforce</button>`;
}

function shadowButton(policy: PolicyDefinition, { ask, set }: ShadowActions): TemplateResult {
  const question: Question = {
    title: `Put ${policy.name} in shadow mode?`,
    action: 'Use shadow mode',
    isDanger: true,
    body: () => html`<p>
      From the next decision on, in all processes, the policy denies no call. It keeps counting and
      reports the calls it would have denied.
    </p>`,
    run: () => set(true),
  };
  return html`<button type="button" class="quiet" @click=${() => ask(question)}>
    Use shadow mode
  </button>`;
}

function filesButton({ ask, set }: ShadowActions): TemplateResult {
  const question: Question = {
    title: 'Use the setting in the files?',
    action: 'Use file setting',
    body: () => html`<p>
      Removes the setting made through the API. The configuration files decide whether the policy is
      enforced, now and after each reload.
    </p>`,
    run: () => set(null),
  };
  return html`<button type="button" class="quiet" @click=${() => ask(question)}>
    Use file setting
  </button>`;
}
