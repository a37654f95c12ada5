/** The current rates: allowed, denied, shadow-denied and degraded. */
import { html, type TemplateResult } from 'lit-html';
import { COUNT_FIELDS, type CountSeries } from '../api/types.ts';
import { swatch } from '../view/chart.ts';
import {
  type CountField,
  currentRate,
  decisionCount,
  LINE_STYLES,
  RATE_SECONDS,
  sum,
} from '../view/counts.ts';
import { countText, percentText, rateText } from '../view/format.ts';
import type { Range } from '../view/range.ts';

const MEANINGS: Readonly<Record<CountField, string>> = {
  allowed: 'Admitted and charged.',
  denied: 'Denied by a limit.',
  shadowDenied: 'Would have been denied by a policy in shadow mode.',
  degraded: 'Decided without the store, because it was unavailable.',
};

/** `series` is undefined until the first tick. */
export const counters = (series: CountSeries | undefined, range: Range): TemplateResult =>
  html`<ul class="counters" aria-label="Current calls per second">
    ${COUNT_FIELDS.map((field) => counter(field, series, range))}
  </ul>`;

function counter(field: CountField, series: CountSeries | undefined, range: Range): TemplateResult {
  const rate = series === undefined ? '–' : rateText(currentRate(series[field]));
  const all = series === undefined ? 0 : decisionCount(series, RATE_SECONDS);
  const share = all === 0 ? 0 : Math.min(sum(series![field], RATE_SECONDS) / all, 1);
  const total = series === undefined ? 0 : sum(series[field], range.seconds);
  return html`<li class="card counter" title=${MEANINGS[field]}>
    <span class="counter-name">${swatch(LINE_STYLES[field])} ${LINE_STYLES[field].label}</span>
    <span class="counter-now"><b>${rate}</b><span class="unit">/s</span></span>
    <span>${percentText(share)} <span class="dim">of all</span></span>
    <span class="dim">${countText(total)} in ${range.text}</span>
  </li>`;
}
