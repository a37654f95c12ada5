/** The page of the rate-limit fields of a response: what they say, and what that means. */
import type { ParsedRateLimit } from 'sluice/http';
import { cellBar } from './bars.ts';
import { count, counted, span, wait } from './format.ts';
import { type Html, tag } from './html.ts';
import { nameText, pageText, part, soft, table, tiles } from './page.ts';

export interface FieldsResult extends ParsedRateLimit {
  readonly kind: 'fields';
  /** The fields as they came, by their names in lower case. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

/** Which standard they follow, in words. */
export const FIELD_FORMS: Readonly<Record<ParsedRateLimit['form'], string>> = {
  draft: 'the draft of RateLimit fields for HTTP, version 8 or later',
  'draft-7': 'version 7 of the draft of RateLimit fields for HTTP',
  'draft-6': 'version 6 of the draft of RateLimit fields for HTTP',
  legacy: 'X-RateLimit, which has no standard',
  none: 'none but Retry-After',
};

/** Whether a call now would be denied, as far as the fields say. */
export const fieldsDeny = ({ limits, retryAfterMs }: ParsedRateLimit): boolean =>
  retryAfterMs === undefined ? limits.some(({ remaining }) => remaining === 0) : retryAfterMs > 0;

function waitOf({ limits, retryAfterMs }: ParsedRateLimit): number | undefined {
  if (retryAfterMs !== undefined) return retryAfterMs;
  const waits = limits.filter(({ remaining }) => remaining === 0).map((each) => each.resetAfterMs);
  return waits.some((each) => each === undefined) ? undefined : Math.max(...(waits as number[]));
}

function headline(result: FieldsResult): string {
  const { limits } = result;
  if (!fieldsDeny(result)) {
    const [least] = [...limits].sort((a, b) => a.remaining - b.remaining);
    return least === undefined ? 'A call now passes' : `${count(least.remaining)} left`;
  }
  const waitMs = waitOf(result);
  const until = waitMs === undefined ? '' : `, and passes in ${wait(waitMs)}`;
  return `A call now would be denied${until}`;
}

const MEANINGS: readonly (readonly [name: RegExp, means: string])[] = [
  [/^ratelimit-policy$/, 'the limits that there are: q is how much, w the window in seconds'],
  [/^ratelimit$/, 'where the caller stands: r is what is left, t when there is more, in seconds'],
  [/^x-ratelimit-reset|^x-rate-limit-reset/, 'when there is more: in seconds, or a time'],
  [/limit-limit$/, 'how much there is'],
  [/limit-remaining$/, 'what is left of it'],
  [/limit-reset$/, 'when there is more, in seconds'],
  [/^retry-after$/, 'when to come back; it counts more than the others'],
];

function fieldPart({ fields, form }: FieldsResult): Html {
  const rows = Object.entries(fields).flatMap(([name, values]) =>
    values.map((value) => {
      const means = MEANINGS.find(([pattern]) => pattern.test(name))?.[1];
      const told = [tag('div', {}, nameText(name)), tag('div', { class: 'soft' }, nameText(value))];
      return [told, means ?? soft('not about limits')];
    }),
  );
  const columns = [
    { heading: 'field and value', kind: 'name' },
    { heading: 'what it is' },
  ] as const;
  return part('The fields', `Of ${FIELD_FORMS[form]}.`, table('fields', columns, rows));
}

function limitPart({ limits, policies }: FieldsResult): Html {
  const windowOf = (name: string | undefined): string => {
    const windowMs = policies.find((each) => each.name === name)?.windowMs;
    return windowMs === undefined ? '' : ` in ${span(windowMs)}`;
  };
  const mostOf = (name: string | undefined): number | undefined =>
    policies.find((each) => each.name === name)?.limit;
  const rows = limits.map(({ name, limit, remaining, resetAfterMs }) => {
    const most = limit ?? mostOf(name);
    const of = most === undefined ? '' : ` of ${count(most)}`;
    return [
      nameText(name ?? ''),
      most === undefined ? '' : cellBar(most, most, Math.max(0, most - remaining), 'denied'),
      [
        tag('div', {}, `${count(remaining)}${of}${windowOf(name)}`),
        resetAfterMs !== undefined && soft(`more in ${wait(resetAfterMs)}`),
      ],
    ];
  });
  const columns = [
    { heading: 'policy', kind: 'name' },
    { heading: 'used, of all', kind: 'bars' },
    { heading: 'left', kind: 'time' },
  ] as const;
  return part('What they say', undefined, table('limits', columns, rows));
}

function policyPart({ policies }: FieldsResult): Html {
  const rows = policies.map(({ name, limit, windowMs }) => [
    nameText(name ?? ''),
    limit === undefined ? '' : count(limit),
    windowMs === undefined ? '' : span(windowMs),
  ]);
  const columns = [
    { heading: 'policy', kind: 'name' },
    { heading: 'limit', kind: 'number' },
    { heading: 'window', kind: 'time' },
  ] as const;
  return part('The policies', undefined, table('policies', columns, rows));
}

export function fieldsPage(result: FieldsResult): string {
  const { limits, policies, retryAfterMs } = result;
  const told = [
    ...(limits.length > 0 ? [counted(limits.length, 'limit')] : []),
    ...(retryAfterMs === undefined ? [] : ['Retry-After']),
  ];
  const waitMs = waitOf(result);
  return pageText({
    kind: 'explain',
    headline: headline(result),
    lead: tag('p', { class: 'soft' }, `What the fields of a response say: ${told.join(' and ')}.`),
    body: [
      tiles([
        { id: 'answer', value: fieldsDeny(result) ? 'denied' : 'passes', name: 'a call now' },
        ...(waitMs === undefined || !fieldsDeny(result)
          ? []
          : [{ id: 'again', value: wait(waitMs), name: 'until it passes' }]),
      ]),
      limits.length > 0 && limitPart(result),
      policies.length > 0 && limits.length === 0 && policyPart(result),
      fieldPart(result),
    ],
  });
}
