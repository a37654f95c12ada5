/**
 * Text of `sluice explain`: the decision, the window, and the comparison of used cost and limit.
 */

import { choiceText, describeExplanation, type Explanation } from 'sluice-traffic';
import {
  counted,
  countText,
  durationText,
  exactTimeText,
  timeTextBeside,
  windowText,
} from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import { cut, LABEL_COLUMNS, LINE_COLUMNS, labelled, wrapped } from './text.ts';
import { windowLines } from './window-text.ts';

const ROOM = LINE_COLUMNS - LABEL_COLUMNS;

function decisionText(explained: Explanation, paint: Paint): string {
  const { allowed, remaining, retryAfterMs, atMs, inLog, costAboveLimit } = explained;
  const would = inLog ? '' : 'would be ';
  const left = `${countText(remaining)} remaining${inLog ? ' after it' : ''}`;
  if (allowed) return `${paint('green', `${would}allowed`)}, ${left}`;
  if (costAboveLimit) return `${paint('red', `${would}denied`)}; this cost never fits`;
  const again = `${durationText(retryAfterMs)}, at ${timeTextBeside(atMs + retryAfterMs, atMs)}`;
  return `${paint('red', `${would}denied`)}; fits in ${again}`;
}

const seenText = ({ requests, denied }: NonNullable<Explanation['seen']>): string =>
  `${counted(requests, 'request')} up to this one, ${countText(denied)} denied`;

export function explainLines(explained: Explanation, paint: Paint): readonly string[] {
  const { key, policy, algorithm, limit, capacity, windowMs, atMs, allowed } = explained;
  const { usedText, sumText, freesText } = describeExplanation(explained);
  const burst = capacity === limit ? '' : `, burst ${countText(capacity)}`;
  const name = policy === '' ? '' : `${policy}: `;
  const params = `${countText(limit)} in ${windowText(windowMs)}${burst}, ${algorithm}`;
  const { resetAfterMs, hasCosts, cost } = explained;
  const reset = resetAfterMs === 0 ? 'now' : `in ${durationText(resetAfterMs)}`;
  const drawn = windowLines(explained, paint);
  const part = (label: string, text: string): readonly string[] =>
    text === '' ? [] : labelled(label, ...wrapped(text, ROOM));
  const { choice, seen } = explained;
  return [
    ...labelled('key', cut(key, ROOM)),
    ...(choice === undefined ? [] : labelled('request', ...wrapped(choiceText(choice), ROOM))),
    ...(seen === undefined ? [] : labelled('seen', seenText(seen))),
    ...labelled('time', `${exactTimeText(atMs)} UTC`),
    ...(hasCosts ? labelled('cost', countText(cost)) : []),
    ...labelled('limit', cut(`${name}${params}`, ROOM)),
    ...labelled('decision', decisionText(explained, paint)),
    ...(drawn.length === 0 ? [] : ['', ...drawn, '']),
    ...part('state', usedText),
    ...part('comparison', sumText),
    ...(allowed ? [] : part('frees', freesText)),
    ...part('resets', reset),
  ];
}
