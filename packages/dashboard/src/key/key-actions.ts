/** Actions on a key: reset, and set, change or remove an override. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport, PolicyDefinition } from '../api/types.ts';
import type { PageContext } from '../page.ts';
import type { Dialogs } from '../view/dialog.ts';
import { countText } from '../view/format.ts';
import { askForOverride } from '../view/override-form.ts';

export interface KeyActionContext {
  readonly context: PageContext;
  readonly dialogs: Dialogs;
  readonly policy: PolicyDefinition;
  readonly report: KeyReport;
  readonly nowMs: number;
  /** Reloads the key after a change. */
  readonly changed: () => Promise<void>;
}

/** Longer keys are truncated in messages. */
const MAX_NAME_LENGTH = 60;

export const truncateKey = (key: string): string => {
  const letters = [...key];
  return letters.length <= MAX_NAME_LENGTH ? key : `${letters.slice(0, MAX_NAME_LENGTH).join('')}…`;
};

export function actionButtons(actions: KeyActionContext): TemplateResult {
  const { report } = actions;
  const { override, key } = report;
  const isOwn = override?.source === 'api' && override.key === key;
  return html`<div class="row">
    <button type="button" class="quiet" @click=${() => setOverride(actions)}>
      ${isOwn ? 'Edit override' : 'Set override'}
    </button>
    ${
      isOwn
        ? html`<button type="button" class="quiet" @click=${() => removeOverride(actions)}>
            Remove override
          </button>`
        : nothing
    }
    <button type="button" class="danger" @click=${() => reset(actions)}>Reset</button>
  </div>`;
}

function reset({ context, dialogs, report, changed }: KeyActionContext): void {
  const { policy, key, used, limit } = report;
  dialogs.ask({
    title: 'Reset this key?',
    action: 'Reset',
    isDanger: true,
    body: () => html`<p>
        <code class="key">${key}</code> has used ${countText(used)} of ${countText(limit)} under
        <b>${policy}</b>. A reset deletes this state, and the full limit is available at once.
      </p>
      <p class="hint">This cannot be undone. The reset is logged.</p>`,
    run: async () => {
      await context.api.reset(policy, key);
      await changed();
      context.notify(`${truncateKey(key)} reset`);
    },
  });
}

function setOverride({ context, dialogs, policy, report, nowMs, changed }: KeyActionContext): void {
  const { key, override } = report;
  askForOverride(dialogs, {
    ...{ policy, key, nowMs },
    existing: override?.source === 'api' && override.key === key ? override : undefined,
    save: async (_, fields) => {
      await context.api.setOverride(policy.name, key, fields);
      await changed();
      context.notify(`${truncateKey(key)} now has a limit of ${countText(fields.limit)}`);
    },
  });
}

function removeOverride({ context, dialogs, policy, report, changed }: KeyActionContext): void {
  const { key, override } = report;
  dialogs.ask({
    title: 'Remove override?',
    action: 'Remove',
    isDanger: true,
    body: () => html`<p>
      <code class="key">${key}</code> has its own limit of ${countText(override!.limit)}. Without
      it, the limit in the files applies from the next decision: ${countText(policy.limit)} for most
      keys of <b>${policy.name}</b>.
    </p>`,
    run: async () => {
      await context.api.deleteOverride(policy.name, key);
      await changed();
      context.notify(`Override for ${truncateKey(key)} removed`);
    },
  });
}
