/** HTML report of `sluice explain`: the window, the comparison that decides, and the requests. */

import {
  counted,
  countText,
  durationText,
  exactTimeText,
  limitText,
  timeTextBeside,
  windowText,
} from '../format.ts';
import { choiceText, describeExplanation, type Explanation } from '../replay/explain.ts';
import { type Html, type Part, tag } from './html.ts';
import { lead, nameText, note, pageText, part, type ReportExtras, table, tiles } from './page.ts';
import { legend, type SeriesClass } from './scale.ts';
import { hasTicks, sumBar, windowPicture } from './window-picture.ts';

function headline({ key, allowed, inLog }: Explanation): string {
  const decision = allowed ? 'allowed' : 'denied';
  return `${nameText(key)} ${inLog ? 'is' : 'would be'} ${decision}`;
}

function about({ atMs, policy, algorithm, capacity, ...params }: Explanation): Part {
  const burst = capacity === params.limit ? '' : `, burst ${countText(capacity)}`;
  const name = policy === '' ? [] : [tag('span', { class: 'name' }, nameText(policy)), ': '];
  return [`${exactTimeText(atMs)}, under `, name, `${limitText(params)}${burst}, ${algorithm}`];
}

/** Formats tokens in a bucket, rounded down: 0.9999 tokens must not be shown as 1. */
const tokensText = (tokens: number): string => countText(Math.floor(1000 * tokens) / 1000);

function decisionTiles(explained: Explanation): Html {
  const { allowed, remaining, retryAfterMs, atMs, capacity, seen } = explained;
  const description = describeExplanation(explained);
  const retry = explained.costAboveLimit
    ? { id: 'retry', value: 'never', name: 'fits: the cost exceeds the limit' }
    : { id: 'retry', value: durationText(retryAfterMs), name: 'until the same request fits' };
  const left = {
    id: 'remaining',
    value: countText(remaining),
    name: explained.inLog ? 'remaining after it' : 'remaining now',
  };
  const used =
    description.shape === 'level'
      ? {
          value: tokensText(description.tokens),
          name: `tokens available, of ${countText(capacity)}`,
        }
      : { value: countText(description.used), name: `used before it, of ${countText(capacity)}` };
  return tiles([
    { id: 'decision', value: allowed ? 'allowed' : 'denied', name: exactTimeText(atMs) },
    { id: 'used', ...used },
    allowed ? left : retry,
    ...(seen === undefined
      ? []
      : [
          {
            id: 'seen',
            value: countText(seen.requests),
            name: `requests up to this one, ${countText(seen.denied)} denied`,
          },
        ]),
  ]);
}

function windowPart(explained: Explanation): Html {
  const { requests, windowMs, allowed, costAboveLimit, hasCosts } = explained;
  const description = describeExplanation(explained);
  const expires = description.shape !== 'level';
  const names: [SeriesClass, string][] = [
    ['allowed', expires ? 'admitted, counts' : 'admitted'],
    ...(expires && requests.length > 0 ? [['expired', 'admitted, expired'] as const] : []),
    ...(requests.length > 0 ? [['denied', 'denied'] as const] : []),
  ].map(([css, name]) => [css as SeriesClass, name]);
  const window = windowText(windowMs);
  const windows = description.shape === 'windows' ? description.windows.length : 0;
  const title = [`Last ${window}`, `Window of ${window}`, `Two windows of ${window}`][windows];
  const height = hasCosts ? 'Its height is the cost.' : 'Its height is the number of requests.';
  const remark = hasTicks(explained)
    ? `Each tick is a request. ${height}`
    : 'This algorithm keeps counts, not the times of requests.';
  const shade = expires ? ' The shaded time counts.' : '';
  const retry = allowed || costAboveLimit ? '' : ' The last line marks when the same request fits.';
  return part(
    title,
    `${remark}${shade}${retry}`,
    hasTicks(explained) && legend(names),
    windowPicture(explained),
  );
}

function sumPart(explained: Explanation): Html {
  const { cost, capacity, limit, allowed, retryAfterMs, resetAfterMs } = explained;
  const description = describeExplanation(explained);
  const { usedText, sumText, freesText } = description;
  const when = (ms: number): string =>
    ms === 0
      ? 'now'
      : `in ${durationText(ms)}, at ${timeTextBeside(explained.atMs + ms, explained.atMs)}`;
  const rows = [
    ...(explained.hasCosts ? [['cost', countText(cost)]] : []),
    ['state', usedText],
    ['comparison', tag('b', {}, sumText)],
    ...(allowed || freesText === '' ? [] : [['frees', freesText]]),
    ...(allowed
      ? []
      : [['same request fits', explained.costAboveLimit ? 'never' : when(retryAfterMs)]]),
    ['resets', when(resetAfterMs)],
  ];
  const isTokens = description.shape === 'level';
  const bar = isTokens
    ? {
        used: Math.max(0, capacity - description.tokens),
        most: capacity,
        name: `capacity, ${countText(capacity)}`,
      }
    : { used: description.used, most: limit, name: `limit, ${countText(limit)}` };
  return part(
    'Comparison',
    undefined,
    sumBar({ ...bar, cost, isOver: !allowed }),
    legend([
      ['allowed', isTokens ? 'tokens taken' : 'used'],
      [allowed ? 'shadow' : 'denied', 'this request'],
    ]),
    table('comparison', [{ heading: '', kind: 'time' }, { heading: '' }], rows),
  );
}

/** Returns the table of requests, newest first. */
function requestPart({ requests, atMs, hasCosts }: Explanation): Part {
  if (requests.length === 0) return undefined;
  const rows = requests
    .toReversed()
    .map(({ timeMs, allowed, cost = 1 }) => [
      timeTextBeside(timeMs, atMs),
      ...(hasCosts ? [countText(cost)] : []),
      tag('span', { class: allowed ? 'good' : 'bad' }, allowed ? 'admitted' : 'denied'),
      timeMs === atMs ? '' : `${durationText(atMs - timeMs)} before`,
    ]);
  const columns = [
    { heading: 'time', kind: 'time' },
    ...(hasCosts ? [{ heading: 'cost', kind: 'number' } as const] : []),
    { heading: 'decision', kind: 'time' },
    { heading: '', kind: 'time' },
  ] as const;
  const title = tag('summary', {}, counted(requests.length, 'request'));
  const list = tag('details', {}, title, table('requests', columns, rows));
  return part('Requests in the last two windows', undefined, list);
}

export function explainPage(explained: Explanation, extras: ReportExtras): string {
  const { entries, requests, used, choice } = explained;
  const listed = entries.reduce((sum, { cost }) => sum + cost, 0);
  const isCut = requests.length === 0 && entries.length > 0 && listed < used;
  return pageText({
    kind: 'explain',
    headline: headline(explained),
    lead: [
      lead(about(explained), extras),
      choice !== undefined && note(`Explained request: ${choiceText(choice)}.`),
    ],
    body: [
      decisionTiles(explained),
      windowPart(explained),
      isCut && note(`Only the newest ${counted(entries.length, 'request')} are shown.`),
      sumPart(explained),
      requestPart(explained),
    ],
  });
}
