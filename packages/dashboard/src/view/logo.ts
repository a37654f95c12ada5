/** The logo: a gate between two posts. */
import { html, type TemplateResult } from 'lit-html';

export const logo =
  (): TemplateResult => html`<svg viewBox="0 0 32 32" class="logo" aria-hidden="true">
  <rect width="32" height="32" rx="7" fill="var(--brand)" />
  <path d="M8 7h4v18H8zM20 7h4v18h-4z" fill="#fff" />
  <path d="M12 7h8v8h-8z" fill="#9ad4f2" />
</svg>`;
