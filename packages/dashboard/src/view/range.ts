/** Time range of the charts: 1, 5 or 10 minutes. It is part of the URL. */
import { html, type TemplateResult } from 'lit-html';

const MINUTES = [1, 5, 10] as const;
const DEFAULT_MINUTES = 5;

export interface Range {
  readonly minutes: number;
  readonly seconds: number;
  /** `5 min` */
  readonly text: string;
}

export function parseRange(text: string | undefined): Range {
  const minutes = MINUTES.find((each) => String(each) === text) ?? DEFAULT_MINUTES;
  return { minutes, seconds: minutes * 60, text: `${minutes} min` };
}

export const rangeButtons = (current: Range, choose: (text: string) => void): TemplateResult =>
  html`<div class="segments" role="group" aria-label="Time range">
    ${MINUTES.map(
      (minutes) => html`<button
        type="button"
        aria-pressed=${minutes === current.minutes}
        @click=${() => choose(String(minutes))}
      >
        ${minutes} min
      </button>`,
    )}
  </div>`;
