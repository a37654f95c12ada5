/** Reads the entries of a YAML map. Merges the maps of `<<` keys and reports repeated keys. */
import { isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap } from 'yaml';
import { shorten } from '../expectation.ts';
import { type Source, startOf } from './source.ts';

export interface MapEntry {
  /** The offset of the key in the file. */
  readonly at: number;
  readonly value: unknown;
}

/** Returns the entries of a map by key. Entries merged by `<<` come last and override nothing. */
export function entriesOf(source: Source, map: YAMLMap, level: number): Map<string, MapEntry> {
  const entries = new Map<string, MapEntry>();
  collect(source, map, entries, level);
  return entries;
}

function collect(
  source: Source,
  map: YAMLMap,
  entries: Map<string, MapEntry>,
  level: number,
): void {
  const own = new Set<string>();
  const merged: unknown[] = [];
  for (const { key, value } of map.items) {
    const keyNode = source.resolve(key, level);
    const at = startOf(key as Node | null);
    if (keyNode !== null && !isScalar(keyNode)) {
      source.report(at, 'Expected a key to be text, got something else');
      continue;
    }
    const name = keyNode === null ? '' : writtenText(keyNode);
    if (name === '<<' && keyNode?.type === 'PLAIN') {
      merged.push(value);
      continue;
    }
    if (own.has(name)) source.report(at, `Expected \`${shorten(name)}\` once, got it again`);
    own.add(name);
    if (!entries.has(name)) entries.set(name, { at, value });
  }
  for (const each of merged) merge(source, each, entries, level + 1);
}

function merge(
  source: Source,
  value: unknown,
  entries: Map<string, MapEntry>,
  level: number,
): void {
  const node = source.resolve(value, level);
  if (isMap(node)) collect(source, node, entries, level);
  else if (isSeq(node)) {
    for (const item of node.items) merge(source, item, entries, level + 1);
  } else source.report(startOf(value as Node | null), 'Expected `<<` to name a map, got none');
}

/** Returns a scalar as it is written in the file: `007` stays `007`. */
export function writtenText({ value, source }: Scalar): string {
  if (typeof value === 'string') return value;
  return source ?? String(value);
}
