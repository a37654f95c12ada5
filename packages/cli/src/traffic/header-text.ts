/** Text of `sluice explain --headers`: the rate-limit headers of a response. */

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

/** Returns true if the next call would be denied, according to the headers. */
export const fieldsDeny = ({ limits, retryAfterMs }: ParsedRateLimit): boolean =>
  retryAfterMs === undefined ? limits.some(({ remaining }) => remaining === 0) : retryAfterMs > 0;

const FIELD = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/;

/** Parses lines of `Name: value`. Skips other lines, such as a status line. */
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

export function parseFields(pasted: readonly string[], nowMs: number): FieldsResult {
  const fields = fieldsOf(pasted);
  const parsed = parseRateLimit(fields, { nowMs });
  if (parsed.form !== 'none' || parsed.retryAfterMs !== undefined) {
    return { kind: 'fields', ...parsed, fields };
  }
  const given = visible(pasted.join(' ').slice(0, 60));
  throw new Failure(`Expected headers such as 'RateLimit: "perMinute";r=0;t=12', got \`${given}\``);
}

const ROOM = LINE_COLUMNS - LABEL_COLUMNS;

/** Returns a text such as `perMinute: 0 remaining, resets in 12 s`. */
function limitText({
  name,
  limit,
  remaining,
  resetAfterMs,
}: ParsedRateLimit['limits'][number]): string {
  const prefix = name === undefined ? '' : `${name}: `;
  const of = limit === undefined ? '' : ` of ${countText(limit)}`;
  const reset = resetAfterMs === undefined ? '' : `, resets in ${durationText(resetAfterMs)}`;
  return cut(`${prefix}${countText(remaining)}${of} remaining${reset}`, ROOM);
}

function policyText({ name, limit, windowMs }: ParsedRateLimit['policies'][number]): string {
  const prefix = name === undefined ? '' : `${name}: `;
  const window = windowMs === undefined ? '' : ` in ${windowText(windowMs)}`;
  return cut(`${prefix}${limit === undefined ? '?' : countText(limit)}${window}`, ROOM);
}

export function headerLines(parsed: ParsedRateLimit): readonly string[] {
  const { form, policies, limits, retryAfterMs } = parsed;
  return [
    ...labelled('format', FORM_NAMES[form]),
    ...(policies.length > 0 ? labelled('policies', ...policies.map(policyText)) : []),
    ...(limits.length > 0 ? labelled('limits', ...limits.map(limitText)) : []),
    ...(retryAfterMs === undefined
      ? []
      : labelled('retry', retryAfterMs === 0 ? 'now' : `in ${durationText(retryAfterMs)}`)),
    ...(fieldsDeny(parsed) && retryAfterMs === undefined
      ? labelled('meaning', 'a limit is exhausted: the next call would be denied')
      : []),
  ];
}
