/**
 * Detects the format of a log: the one that reads most of its first lines, and at least a tenth of
 * them, since servers write other messages when they start.
 */
import type { Format } from '../entry.ts';
import { alb } from './alb.ts';
import { caddy } from './caddy.ts';
import { combined } from './combined.ts';
import { csv, headingOf } from './csv.ts';
import { jsonLines } from './json-lines.ts';
import { type Names, USUAL } from './named.ts';
import { traefik } from './traefik.ts';

export const FORMAT_NAMES = ['combined', 'caddy', 'traefik', 'alb', 'json-lines', 'csv'] as const;
export type FormatName = (typeof FORMAT_NAMES)[number];

export interface Detected {
  readonly format: Format;
  /** The header line of a CSV. It may occur more than once. */
  readonly heading: string | undefined;
}

const SHARE = 0.1;

function candidates(first: readonly string[], names: Names): readonly Detected[] {
  const line = first[0] ?? '';
  const heading = headingOf(line, names);
  const others = [combined, caddy, traefik, alb, jsonLines(names)];
  return [
    ...(heading === undefined ? [] : [{ format: csv(heading, names), heading: line }]),
    ...others.map((format) => ({ format, heading: undefined })),
  ];
}

/**
 * Returns the named format, or the one that fits best, or undefined. `first` has the first lines
 * that are not blank.
 */
export function detect(
  first: readonly string[],
  name?: FormatName,
  names: Names = USUAL,
): Detected | undefined {
  const all = candidates(first, names);
  if (name !== undefined) return all.find(({ format }) => format.name === name);
  let best: Detected | undefined;
  let most = 0;
  for (const each of all) {
    const lines = first.filter((line) => line !== each.heading);
    const understood = lines.filter((line) => each.format.read(line) !== undefined).length;
    // A line with an invalid cost still has this format.
    const read = understood + (each.format.costSource?.refused ?? 0);
    // A header without rows is an empty log.
    const share = lines.length === 0 ? 1 : read / lines.length;
    if (share >= SHARE && (best === undefined || read > most)) [best, most] = [each, read];
  }
  // A fresh instance: detection has counted costs in this one.
  return best && candidates(first, names).find(({ format }) => format.name === best.format.name);
}
