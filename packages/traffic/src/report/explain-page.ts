/** The page of an explanation: the window, what counts in it, the sum, and when it frees. */

import {
  counted,
  countText,
  durationText,
  exactTimeText,
  limitText,
  timeTextBeside,
  windowText,
} from '../format.ts';
import type { Explanation } from '../replay/explain.ts';
import { type Html, type Part, tag } from './html.ts';
import { lead, nameText, note, pageText, part, type ReportExtras, table, tiles } from './page.ts';
import { legend, type SeriesClass } from './scale.ts';
import { counterOf, explainState, tokensOf } from './state-explanation.ts';
import { hasTicks, sumBar, windowPicture } from './window-picture.ts';

export interface ExplainExtras extends ReportExtras {
  /** How many requests of it a log has up to there, and how many of them were denied. */
  readonly seen?: { readonly requests: number; readonly denied: number };
}

function headline({ key, allowed, wasAsked }: Explanation): string {
  const answer = allowed ? 'allowed' : 'denied';
  return `${nameText(key)} ${wasAsked ? 'is' : 'would be'} ${answer}`;
}

function about({ atMs, policy, algorithm, capacity, ...params }: Explanation): Part {
  const burst = capacity === params.limit ? '' : `, up to ${countText(capacity)} at once`;
  const name = policy === '' ? [] : [tag('span', { class: 'name' }, nameText(policy)), ': '];
  return [`${exactTimeText(atMs)}, under `, name, `${limitText(params)}${burst}, ${algorithm}`];
}

function answerTiles(explained: Explanation, seen: ExplainExtras['seen']): Html {
  const { allowed, remaining, retryAfterMs, atMs, capacity, algorithm } = explained;
  const isTokens = algorithm === 'token-bucket';
  const again = explained.tooDear
    ? { id: 'again', value: 'never', name: 'fits the same: it costs more than the limit' }
    : { id: 'again', value: durationText(retryAfterMs), name: 'until the same fits' };
  const left = {
    id: 'left',
    value: countText(remaining),
    name: explained.wasAsked ? 'left after it' : 'left now',
  };
  return tiles([
    { id: 'answer', value: allowed ? 'allowed' : 'denied', name: exactTimeText(atMs) },
    {
      id: 'used',
      value: countText(isTokens ? tokensOf(explained) : countedBefore(explained)),
      name: `${isTokens ? 'tokens there' : 'counted before it'}, of ${countText(capacity)}`,
    },
    allowed ? left : again,
    ...(seen === undefined
      ? []
      : [
          {
            id: 'seen',
            value: countText(seen.requests),
            name: `requests of it so far, ${countText(seen.denied)} denied`,
          },
        ]),
  ]);
}

function windowPart(explained: Explanation): Html {
  const { algorithm, requests, windowMs, allowed, tooDear, hasCosts } = explained;
  const names: [SeriesClass, string][] = [
    ['allowed', algorithm === 'token-bucket' ? 'admitted' : 'admitted, and counts'],
  ];
  if (algorithm !== 'token-bucket' && requests.length > 0) {
    names.push(['gone', 'admitted, and counts no more']);
  }
  if (requests.length > 0) names.push(['denied', 'denied']);
  const window = windowText(windowMs);
  const title =
    algorithm === 'fixed-window'
      ? `The window of ${window}`
      : algorithm === 'sliding-counter'
        ? `Two windows of ${window}`
        : `The last ${window}`;
  const high = hasCosts ? 'and as high as its cost.' : 'and as high as there were several at once.';
  const remark = hasTicks(explained)
    ? `A tick is a request, ${high}`
    : 'The service holds numbers here, no times of calls.';
  const shade = algorithm === 'token-bucket' ? '' : ' What is shaded counts.';
  const wanted = allowed || tooDear ? '' : ' At the last line the same request fits.';
  return part(
    title,
    `${remark}${shade}${wanted}`,
    hasTicks(explained) && legend(names),
    windowPicture(explained),
  );
}

const countedBefore = (explained: Explanation): number =>
  explained.algorithm === 'sliding-counter' ? counterOf(explained).estimate : explained.used;

function sumPart(explained: Explanation): Html {
  const { cost, capacity, limit, allowed, retryAfterMs, resetAfterMs, algorithm } = explained;
  const { counts, sum, frees } = explainState(explained);
  const isTokens = algorithm === 'token-bucket';
  const when = (ms: number): string =>
    ms === 0
      ? 'now'
      : `in ${durationText(ms)}, at ${timeTextBeside(explained.atMs + ms, explained.atMs)}`;
  const rows = [
    ...(explained.hasCosts ? [['cost', countText(cost)]] : []),
    ['counts', counts],
    ['the sum', tag('b', {}, sum)],
    ...(allowed || frees === '' ? [] : [['frees', frees]]),
    ...(allowed ? [] : [['the same fits', explained.tooDear ? 'never' : when(retryAfterMs)]]),
    ['as new', when(resetAfterMs)],
  ];
  const bar = isTokens
    ? {
        used: Math.max(0, capacity - tokensOf(explained)),
        most: capacity,
        name: `all tokens taken, ${countText(capacity)}`,
      }
    : { used: countedBefore(explained), most: limit, name: `the limit, ${countText(limit)}` };
  return part(
    'The sum',
    undefined,
    sumBar({ ...bar, cost, isOver: !allowed }),
    legend([
      ['allowed', isTokens ? 'tokens taken' : 'counts'],
      [allowed ? 'shadow' : 'denied', 'this request'],
    ]),
    table('reckoning', [{ heading: '', kind: 'time' }, { heading: '' }], rows),
  );
}

/** The newest first, as far as a page has room. */
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
    { heading: 'answer', kind: 'time' },
    { heading: '', kind: 'time' },
  ] as const;
  const title = tag('summary', {}, counted(requests.length, 'request'));
  const list = tag('details', {}, title, table('requests', columns, rows));
  return part('Its requests of the last two windows', undefined, list);
}

export function explainPage(explained: Explanation, extras: ExplainExtras): string {
  const { entries, requests, used, algorithm } = explained;
  const isLog = algorithm === 'sliding-log' || algorithm === 'sliding-buckets';
  const held = entries.reduce((sum, { cost }) => sum + cost, 0);
  const isCut = isLog && requests.length === 0 && held < used;
  return pageText({
    kind: 'explain',
    headline: headline(explained),
    lead: lead(about(explained), extras),
    body: [
      answerTiles(explained, extras.seen),
      windowPart(explained),
      isCut && note(`The newest ${countText(entries.length)} are drawn.`),
      sumPart(explained),
      requestPart(explained),
    ],
  });
}
