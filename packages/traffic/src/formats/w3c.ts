/**
 * W3C extended logs of CloudFront, separated by tabs, and of IIS, separated by spaces. The line
 * `#Fields:` names the columns. After each restart, IIS writes this line again, possibly with other
 * columns.
 */
import type { Entry, Format } from '../entry.ts';
import { type Names, namedEntry, type Part } from './named.ts';
import { absentIfDash } from './text.ts';

const DIRECTIVE = /^#(?:Version|Fields|Software|Date|Start-Date|End-Date|Remark):/i;
const FIELDS = /^#Fields:\s*(.+)$/i;

const COLUMNS: Names = {
  time: [],
  client: ['c-ip'],
  method: ['cs-method'],
  path: ['cs-uri-stem', 'cs-uri'],
  search: ['cs-uri-query'],
  request: [],
  host: ['x-host-header', 'cs-host', 'cs(host)'],
  status: ['sc-status'],
  bytes: ['sc-bytes'],
  user: ['cs-username'],
  cost: [],
};

/** Decodes a value: CloudFront percent-encodes values, and IIS writes `+` for a space. */
function decoded(value: string, isCloudFront: boolean): string {
  if (!isCloudFront) return value.replaceAll('+', ' ');
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

export function w3c(name: 'cloudfront' | 'iis'): Format {
  const isCloudFront = name === 'cloudfront';
  const separator = isCloudFront ? '\t' : ' ';
  let places = new Map<string, number>();
  const isHeading = (line: string): boolean => {
    const [, names] = FIELDS.exec(line) ?? [];
    if (names !== undefined) {
      places = new Map(
        names
          .trim()
          .split(/\s+/)
          .map((each, at) => [each.toLowerCase(), at]),
      );
    }
    return DIRECTIVE.test(line);
  };
  const read = (line: string): Entry | undefined => {
    const values = line.split(separator);
    // Keep the columns of this line: a later heading may replace `places` before `field` is called.
    const own = places;
    if (own.size === 0 || values.length !== own.size) return undefined;
    const textOf = (column: string): string => absentIfDash(values[own.get(column) ?? -1] ?? '');
    const partOf = (part: Part): unknown => {
      if (part === 'time') return `${textOf('date')}T${textOf('time')}Z`;
      return COLUMNS[part].map(textOf).find((value) => value !== '');
    };
    const field = (wanted: string): string | undefined => {
      const text = [wanted, `cs(${wanted})`].map(textOf).find((value) => value !== '');
      return text && decoded(text, isCloudFront);
    };
    return namedEntry(partOf, field, undefined);
  };
  return { name, isHeading, read };
}
