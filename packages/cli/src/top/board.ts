/** Text of `sluice top`: health, policies with their rates, and the top keys. */

import { clockText } from 'sluice-traffic';
import { counted, countText, limitText, rateText } from 'sluice-traffic/format';
import { type Paint, visible } from '../output.ts';
import {
  type PolicyState,
  type ServicePoller,
  type Snapshot,
  sortByRates,
  type TopKey,
} from './poller.ts';
import { fitRight, fitTo, sparkline, widthOf } from './text.ts';

export interface TopSize {
  readonly columns: number;
  readonly rows: number;
}

const MIN_COLUMNS = 40;
const LIMIT_COLUMNS = 16;
const RATE_COLUMNS = 9;
const COUNT_COLUMNS = 9;
const MAX_NAME_COLUMNS = 32;
/** Assumed terminal height if the output is printed once. */
export const PRINTED_ROWS = 40;

/** Returns two lines: the state of the service, and its health or the error of the last poll. */
function headLines(snapshot: Snapshot, paint: Paint, width: number, pollError?: string): string[] {
  const state = pollError !== undefined ? paint('red', 'unreachable') : readyText(snapshot, paint);
  const left = `${paint('bold', 'sluice top')}  ${visible(snapshot.url)}  ${state}`;
  const right = `${clockText(snapshot.atMs)} UTC`;
  const lines = [fitTo(left, width - right.length - 1) + fitRight(right, right.length + 1)];
  lines.push(
    pollError === undefined ? healthText(snapshot, paint) : paint('red', visible(pollError)),
  );
  return lines;
}

function readyText({ ready, draining }: Snapshot, paint: Paint): string {
  if (ready) return paint('green', 'ready');
  return paint('red', draining ? 'stopping' : 'not ready');
}

function healthText(snapshot: Snapshot, paint: Paint): string {
  const { storeUp, breaker, configOk, keys, evicted, blocked, degraded, version } = snapshot;
  const parts = [storeUp ? paint('green', 'store up') : paint('red', 'store down')];
  if (breaker !== undefined) {
    parts.push(breaker === 'closed' ? 'breaker closed' : paint('red', `breaker ${breaker}`));
  }
  if (keys !== undefined) parts.push(counted(keys, 'key'));
  if (evicted > 0) parts.push(paint('yellow', `${countText(evicted)} evicted`));
  if (blocked > 0) parts.push(paint('yellow', `${countText(blocked)} denied by blocks`));
  if (degraded > 0) parts.push(paint('yellow', `${countText(degraded)} degraded`));
  parts.push(configOk ? 'config ok' : paint('red', 'config invalid'));
  if (version !== undefined) parts.push(paint('dim', `sluice ${visible(version)}`));
  return parts.join('  ');
}

function policyLimitText({ limit, windowMs, algorithm }: PolicyState): string {
  if (limit === undefined || windowMs === undefined) return '';
  if (algorithm === 'concurrency') return `${countText(limit)} at a time`;
  return limitText({ limit, windowMs });
}

const policyRateText = (rate: number | undefined): string =>
  rate === undefined ? '-' : rateText(rate);

const nameText = ({ name, shadow }: PolicyState): string =>
  shadow ? `${visible(name)} (shadow)` : visible(name);

function policyLines(
  snapshot: Snapshot,
  poller: ServicePoller,
  paint: Paint,
  width: number,
  most: number,
) {
  const sorted = sortByRates(snapshot.policies);
  const shown = sorted.slice(0, sorted.length > most ? most - 1 : most);
  const longest = Math.max(...shown.map((each) => widthOf(nameText(each))), 'policy'.length);
  const nameColumns = 1 + Math.min(longest, MAX_NAME_COLUMNS, Math.floor(width / 4));
  const fixed = nameColumns + LIMIT_COLUMNS + 2 * RATE_COLUMNS + 6;
  const spark = Math.max(0, Math.floor((width - fixed) / 2));
  const line = (cells: readonly [string, string, string, string, string, string]): string =>
    [
      fitTo(cells[0], nameColumns),
      fitTo(cells[1], LIMIT_COLUMNS),
      fitRight(cells[2], RATE_COLUMNS),
      fitTo(cells[3], spark),
      fitRight(cells[4], RATE_COLUMNS),
      fitTo(cells[5], spark),
    ]
      .join(' ')
      .trimEnd();
  const heading = line(['policy', 'limit', 'allowed/s', '', 'denied/s', '']);
  const lines = [paint('dim', heading)];
  for (const policy of shown) {
    const rates = poller.ratesOf(policy.name);
    // Draw no sparkline for a single value: it would always be a full bar.
    const [allowed, denied] = [rates.allowed, rates.denied].map((values) =>
      values.length > 1 ? values : [],
    );
    // Both sparklines of a policy have the same scale.
    const highest = Math.max(...allowed.slice(-spark), ...denied.slice(-spark), 0);
    const deniedText = policyRateText(policy.deniedPerSecond);
    lines.push(
      line([
        nameText(policy),
        policyLimitText(policy),
        policyRateText(policy.allowedPerSecond),
        paint('green', sparkline(allowed, spark, highest)),
        policy.deniedPerSecond ? paint('red', deniedText) : deniedText,
        paint('red', sparkline(denied, spark, highest)),
      ]),
    );
  }
  const left = sorted.length - shown.length;
  if (left > 0) lines.push(paint('dim', `and ${countText(left)} more`));
  if (sorted.length === 0) lines.push('no policies');
  return lines;
}

function keyLines(heading: string, keys: readonly TopKey[], paint: Paint, most: number) {
  const shown = keys.slice(0, Math.max(0, most));
  const nameColumns = Math.min(
    MAX_NAME_COLUMNS,
    Math.max('policy'.length, ...shown.map(({ policy }) => widthOf(visible(policy)))),
  );
  const line = (count: string, policy: string, key: string): string =>
    `${fitRight(count, COUNT_COLUMNS)}  ${fitTo(policy, nameColumns)}  ${key}`;
  const lines = [paint('dim', line(heading, 'policy', 'key'))];
  for (const { policy, key, atLeast, atMost } of shown) {
    const count = atLeast === atMost ? countText(atLeast) : `${countText(atLeast)}+`;
    lines.push(line(count, visible(policy), visible(key)));
  }
  if (shown.length === 0) lines.push(line('-', '-', 'none'));
  return lines;
}

/**
 * Returns the lines of one frame. `pollError` is the error message of the last poll, if it failed.
 */
export function topLines(
  snapshot: Snapshot,
  poller: ServicePoller,
  paint: Paint,
  size: TopSize,
  pollError?: string,
): readonly string[] {
  const width = Math.max(MIN_COLUMNS, size.columns);
  const head = headLines(snapshot, paint, width, pollError);
  // Reserve 6 lines for blank lines and headings.
  const room = Math.max(6, size.rows - head.length - 6);
  const policyRoom = Math.min(Math.max(1, snapshot.policies.length), Math.ceil(room / 2));
  const deniedRoom = Math.max(1, Math.ceil((room - policyRoom) / 2));
  const denied = keyLines('denied', snapshot.mostDenied, paint, deniedRoom);
  const left = room - policyRoom - (denied.length - 1);
  return [
    ...head,
    '',
    ...policyLines(snapshot, poller, paint, width, policyRoom),
    '',
    ...denied,
    '',
    ...keyLines('allowed', snapshot.mostAllowed, paint, left),
  ];
}
