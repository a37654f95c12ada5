/** Whether a policy is in the way of anybody, what it would do, and changing that. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { PolicyDefinition, TopReport } from '../api/types.ts';
import type { Question } from '../view/dialog.ts';
import { clockText, counted } from '../view/format.ts';
import { definitionText } from '../view/policy-text.ts';

/** The most keys that the service lists. */
export const MAX_KEYS = 200;

/** `12 clients`, or `at least 200 clients` where more may have been than are listed. */
export function clientsText({ keys, othersAtMost }: TopReport): string {
  const certain = keys.filter(({ atLeast }) => atLeast > 0).length;
  const isAll = keys.length < MAX_KEYS && othersAtMost === 0;
  return `${isAll ? '' : 'at least '}${counted(certain, 'client')}`;
}

export interface ShadowActions {
  readonly ask: (question: Question) => void;
  /** Null: as the files say. */
  readonly set: (shadow: boolean | null) => Promise<void>;
}

export function shadowCard(
  policy: PolicyDefinition,
  denied: TopReport | undefined,
  actions: ShadowActions,
): TemplateResult {
  return html`<section class="card" aria-labelledby="shadow-title">
    <h2 id="shadow-title">${policy.shadow ? 'In shadow' : 'Enforced'}</h2>
    ${policy.shadow ? shadowStory(denied) : enforcedStory(denied)}
    ${policy.shadowBy === 'api' ? byHand(policy) : nothing}
    <div class="row">
      ${policy.shadow ? enforceButton(policy, denied, actions) : demoteButton(policy, actions)}
      ${policy.shadowBy === 'api' ? filesButton(actions) : nothing}
    </div>
  </section>`;
}

function shadowStory(denied: TopReport | undefined): TemplateResult {
  const told = html`<p>It is decided and reported, but never in the way.</p>`;
  if (denied === undefined) return told;
  if (denied.keys.length === 0) {
    return html`${told}
      <p>If this were on, nobody would have been denied since ${clockText(denied.sinceMs)}.</p>`;
  }
  return html`${told}
    <p class="story">
      If this were on, <b>${clientsText(denied)}</b> would have been denied since
      ${clockText(denied.sinceMs)}, ${counted(denied.hits, 'call')} in all.
    </p>`;
}

function enforcedStory(denied: TopReport | undefined): TemplateResult {
  const told = html`<p>Calls that do not fit are denied.</p>`;
  if (denied === undefined) return told;
  const who = denied.keys.length === 0 ? 'Nobody was' : `${clientsText(denied)} were`;
  const calls = denied.hits === 0 ? '' : `, ${counted(denied.hits, 'call')} in all`;
  return html`${told}
    <p class="story">${sentence(who)} denied since ${clockText(denied.sinceMs)}${calls}.</p>`;
}

const sentence = (text: string): string => text[0].toUpperCase() + text.slice(1);

function byHand({ shadow, shadowInFile }: PolicyDefinition): TemplateResult {
  const files = shadowInFile ? 'in shadow' : 'enforced';
  return html`<p class="hint">
    Set by hand, which goes before the files, also when they are read again. They
    ${shadow === shadowInFile ? 'say the same.' : `have it ${files}.`}
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
          Since ${clockText(denied.sinceMs)} that would have been ${counted(denied.hits, 'call')} of
          ${clientsText(denied)}.
        </p>`;
  const question: Question = {
    title: `Enforce ${policy.name}?`,
    action: 'Enforce it',
    isDanger: true,
    body: () => html`<p>
        From the very next decision on, in all processes, calls that do not fit
        <b>${definitionText(policy)}</b> are denied. What it has counted until now counts.
      </p>
      ${before}`,
    run: () => set(false),
  };
  return html`<button type="button" @click=${() => ask(question)}>Enforce it</button>`;
}

function demoteButton(policy: PolicyDefinition, { ask, set }: ShadowActions): TemplateResult {
  const question: Question = {
    title: `Put ${policy.name} in shadow?`,
    action: 'Put in shadow',
    isDanger: true,
    body: () => html`<p>
      From the very next decision on, in all processes, nobody is denied by it. It still counts,
      and tells whom it would have denied.
    </p>`,
    run: () => set(true),
  };
  return html`<button type="button" class="quiet" @click=${() => ask(question)}>
    Put in shadow
  </button>`;
}

function filesButton({ ask, set }: ShadowActions): TemplateResult {
  const question: Question = {
    title: 'Do as the files say?',
    action: 'As the files say',
    body: () => html`<p>
      What was set by hand is taken back. Whether the policy is then in shadow or enforced is for
      the files to say, now and whenever they are read again.
    </p>`,
    run: () => set(null),
  };
  return html`<button type="button" class="quiet" @click=${() => ask(question)}>
    As the files say
  </button>`;
}
