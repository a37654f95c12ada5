/** A command to try, and a button that copies it. */
import { html, type TemplateResult } from 'lit-html';

export const command = (text: string): TemplateResult => html`<div class="command">
  <pre><code>${text}</code></pre>
  <button type="button" class="quiet small" @click=${(event: Event) => copy(event, text)}>
    Copy
  </button>
</div>`;

/** Where the clipboard is only for pages that came encrypted, the text is at least selected. */
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

/** `curl` that asks this very service. */
export const checkCommand = (policy: string, key: string): string =>
  `curl -s ${location.origin}/v1/check -d '${shellText(JSON.stringify({ policy, key }))}'`;

const shellText = (text: string): string => text.replaceAll("'", `'\\''`);
