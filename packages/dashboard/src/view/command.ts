/** A shell command with a copy button. */
import { html, type TemplateResult } from 'lit-html';
import { visibleJson } from './key-text.ts';

export const command = (text: string): TemplateResult => html`<div class="command">
  <pre><code>${text}</code></pre>
  <button type="button" class="quiet small" @click=${(event: Event) => copy(event, text)}>
    Copy
  </button>
</div>`;

/** Copies the text. If the browser denies clipboard access, as with plain HTTP, selects it. */
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

/** Returns a `curl` command that sends a check to this service. */
export const checkCommand = (policy: string, key: string): string =>
  `curl -s ${location.origin}/v1/check -d '${escapeQuotes(visibleJson({ policy, key }))}'`;

const escapeQuotes = (text: string): string => text.replaceAll("'", `'\\''`);
