/** The four things that are counted: what they are called, and how they are drawn everywhere. */
import { COUNTED, type CountSeries } from '../api/types.ts';
import type { ChartFigure, ChartLine } from './chart.ts';
import { counted, rateText } from './format.ts';

export type Counted = (typeof COUNTED)[number];
type Drawn = Counted | 'shadowAllowed';

type Looks = Omit<ChartLine, 'values'>;

const seldom = { isHiddenAtZero: true };

export const LOOKS: Readonly<Record<Drawn, Looks>> = {
  allowed: { label: 'Allowed', colour: '--allowed', isStacked: true },
  denied: { label: 'Denied', colour: '--denied', dash: [9, 3], isStacked: true, ...seldom },
  shadowAllowed: { label: 'Shadow-allowed', colour: '--dim', dash: [1, 4], ...seldom },
  shadowDenied: { label: 'Shadow-denied', colour: '--shadow-denied', dash: [3, 3], ...seldom },
  degraded: { label: 'Degraded', colour: '--degraded', dash: [9, 3, 2, 3], ...seldom },
};

/** Of a policy in shadow; the rest is from before it was. */
export const OF_SHADOW: readonly Drawn[] = ['shadowAllowed', ...COUNTED];

/** How many seconds "now" is, so that it can be read before it is something else. */
export const NOW_SECONDS = 5;

export const sum = (counts: readonly number[], seconds: number): number =>
  counts.slice(-seconds).reduce((all, each) => all + each, 0);

/** How often a second, lately. */
export const rateOf = (counts: readonly number[]): number => sum(counts, NOW_SECONDS) / NOW_SECONDS;

/** How many were counted at all; what is degraded is also allowed or denied. */
export const allOf = (series: CountSeries, seconds: number): number =>
  sum(series.allowed, seconds) +
  sum(series.denied, seconds) +
  sum(series.shadowAllowed, seconds) +
  sum(series.shadowDenied, seconds);

/** The last seconds of what was counted, as a chart. */
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
    label: `Calls a second over the last ${span}; now ${now.join(', ')}`,
    times: times.slice(-seconds),
    lines,
  };
}
