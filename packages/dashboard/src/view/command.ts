/** A shell command with a copy button. */
import { html, type TemplateResult } from 'lit-html';

export const command = (text: string): TemplateResult => html`<div class="command">
  <pre><code>${text}</code></pre>
  <button type="button" class="quiet small" @click=${(event: Event) => copy(event, text)}>
    Copy
  </button>
</div>`;

/** Selects the text where the browser has no clipboard access (plain HTTP). */
async function copy(event: Event, text: string): Promise<void> {
  const button = event.currentTarget as HTMLElement;
  try {
    await navigator.clipboard.writeText(text);
    button.dataset.done = 'copied';
  } catch {
    getSelection()?.selectAllChildren(button.parentElement!.querySelector('code')!);
    button.dataset.done = 'selected';
  }
}

/** A `curl` command that sends a check to this service. */
export const checkCommand = (policy: string, key: string): string =>
  `curl -s ${location.origin}/v1/check -d '${shellText(JSON.stringify({ policy, key }))}'`;

const shellText = (text: string): string => text.replaceAll("'", `'\\''`);
