/** Labels, line styles and chart of the numbers of decisions. */
import { COUNT_FIELDS, type CountSeries } from '../api/types.ts';
import type { ChartFigure, ChartLine } from './chart.ts';
import { countWithNoun, rateText } from './format.ts';

export type CountField = (typeof COUNT_FIELDS)[number];
type ChartField = CountField | 'shadowAllowed';

type LineStyle = Omit<ChartLine, 'values'>;

const HIDDEN_AT_ZERO = { isHiddenAtZero: true };

export const LINE_STYLES: Readonly<Record<ChartField, LineStyle>> = {
  allowed: { label: 'Allowed', colour: '--allowed', isStacked: true },
  denied: { label: 'Denied', colour: '--denied', dash: [9, 3], isStacked: true, ...HIDDEN_AT_ZERO },
  shadowAllowed: { label: 'Shadow-allowed', colour: '--dim', dash: [1, 4], ...HIDDEN_AT_ZERO },
  shadowDenied: {
    label: 'Shadow-denied',
    colour: '--shadow-denied',
    dash: [3, 3],
    ...HIDDEN_AT_ZERO,
  },
  degraded: { label: 'Degraded', colour: '--degraded', dash: [9, 3, 2, 3], ...HIDDEN_AT_ZERO },
};

/**
 * Fields in the chart of a policy in shadow mode. `allowed` and `denied` are from before the mode.
 */
export const SHADOW_FIELDS: readonly ChartField[] = ['shadowAllowed', ...COUNT_FIELDS];

/** Current rates are averages over this many seconds. */
export const RATE_SECONDS = 5;

/** Returns the sum over the last `seconds`. */
export const sum = (counts: readonly number[], seconds: number): number =>
  counts.slice(-seconds).reduce((all, each) => all + each, 0);

/** Returns the rate per second, averaged over the last `RATE_SECONDS`. */
export const currentRate = (counts: readonly number[]): number =>
  sum(counts, RATE_SECONDS) / RATE_SECONDS;

/** Returns the number of decisions. `degraded` is not added: it is included in the other counts. */
export const decisionCount = (series: CountSeries, seconds: number): number =>
  sum(series.allowed, seconds) +
  sum(series.denied, seconds) +
  sum(series.shadowAllowed, seconds) +
  sum(series.shadowDenied, seconds);

/** Returns the chart of the last `seconds`. */
export function countsFigure(
  series: CountSeries,
  times: readonly number[],
  seconds: number,
  fields: readonly ChartField[] = COUNT_FIELDS,
): ChartFigure {
  const lines = fields.map((field) => ({
    ...LINE_STYLES[field],
    values: series[field].slice(-seconds),
  }));
  const now = fields.map(
    (field) => `${LINE_STYLES[field].label.toLowerCase()} ${rateText(currentRate(series[field]))}`,
  );
  const span = countWithNoun(Math.round(seconds / 60), 'minute');
  return {
    label: `Calls per second over the last ${span}; now ${now.join(', ')}`,
    times: times.slice(-seconds),
    lines,
  };
}
