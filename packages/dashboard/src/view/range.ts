/** Time range of the charts: 1, 5 or 10 minutes, kept in the address. */
import { html, type TemplateResult } from 'lit-html';

const MINUTES = [1, 5, 10] as const;
const DEFAULT = 5;

export interface Range {
  readonly minutes: number;
  readonly seconds: number;
  /** `5 min` */
  readonly text: string;
}

export function readRange(text: string | undefined): Range {
  const minutes = MINUTES.find((each) => String(each) === text) ?? DEFAULT;
  return { minutes, seconds: minutes * 60, text: `${minutes} min` };
}

export const rangeButtons = (now: Range, choose: (text: string) => void): TemplateResult =>
  html`<div class="segments" role="group" aria-label="Time range">
    ${MINUTES.map(
      (minutes) => html`<button
        type="button"
        aria-pressed=${minutes === now.minutes}
        @click=${() => choose(String(minutes))}
      >
        ${minutes} min
      </button>`,
    )}
  </div>`;
