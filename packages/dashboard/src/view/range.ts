/**
 * Time range of the charts: up to ten minutes by second, or up to a day by minute. The URL contains
 * the range.
 */
import { html, type TemplateResult } from 'lit-html';

const CHOICES: readonly [minutes: number, text: string][] = [
  [1, '1 min'],
  [5, '5 min'],
  [10, '10 min'],
  [60, '1 h'],
  [1440, '24 h'],
];
const DEFAULT_MINUTES = 5;
const MAX_MINUTES_BY_SECOND = 10;

export interface Range {
  readonly minutes: number;
  readonly seconds: number;
  /** Length of a step: a second or a minute. */
  readonly stepMs: number;
  /** Number of steps. */
  readonly steps: number;
  readonly isByMinute: boolean;
  /** Label such as `5 min`. */
  readonly text: string;
}

export function parseRange(given: string | undefined): Range {
  const isGiven = CHOICES.some(([each]) => String(each) === given);
  const minutes = isGiven ? Number(given) : DEFAULT_MINUTES;
  const [, text] = CHOICES.find(([each]) => each === minutes)!;
  const isByMinute = minutes > MAX_MINUTES_BY_SECOND;
  const seconds = minutes * 60;
  const stepMs = isByMinute ? 60_000 : 1000;
  return { minutes, seconds, stepMs, steps: (seconds * 1000) / stepMs, isByMinute, text };
}

export const rangeButtons = (current: Range, choose: (text: string) => void): TemplateResult =>
  html`<div class="segments" role="group" aria-label="Time range">
    ${CHOICES.map(
      ([minutes, text]) => html`<button
        type="button"
        aria-pressed=${minutes === current.minutes}
        @click=${() => choose(String(minutes))}
      >
        ${text}
      </button>`,
    )}
  </div>`;

/** Returns a link to Grafana, which has a longer history, if its URL is configured. */
export const grafanaLink = (url: string | undefined): TemplateResult | undefined =>
  url === undefined
    ? undefined
    : html`<a class="grafana" href=${url} target="_blank" rel="noopener noreferrer">Grafana</a>`;
