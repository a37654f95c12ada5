/**
 * Detects the format of a log: the format that parses most of its first lines. A tenth of them is
 * enough, because servers write other messages when they start. Lines may start with a prefix of a
 * log collector.
 */
import type { Format } from '../entry.ts';
import { alb } from './alb.ts';
import { caddy } from './caddy.ts';
import { combined } from './combined.ts';
import { csv, headingOf } from './csv.ts';
import { envoy } from './envoy.ts';
import { haproxy } from './haproxy.ts';
import { jsonLines } from './json-lines.ts';
import { COMMON_NAMES, type Names } from './named.ts';
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
  /** Default: detected. */
  readonly name?: FormatName | undefined;
  readonly names?: Names;
  /** A custom format. Replaces the known formats. */
  readonly pattern?: string | undefined;
}

const MIN_SHARE = 0.1;

function candidates(first: readonly string[], options: FormatOptions): readonly Format[] {
  const { name, names = COMMON_NAMES, pattern } = options;
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

/** Returns a format that removes the prefix of a line before it parses the line. */
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
 * Returns all formats to try. Formats with a prefix come first: some formats without a prefix also
 * parse lines with a prefix, but not all of their fields.
 */
function allCandidates(first: readonly string[], options: FormatOptions): readonly Format[] {
  const prefixed = PREFIXES.flatMap((prefix) => {
    const rest = first.flatMap((line) => prefix.remove(line) ?? []);
    if (rest.length === 0 || rest.length < MIN_SHARE * first.length) return [];
    return candidates(rest, options).map((format) => withPrefix(format, prefix));
  });
  return [...prefixed, ...candidates(first, options)];
}

/**
 * Returns the number of lines that the format parses, and their share of all lines except headers.
 */
function fitOf(format: Format, first: readonly string[]): { read: number; share: number } {
  const lines = first.filter((line) => !format.isHeading?.(line));
  const understood = lines.filter((line) => format.read(line) !== undefined).length;
  // A line with an invalid cost also has this format.
  const read = understood + (format.costSource?.refused ?? 0);
  // A header without further lines is an empty log in this format.
  return { read, share: lines.length === 0 ? 1 : read / lines.length };
}

/**
 * Returns the format that parses the most lines of `first`, the first non-blank lines of a log.
 * Returns undefined if no format parses a tenth of them. If `options` has a name or a pattern,
 * returns that format in any case, because its lines may start later.
 */
export function detect(first: readonly string[], options: FormatOptions = {}): Format | undefined {
  let best: Format | undefined;
  let most = 0;
  for (const format of allCandidates(first, options)) {
    const { read, share } = fitOf(format, first);
    if (share >= MIN_SHARE && (best === undefined || read > most)) [best, most] = [format, read];
  }
  const isGiven = options.name !== undefined || options.pattern !== undefined;
  // Return a new instance: the instances above have already counted costs and stored columns.
  const fresh = allCandidates(first, options);
  return fresh.find(({ name }) => name === best?.name) ?? (isGiven ? fresh.at(-1) : undefined);
}
