/** Cards with the current rates: allowed, denied, shadow-denied and degraded. */
import { html, type TemplateResult } from 'lit-html';
import { COUNT_FIELDS, type CountSeries } from '../api/types.ts';
import { swatch } from '../view/chart.ts';
import {
  type CountField,
  currentRateText,
  decisionCount,
  LINE_STYLES,
  RATE_SECONDS,
  sum,
} from '../view/counts.ts';
import { countText, percentText } from '../view/format.ts';

const MEANINGS: Readonly<Record<CountField, string>> = {
  allowed: 'Admitted and charged.',
  denied: 'Denied by a limit.',
  shadowDenied: 'Would have been denied by a policy in shadow mode.',
  degraded: 'Decided without the store, because it was unavailable.',
};

export interface RateCards {
  /** Counts of the last seconds; undefined if unknown. */
  readonly current: CountSeries | undefined;
  /** Returns the number of calls in the range, or undefined if the number is unknown. */
  readonly total: (field: CountField) => number | undefined;
  /** The time that `total` covers: `in 5 min`. */
  readonly span: string;
}

export const counters = (cards: RateCards): TemplateResult =>
  html`<ul class="counters" aria-label="Current calls per second">
    ${COUNT_FIELDS.map((field) => counter(field, cards))}
  </ul>`;

function counter(field: CountField, { current, total, span }: RateCards): TemplateResult {
  const rate = current === undefined ? '–' : currentRateText(current[field]);
  const all = current === undefined ? 0 : decisionCount(current, RATE_SECONDS);
  const share = all === 0 ? undefined : Math.min(sum(current![field], RATE_SECONDS) / all, 1);
  const count = total(field);
  return html`<li class="card counter" title=${MEANINGS[field]}>
    <span class="counter-name">${swatch(LINE_STYLES[field])} ${LINE_STYLES[field].label}</span>
    <span class="counter-now"><b>${rate}</b><span class="unit">/s</span></span>
    <span>
      ${share === undefined ? '–' : percentText(share)} <span class="dim">of decisions</span>
    </span>
    <span class="dim">
      ${count === undefined ? '–' : countText(count)} <span class="unbroken">${span}</span>
    </span>
  </li>`;
}
