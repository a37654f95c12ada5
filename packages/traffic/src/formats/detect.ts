/**
 * Detects the format of a log: the one that reads most of its first lines, and at least a tenth of
 * them, since servers write other messages when they start. Lines may have a prefix of a collector.
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
  /** Default: the one that fits best. */
  readonly name?: FormatName | undefined;
  readonly names?: Names;
  /** A custom format, instead of the known ones. */
  readonly pattern?: string | undefined;
}

const SHARE = 0.1;

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

/** Reads lines without their prefix. */
const withPrefix = (format: Format, { name, remove }: Prefix): Format => ({
  name: `${name} ${format.name}`,
  costSource: format.costSource,
  isHeading: (line) => format.isHeading?.(remove(line) ?? '') ?? false,
  read: (line) => {
    const rest = remove(line);
    return rest === undefined ? undefined : format.read(rest);
  },
});

/** With a prefix first: some formats also read their lines with one, but not all fields. */
function allCandidates(first: readonly string[], options: FormatOptions): readonly Format[] {
  const prefixed = PREFIXES.flatMap((prefix) => {
    const rest = first.flatMap((line) => prefix.remove(line) ?? []);
    if (rest.length === 0 || rest.length < SHARE * first.length) return [];
    return candidates(rest, options).map((format) => withPrefix(format, prefix));
  });
  return [...prefixed, ...candidates(first, options)];
}

/** Returns the number of lines that have the format, and their share. */
function fitOf(format: Format, first: readonly string[]): { read: number; share: number } {
  const lines = first.filter((line) => !format.isHeading?.(line));
  const understood = lines.filter((line) => format.read(line) !== undefined).length;
  // A line with an invalid cost still has this format.
  const read = understood + (format.costSource?.refused ?? 0);
  // A header without rows is an empty log.
  return { read, share: lines.length === 0 ? 1 : read / lines.length };
}

/**
 * Returns the format that fits best, or undefined. A given one need not fit: its lines may begin
 * later. `first` has the first lines that are not blank.
 */
export function detect(first: readonly string[], options: FormatOptions = {}): Format | undefined {
  let best: Format | undefined;
  let most = 0;
  for (const format of allCandidates(first, options)) {
    const { read, share } = fitOf(format, first);
    if (share >= SHARE && (best === undefined || read > most)) [best, most] = [format, read];
  }
  const isGiven = options.name !== undefined || options.pattern !== undefined;
  // Fresh instances: detection has counted costs and read headings.
  const fresh = allCandidates(first, options);
  return fresh.find(({ name }) => name === best?.name) ?? (isGiven ? fresh.at(-1) : undefined);
}
