/** Labels and line styles of the counted decisions, and their chart. */
import { COUNTED, type CountSeries } from '../api/types.ts';
import type { ChartFigure, ChartLine } from './chart.ts';
import { counted, rateText } from './format.ts';

export type Counted = (typeof COUNTED)[number];
type Drawn = Counted | 'shadowAllowed';

type Looks = Omit<ChartLine, 'values'>;

const RARE = { isHiddenAtZero: true };

export const LOOKS: Readonly<Record<Drawn, Looks>> = {
  allowed: { label: 'Allowed', colour: '--allowed', isStacked: true },
  denied: { label: 'Denied', colour: '--denied', dash: [9, 3], isStacked: true, ...RARE },
  shadowAllowed: { label: 'Shadow-allowed', colour: '--dim', dash: [1, 4], ...RARE },
  shadowDenied: { label: 'Shadow-denied', colour: '--shadow-denied', dash: [3, 3], ...RARE },
  degraded: { label: 'Degraded', colour: '--degraded', dash: [9, 3, 2, 3], ...RARE },
};

/** Lines for a shadow policy; the enforced counts are from before shadow mode. */
export const OF_SHADOW: readonly Drawn[] = ['shadowAllowed', ...COUNTED];

/** Current rates are averages over this many seconds. */
export const NOW_SECONDS = 5;

export const sum = (counts: readonly number[], seconds: number): number =>
  counts.slice(-seconds).reduce((all, each) => all + each, 0);

/** The current rate per second. */
export const rateOf = (counts: readonly number[]): number => sum(counts, NOW_SECONDS) / NOW_SECONDS;

/** The number of decisions; degraded ones are also counted as allowed or denied. */
export const allOf = (series: CountSeries, seconds: number): number =>
  sum(series.allowed, seconds) +
  sum(series.denied, seconds) +
  sum(series.shadowAllowed, seconds) +
  sum(series.shadowDenied, seconds);

/** Chart of the last `seconds`. */
export function countsFigure(
  series: CountSeries,
  times: readonly number[],
  seconds: number,
  fields: readonly Drawn[] = COUNTED,
): ChartFigure {
  const lines = fields.map((field) => ({ ...LOOKS[field], values: series[field].slice(-seconds) }));
  const now = fields.map(
    (field) => `${LOOKS[field].label.toLowerCase()} ${rateText(rateOf(series[field]))}`,
  );
  const span = counted(Math.round(seconds / 60), 'minute');
  return {
    label: `Calls per second over the last ${span}; now ${now.join(', ')}`,
    times: times.slice(-seconds),
    lines,
  };
}
