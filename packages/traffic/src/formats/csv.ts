/** CSV with commas, semicolons or tabs, and a header line. */
import type { Entry, Format } from '../entry.ts';
import { COMMON_NAMES, CostField, type Names, namedEntry, PARTS, type Part } from './named.ts';

const SEPARATORS = [',', ';', '\t'];

/**
 * Splits a line into values. Quoted values may contain separators, and `""` for a quote character.
 * Returns undefined if a quoted value does not end on the line.
 */
export function valuesOf(line: string, separator: string): string[] | undefined {
  if (!line.includes('"')) return line.split(separator);
  const values: string[] = [];
  let at = 0;
  while (at <= line.length) {
    if (line[at] !== '"') {
      const end = line.indexOf(separator, at);
      values.push(line.slice(at, end < 0 ? undefined : end));
      at = end < 0 ? line.length + 1 : end + 1;
      continue;
    }
    let end = line.indexOf('"', at + 1);
    while (end >= 0 && line[end + 1] === '"') end = line.indexOf('"', end + 2);
    const isWhole = end >= 0 && (end + 1 === line.length || line[end + 1] === separator);
    if (!isWhole) return undefined;
    values.push(line.slice(at + 1, end).replaceAll('""', '"'));
    at = end + 2;
  }
  return values;
}

export interface CsvHeading {
  readonly separator: string;
  readonly columns: readonly string[];
}

/** Normalizes a column name: `Client IP`, `client-ip` and `clientIp` become `clientip`. */
const plainName = (name: string): string => name.toLowerCase().replace(/[^a-z\d]/g, '');

/**
 * Returns the index of the column that has the first possible name of `names`, or -1. Compares
 * exact names first, then normalized names.
 */
function placeOf(columns: readonly string[], names: readonly string[]): number {
  const exact = names.map((name) => columns.indexOf(name)).find((place) => place >= 0);
  if (exact !== undefined) return exact;
  const plain = columns.map(plainName);
  return names.map((name) => plain.indexOf(plainName(name))).find((place) => place >= 0) ?? -1;
}

/**
 * Returns the columns of a header line. Returns undefined if the line has no time column or no
 * client column.
 */
export function headingOf(line: string, names: Names = COMMON_NAMES): CsvHeading | undefined {
  for (const separator of SEPARATORS) {
    const columns = valuesOf(line, separator)?.map((each) => each.trim());
    if (columns === undefined || columns.length < 2) continue;
    const hasAll = [names.time, names.client].every((each) => placeOf(columns, each) >= 0);
    if (hasAll) return { separator, columns };
  }
  return undefined;
}

const NAME = /^[\p{L}_@#][\p{L}\d_@#.() -]{0,40}$/u;

/** Returns true if a line looks like a header, also if its column names are unknown. */
export function namesColumns(line: string): boolean {
  return SEPARATORS.some((separator) => {
    const columns = valuesOf(line, separator)?.map((each) => each.trim()) ?? [];
    return columns.length > 1 && columns.every((each) => NAME.test(each));
  });
}

export function csv({ separator, columns }: CsvHeading, names: Names = COMMON_NAMES): Format {
  const found = PARTS.map((part) => [part, placeOf(columns, names[part])] as const);
  const places = Object.fromEntries(found) as Record<Part, number>;
  const costs = places.cost < 0 ? undefined : new CostField(columns[places.cost]);
  const read = (line: string): Entry | undefined => {
    const values = valuesOf(line, separator);
    if (values?.length !== columns.length) return undefined;
    const field = (name: string): string | undefined => {
      const exact = columns.indexOf(name);
      const place = exact >= 0 ? exact : placeOf(columns, [name, `http_${name}`]);
      return values[place]?.trim() || undefined;
    };
    return namedEntry((part) => values[places[part]]?.trim(), field, costs);
  };
  return { name: 'csv', costSource: costs, read };
}
