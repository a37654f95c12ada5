/** Icons of buttons. Each button has a label for screen readers. */
import { html, svg, type TemplateResult } from 'lit-html';

const icon = (shape: unknown): TemplateResult =>
  html`<svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor"
    stroke-width="1.6" stroke-linecap="round" aria-hidden="true">${shape}</svg>`;

export const findIcon = (): TemplateResult =>
  icon(svg`<circle cx="7" cy="7" r="4.5" /><path d="m10.5 10.5 4 4" />`);

export const themeIcon = (): TemplateResult =>
  icon(svg`<circle cx="8" cy="8" r="6" /><path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />`);

export const signOutIcon = (): TemplateResult =>
  icon(svg`<path d="M6 2H3v12h3M7 8h7m-3-3 3 3-3 3" />`);
