/**
 * Which format a log has: the one that reads most of its first lines. A log that none reads half of
 * is none that is known, and is better refused than misread.
 */
import type { Format } from '../entry.ts';
import { alb } from './alb.ts';
import { combined } from './combined.ts';
import { csv, headingOf } from './csv.ts';
import { caddy, jsonLines, type Members, traefik, USUAL } from './json.ts';

export const FORMAT_NAMES = ['combined', 'caddy', 'traefik', 'alb', 'json-lines', 'csv'] as const;
export type FormatName = (typeof FORMAT_NAMES)[number];

export interface Detected {
  readonly format: Format;
  /** The lines at the start that are no entries: the names of the columns. */
  readonly heading: 0 | 1;
}

const SHARE = 0.5;

function candidates(first: readonly string[], members: Members): readonly Detected[] {
  const heading = headingOf(first[0] ?? '', members);
  return [
    ...(heading === undefined ? [] : [{ format: csv(heading, members), heading: 1 as const }]),
    ...[combined, caddy, traefik, alb, jsonLines(members)].map((format) => ({
      format,
      heading: 0 as const,
    })),
  ];
}

/** The named format, or the one that fits best; undefined if none does. */
export function detect(
  first: readonly string[],
  name?: FormatName,
  members: Members = USUAL,
): Detected | undefined {
  const all = candidates(first, members);
  if (name !== undefined) return all.find(({ format }) => format.name === name);
  let best: Detected | undefined;
  let most = 0;
  for (const each of all) {
    const lines = first.slice(each.heading).filter((line) => line !== '');
    const read = lines.filter((line) => each.format.read(line) !== undefined).length;
    if (read > most && read >= SHARE * lines.length) [best, most] = [each, read];
  }
  return best;
}
