/** What the rate-limit fields of a response say, in words. */

import { type ParsedRateLimit, parseRateLimit } from 'sluice/http';
import { countText, durationText, windowText } from 'sluice-traffic/format';
import { Failure, visible } from '../output.ts';
import { cut, LABEL_COLUMNS, LINE_COLUMNS, labelled } from './text.ts';

export interface FieldsResult extends ParsedRateLimit {
  readonly kind: 'fields';
  /** Header values by lower-case name. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

const FORM_NAMES: Readonly<Record<ParsedRateLimit['form'], string>> = {
  draft: 'IETF draft RateLimit headers, version 8 or later',
  'draft-7': 'IETF draft RateLimit headers, version 7',
  'draft-6': 'IETF draft RateLimit headers, version 6',
  legacy: 'X-RateLimit headers (no standard)',
  none: 'Retry-After only',
};

/** True if the headers say that the next call is denied. */
export const fieldsDeny = ({ limits, retryAfterMs }: ParsedRateLimit): boolean =>
  retryAfterMs === undefined ? limits.some(({ remaining }) => remaining === 0) : retryAfterMs > 0;

const FIELD = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/;

/** Lines as they were pasted, each `Name: value`; others, such as a status, are passed over. */
export function fieldsOf(pasted: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const fields = new Map<string, string[]>();
  for (const line of pasted.flatMap((text) => text.split(/\r?\n/))) {
    const [, name, value] = FIELD.exec(line.trim()) ?? [];
    if (name === undefined) continue;
    const key = name.toLowerCase();
    fields.set(key, [...(fields.get(key) ?? []), value]);
  }
  return Object.fromEntries(fields);
}

export function parsedFields(pasted: readonly string[], nowMs: number): FieldsResult {
  const fields = fieldsOf(pasted);
  const parsed = parseRateLimit(fields, { nowMs });
  if (parsed.form !== 'none' || parsed.retryAfterMs !== undefined) {
    return { kind: 'fields', ...parsed, fields };
  }
  const given = visible(pasted.join(' ').slice(0, 60));
  throw new Failure(`Expected fields such as 'RateLimit: "perMinute";r=0;t=12', got \`${given}\``);
}

const ROOM = LINE_COLUMNS - LABEL_COLUMNS;

/** `perMinute: 0 left, more in 12.0 s` */
function limitText({
  name,
  limit,
  remaining,
  resetAfterMs,
}: ParsedRateLimit['limits'][number]): string {
  const who = name === undefined ? '' : `${name}: `;
  const of = limit === undefined ? '' : ` of ${countText(limit)}`;
  const more = resetAfterMs === undefined ? '' : `, more in ${durationText(resetAfterMs)}`;
  return cut(`${who}${countText(remaining)}${of} left${more}`, ROOM);
}

function policyText({ name, limit, windowMs }: ParsedRateLimit['policies'][number]): string {
  const who = name === undefined ? '' : `${name}: `;
  const window = windowMs === undefined ? '' : ` in ${windowText(windowMs)}`;
  return cut(`${who}${limit === undefined ? '?' : countText(limit)}${window}`, ROOM);
}

export function headerLines(parsed: ParsedRateLimit): readonly string[] {
  const { form, policies, limits, retryAfterMs } = parsed;
  return [
    ...labelled('form', FORM_NAMES[form]),
    ...(policies.length > 0 ? labelled('policies', ...policies.map(policyText)) : []),
    ...(limits.length > 0 ? labelled('limits', ...limits.map(limitText)) : []),
    ...(retryAfterMs === undefined
      ? []
      : labelled('try again', retryAfterMs === 0 ? 'now' : `in ${durationText(retryAfterMs)}`)),
    ...(fieldsDeny(parsed) && retryAfterMs === undefined
      ? labelled('meaning', 'nothing is left of a limit: the next call would be denied')
      : []),
  ];
}
