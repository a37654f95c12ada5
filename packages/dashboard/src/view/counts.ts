/** Labels, line styles and charts of decision counts. */
import { COUNT_FIELDS, type CountSeries } from '../api/types.ts';
import type { ChartFigure, ChartLine } from './chart.ts';
import { countText, countWithNoun, dateText, minuteText, rateText } from './format.ts';
import type { Range } from './range.ts';

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
 * Fields in the chart of a policy in shadow mode. `allowed` and `denied` are not 0 if the chart
 * includes a time before the policy entered shadow mode.
 */
export const SHADOW_FIELDS: readonly ChartField[] = ['shadowAllowed', ...COUNT_FIELDS];

/** Current rates are averages over this many seconds. */
export const RATE_SECONDS = 5;

type Values = readonly (number | null)[];

/** Returns the sum over the last `steps`. Unknown steps count as 0. */
export const sum = (counts: Values, steps: number): number =>
  steps === 0 ? 0 : counts.slice(-steps).reduce<number>((all, each) => all + (each ?? 0), 0);

/**
 * Returns the mean count of the last `RATE_SECONDS` seconds. Ignores seconds without a known count,
 * and returns undefined if there are no others.
 */
export function currentRate(counts: Values): number | undefined {
  const known = counts.slice(-RATE_SECONDS).filter((each) => each !== null).length;
  return known === 0 ? undefined : sum(counts, RATE_SECONDS) / known;
}

export const currentRateText = (counts: Values): string => {
  const rate = currentRate(counts);
  return rate === undefined ? '–' : rateText(rate);
};

/** Returns the number of decisions. Degraded decisions are already part of the other counts. */
export const decisionCount = (series: CountSeries, steps: number): number =>
  sum(series.allowed, steps) +
  sum(series.denied, steps) +
  sum(series.shadowAllowed, steps) +
  sum(series.shadowDenied, steps);

export const chartTitle = ({ isByMinute }: Range): string =>
  isByMinute ? 'Calls per minute' : 'Calls per second';

/** Note beside the title. The line of denied calls is drawn at the sum of allowed and denied. */
export const STACK_NOTE = 'denied calls on top of allowed calls';

/** Returns the chart of the counts in a time range. */
export function countsFigure(
  series: CountSeries,
  times: readonly number[],
  range: Range,
  fields: readonly ChartField[] = COUNT_FIELDS,
): ChartFigure {
  const lines = fields.map((field) => ({
    ...LINE_STYLES[field],
    values: series[field].slice(-range.steps),
  }));
  const now = lines.map(({ label, values }) => {
    const newest = values[values.length - 1] ?? null;
    const inMinute = newest === null ? '–' : countText(newest);
    return `${label.toLowerCase()} ${range.isByMinute ? inMinute : currentRateText(values)}`;
  });
  const span = countWithNoun(range.minutes < 60 ? range.minutes : range.minutes / 60, unit(range));
  return {
    label: `${chartTitle(range)} over the last ${span}; now ${now.join(', ')}`,
    times: times.slice(-range.steps),
    lines,
    ...(range.isByMinute && { timeText: minuteText, tableTimeText: dateText }),
  };
}

const unit = ({ minutes }: Range): string => (minutes < 60 ? 'minute' : 'hour');
