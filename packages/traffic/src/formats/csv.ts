/** Values with commas (or semicolons, or tabs) between, and a first line that names the columns. */
import type { Entry, Format } from '../entry.ts';
import { entryOf, type Members, USUAL } from './json.ts';

const SEPARATORS = [',', ';', '\t'];

/** The values of a line. In quotes a separator is text, and two quotes are one. */
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
    // A value that goes on in the next line is not one that a log has.
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

/** The columns, if a line can name them: names only, and among them a time and a client. */
export function headingOf(line: string, members: Members = USUAL): CsvHeading | undefined {
  for (const separator of SEPARATORS) {
    const columns = valuesOf(line.replace(/^\uFEFF/, ''), separator)?.map((each) => each.trim());
    if (columns === undefined || columns.length < 2) continue;
    const has = (names: readonly string[]): boolean => names.some((name) => columns.includes(name));
    if (has(members.time) && has(members.client)) return { separator, columns };
  }
  return undefined;
}

export function csv({ separator, columns }: CsvHeading, members: Members = USUAL): Format {
  return {
    name: 'csv',
    read(line): Entry | undefined {
      const values = valuesOf(line, separator);
      if (values?.length !== columns.length) return undefined;
      const named: Record<string, string> = Object.create(null);
      for (const [place, column] of columns.entries()) named[column] = values[place].trim();
      return entryOf(named, members);
    },
  };
}
