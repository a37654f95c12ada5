/** The `--max-denied-*` thresholds of `sluice plan`: a share such as `0.1%`, or a number. */

import { InvalidArgumentError } from 'commander';
import type { Judgement, PlanResult } from 'sluice-traffic';
import { countText, percentText } from 'sluice-traffic/format';

export interface Threshold {
  readonly text: string;
  /** Either `share`, from 0 to 1, or `count` is set. */
  readonly share?: number;
  readonly count?: number;
}

export interface Thresholds {
  readonly maxDeniedClients?: Threshold;
  readonly maxDeniedOrdinary?: Threshold;
  readonly maxDeniedRequests?: Threshold;
}

export function thresholdValue(text: string): Threshold {
  const [, percent] = /^(\d{1,3}(?:\.\d{1,9})?)%$/.exec(text) ?? [];
  if (percent !== undefined && Number(percent) <= 100)
    return { text, share: Number(percent) / 100 };
  if (/^\d{1,15}$/.test(text)) return { text, count: Number(text) };
  throw new InvalidArgumentError('Expected a percentage such as 0.1%, or a whole number.');
}

const isWithin = ({ share, count }: Threshold, denied: number, of: number): boolean =>
  share === undefined ? denied <= count! : denied <= share * of;

/**
 * Returns for each threshold the number of denied clients or requests, and whether it is within the
 * threshold.
 */
export function judgeThresholds(result: PlanResult, thresholds: Thresholds): readonly Judgement[] {
  const { denied, clients, requests, ordinaryClients } = result;
  const all = [
    ['--max-denied-clients', thresholds.maxDeniedClients, 'clients', denied.clients, clients],
    [
      '--max-denied-ordinary',
      thresholds.maxDeniedOrdinary,
      'ordinary clients',
      denied.ordinaryClients,
      ordinaryClients,
    ],
    ['--max-denied-requests', thresholds.maxDeniedRequests, 'requests', denied.requests, requests],
  ] as const;
  return all.flatMap(([flag, threshold, what, count, of]) => {
    if (threshold === undefined) return [];
    const ok = isWithin(threshold, count, of);
    return [{ flag, most: threshold.text, what, denied: count, of, ok }];
  });
}

/**
 * Returns a text such as `25 of 2,000 clients are denied (1.3%), more than --max-denied-clients
 * 0.1%`.
 */
export function judgementText({ flag, most, what, denied, of }: Judgement): string {
  const share = percentText(denied, of);
  const found = `${countText(denied)} of ${countText(of)} ${what} are denied (${share})`;
  return `${found}, more than ${flag} ${most}`;
}
