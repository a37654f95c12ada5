/** What can be done to a key: making it new, and giving it a limit of its own. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport, PolicyDefinition } from '../api/types.ts';
import type { PageContext } from '../page.ts';
import type { Dialogs } from '../view/dialog.ts';
import { countText } from '../view/format.ts';
import { askForOverride } from '../view/override-form.ts';

export interface KeyActions {
  readonly context: PageContext;
  readonly dialogs: Dialogs;
  readonly policy: PolicyDefinition;
  readonly report: KeyReport;
  readonly nowMs: number;
  /** Has the key asked for again, as it is not what it was. */
  readonly changed: () => Promise<void>;
}

/** Longer keys are told by their beginning where they stand in a sentence. */
const MAX_NAME_LENGTH = 60;

export const shortName = (key: string): string => {
  const letters = [...key];
  return letters.length <= MAX_NAME_LENGTH ? key : `${letters.slice(0, MAX_NAME_LENGTH).join('')}…`;
};

export function actionButtons(actions: KeyActions): TemplateResult {
  const { report } = actions;
  const { override, key } = report;
  const isOwn = override?.source === 'api' && override.key === key;
  return html`<div class="row">
    <button type="button" class="quiet" @click=${() => setOverride(actions)}>
      ${isOwn ? 'Change the override' : 'Set an override'}
    </button>
    ${
      isOwn
        ? html`<button type="button" class="quiet" @click=${() => removeOverride(actions)}>
            Remove the override
          </button>`
        : nothing
    }
    <button type="button" class="danger" @click=${() => reset(actions)}>Reset</button>
  </div>`;
}

function reset({ context, dialogs, report, changed }: KeyActions): void {
  const { policy, key, used, limit } = report;
  dialogs.ask({
    title: 'Reset this key?',
    action: 'Reset',
    isDanger: true,
    body: () => html`<p>
        <code class="key">${key}</code> has used ${countText(used)} of ${countText(limit)} under
        <b>${policy}</b>. After a reset it is as good as new: whoever it is can use all of it again
        at once.
      </p>
      <p class="hint">There is no way back. The log tells who did it.</p>`,
    run: async () => {
      await context.api.reset(policy, key);
      await changed();
      context.tell(`${shortName(key)} is as good as new`);
    },
  });
}

function setOverride({ context, dialogs, policy, report, nowMs, changed }: KeyActions): void {
  const { key, override } = report;
  askForOverride(dialogs, {
    ...{ policy, key, nowMs },
    before: override?.source === 'api' && override.key === key ? override : undefined,
    save: async (_, fields) => {
      await context.api.setOverride(policy.name, key, fields);
      await changed();
      context.tell(`${shortName(key)} has a limit of ${countText(fields.limit)} now`);
    },
  });
}

function removeOverride({ context, dialogs, policy, report, changed }: KeyActions): void {
  const { key, override } = report;
  dialogs.ask({
    title: 'Remove the override?',
    action: 'Remove',
    isDanger: true,
    body: () => html`<p>
      <code class="key">${key}</code> has a limit of ${countText(override!.limit)} of its own.
      Without it, what the files say counts, from the very next decision on:
      ${countText(policy.limit)} for most keys of <b>${policy.name}</b>.
    </p>`,
    run: async () => {
      await context.api.deleteOverride(policy.name, key);
      await changed();
      context.tell(`${shortName(key)} has no override any more`);
    },
  });
}
