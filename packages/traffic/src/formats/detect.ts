/**
 * Detects the format of a log: the format that reads most of its first lines. A tenth of the lines
 * is enough, because servers write other messages when they start. Lines may have a prefix of a log
 * collector.
 */
import type { Format } from '../entry.ts';
import { alb } from './alb.ts';
import { caddy } from './caddy.ts';
import { combined } from './combined.ts';
import { csv, headingOf } from './csv.ts';
import { envoy } from './envoy.ts';
import { haproxy } from './haproxy.ts';
import { jsonLines } from './json-lines.ts';
import { type Names, USUAL } from './named.ts';
import { patternFormat } from './pattern.ts';
import { PREFIXES, type Prefix } from './prefix.ts';
import { traefik } from './traefik.ts';
import { w3c } from './w3c.ts';

export const FORMAT_NAMES = [
  ...(['combined', 'haproxy', 'envoy', 'caddy', 'traefik', 'alb', 'cloudfront', 'iis'] as const),
  ...(['json-lines', 'csv'] as const),
];
export type FormatName = (typeof FORMAT_NAMES)[number];

export interface FormatOptions {
  /** Default: the format that fits best. */
  readonly name?: FormatName | undefined;
  readonly names?: Names;
  /** A custom format, instead of the known formats. */
  readonly pattern?: string | undefined;
}

const MIN_SHARE = 0.1;

function candidates(first: readonly string[], options: FormatOptions): readonly Format[] {
  const { name, names = USUAL, pattern } = options;
  if (pattern !== undefined) return [patternFormat(pattern, names)];
  const line = first[0] ?? '';
  const heading = headingOf(line, names);
  const others = [combined, haproxy, envoy, caddy, traefik, alb];
  const all: readonly Format[] = [
    ...(heading === undefined
      ? []
      : [{ ...csv(heading, names), isHeading: (each: string) => each === line }]),
    ...others,
    ...[w3c('cloudfront'), w3c('iis'), jsonLines(names)],
  ];
  return name === undefined ? all : all.filter((each) => each.name === name);
}

/** Returns a format that removes the prefix of a line before it reads the line. */
const withPrefix = (format: Format, { name, remove }: Prefix): Format => ({
  name: `${name} ${format.name}`,
  costSource: format.costSource,
  isHeading: (line) => format.isHeading?.(remove(line) ?? '') ?? false,
  read: (line) => {
    const rest = remove(line);
    return rest === undefined ? undefined : format.read(rest);
  },
});

/**
 * Returns all formats to try. Formats with a prefix come first: some formats without a prefix read
 * prefixed lines too, but not all of their fields.
 */
function allCandidates(first: readonly string[], options: FormatOptions): readonly Format[] {
  const prefixed = PREFIXES.flatMap((prefix) => {
    const rest = first.flatMap((line) => prefix.remove(line) ?? []);
    if (rest.length === 0 || rest.length < MIN_SHARE * first.length) return [];
    return candidates(rest, options).map((format) => withPrefix(format, prefix));
  });
  return [...prefixed, ...candidates(first, options)];
}

/** Returns the number of lines in this format, and their share of all lines. */
function fitOf(format: Format, first: readonly string[]): { read: number; share: number } {
  const lines = first.filter((line) => !format.isHeading?.(line));
  const understood = lines.filter((line) => format.read(line) !== undefined).length;
  // A line with an invalid cost still has this format.
  const read = understood + (format.costSource?.refused ?? 0);
  // A header without rows is an empty log.
  return { read, share: lines.length === 0 ? 1 : read / lines.length };
}

/**
 * Returns the format that fits best, or undefined. `first` has the first lines that are not blank.
 * A format given by `options` is returned even if no line fits, because its lines may start later.
 */
export function detect(first: readonly string[], options: FormatOptions = {}): Format | undefined {
  let best: Format | undefined;
  let most = 0;
  for (const format of allCandidates(first, options)) {
    const { read, share } = fitOf(format, first);
    if (share >= MIN_SHARE && (best === undefined || read > most)) [best, most] = [format, read];
  }
  const isGiven = options.name !== undefined || options.pattern !== undefined;
  // Return a new instance: the instances above have counted costs and read headings.
  const fresh = allCandidates(first, options);
  return fresh.find(({ name }) => name === best?.name) ?? (isGiven ? fresh.at(-1) : undefined);
}
