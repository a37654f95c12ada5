/** Buttons that reset a key, and that set, edit or remove its override. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { isConcurrency } from 'sluice/engine';
import type { KeyReport, PolicyDefinition } from '../api/types.ts';
import type { PageContext } from '../page.ts';
import type { Dialogs } from '../view/dialog.ts';
import { countText } from '../view/format.ts';
import { keyView, shortKeyText } from '../view/key-text.ts';
import { askForOverride } from '../view/override-form.ts';

export interface KeyActionContext {
  readonly context: PageContext;
  readonly dialogs: Dialogs;
  readonly policy: PolicyDefinition;
  readonly report: KeyReport;
  readonly nowMs: number;
  /** Reloads the key after a change. */
  readonly reloadKey: () => Promise<void>;
}

export function actionButtons(actions: KeyActionContext): TemplateResult {
  const { report } = actions;
  const { override, key } = report;
  const hasApiOverride = override?.source === 'api' && override.key === key;
  return html`<div class="row">
    <button type="button" class="quiet" @click=${() => setOverride(actions)}>
      ${hasApiOverride ? 'Edit override' : 'Set override'}
    </button>
    ${
      hasApiOverride
        ? html`<button type="button" class="quiet" @click=${() => removeOverride(actions)}>
            Remove override
          </button>`
        : nothing
    }
    <button type="button" class="danger" @click=${() => reset(actions)}>Reset</button>
  </div>`;
}

function reset({ context, dialogs, report, reloadKey }: KeyActionContext): void {
  const { policy, key, used, limit } = report;
  dialogs.ask({
    title: 'Reset this key?',
    action: 'Reset',
    isDanger: true,
    body: () => html`<p>
        <code class="key">${keyView(key)}</code> ${isConcurrency(report) ? 'holds' : 'has used'}
        ${countText(used)} of ${countText(limit)} under <b>${policy}</b>. A reset deletes
        this state, and the full limit is available at once.
      </p>
      <p class="hint">This cannot be undone. The reset is logged.</p>`,
    run: async () => {
      await context.api.reset(policy, key);
      await reloadKey();
      context.notify(`${shortKeyText(key)} reset`);
    },
  });
}

function setOverride({
  context,
  dialogs,
  policy,
  report,
  nowMs,
  reloadKey,
}: KeyActionContext): void {
  const { key, override } = report;
  askForOverride(dialogs, {
    ...{ policy, key, nowMs },
    existing: override?.source === 'api' && override.key === key ? override : undefined,
    save: async (_, fields) => {
      await context.api.setOverride(policy.name, key, fields);
      await reloadKey();
      context.notify(`${shortKeyText(key)} now has a limit of ${countText(fields.limit)}`);
    },
  });
}

function removeOverride({ context, dialogs, policy, report, reloadKey }: KeyActionContext): void {
  const { key, override } = report;
  dialogs.ask({
    title: 'Remove override?',
    action: 'Remove',
    isDanger: true,
    body: () => html`<p>
      <code class="key">${keyView(key)}</code> has its own limit of ${countText(override!.limit)}.
      Without the override, the configured limit of <b>${policy.name}</b> applies from the next
      decision: ${countText(policy.limit)}, unless another override matches this key.
    </p>`,
    run: async () => {
      await context.api.deleteOverride(policy.name, key);
      await reloadKey();
      context.notify(`Override for ${shortKeyText(key)} removed`);
    },
  });
}
