/** What is decided at the moment, in four numbers. */
import { html, type TemplateResult } from 'lit-html';
import { COUNTED, type CountSeries } from '../api/types.ts';
import { swatch } from '../view/chart.ts';
import { allOf, type Counted, LOOKS, NOW_SECONDS, rateOf, sum } from '../view/counts.ts';
import { countText, percentText, rateText } from '../view/format.ts';
import type { Range } from '../view/range.ts';

const MEANS: Readonly<Record<Counted, string>> = {
  allowed: 'Limits that had room and were charged.',
  denied: 'Limits that had no room.',
  shadowDenied: 'What policies in shadow would have denied.',
  degraded: 'Decided without the store, because it was away.',
};

/** `series` is undefined as long as nothing is known. */
export const counters = (series: CountSeries | undefined, range: Range): TemplateResult =>
  html`<ul class="counters" aria-label="Calls a second now">
    ${COUNTED.map((field) => counter(field, series, range))}
  </ul>`;

function counter(field: Counted, series: CountSeries | undefined, range: Range): TemplateResult {
  const rate = series === undefined ? '–' : rateText(rateOf(series[field]));
  const all = series === undefined ? 0 : allOf(series, NOW_SECONDS);
  const share = all === 0 ? 0 : Math.min(sum(series![field], NOW_SECONDS) / all, 1);
  const total = series === undefined ? 0 : sum(series[field], range.seconds);
  return html`<li class="card counter" title=${MEANS[field]}>
    <span class="counter-name">${swatch(LOOKS[field])} ${LOOKS[field].label}</span>
    <span class="counter-now"><b>${rate}</b><span class="unit">/s</span></span>
    <span>${percentText(share)} <span class="dim">of all</span></span>
    <span class="dim">${countText(total)} in ${range.text}</span>
  </li>`;
}
