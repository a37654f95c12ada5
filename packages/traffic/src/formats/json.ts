/** Lines that are JSON objects, and their members. */
import type { Entry, Format } from '../entry.ts';
import { CostField, type Names, namedEntry, PARTS, type Part } from './named.ts';

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function parseObject(line: string): Json | undefined {
  if (line.charCodeAt(0) !== 123 && !/^\s*\{/.test(line)) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A member by its name, or by its path, such as `request.remote_ip`. */
function memberOf(json: Json, name: string, path: readonly string[]): unknown {
  if (Object.hasOwn(json, name)) return json[name];
  if (path.length === 1) return undefined;
  let value: unknown = json;
  for (const step of path) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** A header's values are a list in some logs; the first one is told. */
export function fieldOf(json: Json, name: string): string | undefined {
  const value = memberOf(json, name, name.split('.'));
  const first = Array.isArray(value) ? value[0] : value;
  if (typeof first === 'string') return first;
  return typeof first === 'number' || typeof first === 'boolean' ? String(first) : undefined;
}

interface JsonForm {
  readonly name: string;
  readonly names: Names;
  /** Whether an object is an entry of this log; other programs may write to the same file. */
  isEntry(json: Json): boolean;
  /** Where a header of the request would be. */
  headerNames(name: string): readonly string[];
}

export function jsonFormat({ name, names, isEntry, headerNames }: JsonForm): Format {
  const paths = PARTS.map((part) => names[part].map((each) => [each, each.split('.')] as const));
  const ways = Object.fromEntries(PARTS.map((part, at) => [part, paths[at]])) as Record<
    Part,
    (typeof paths)[number]
  >;
  const costs = names.cost.length === 0 ? undefined : new CostField();
  /** An object where a cost should be is no cost, rather than none: it must not count as 1. */
  const findCost = (json: Json): unknown => {
    for (const [each, path] of ways.cost) {
      const value = memberOf(json, each, path);
      if (value === undefined || value === null || value === '') continue;
      if (costs !== undefined) costs.name = each;
      return value;
    }
    return undefined;
  };
  const find = (json: Json, part: Part): unknown => {
    if (part === 'cost') return findCost(json);
    for (const [each, path] of ways[part]) {
      const value = memberOf(json, each, path);
      // An object is not what is meant, as where `client` holds `ip`; there may be a path to it.
      if (value !== undefined && value !== '' && typeof value !== 'object') return value;
    }
    return undefined;
  };
  const field = (json: Json, wanted: string): string | undefined => {
    const value = fieldOf(json, wanted);
    if (value !== undefined) return value;
    for (const each of headerNames(wanted)) {
      const header = fieldOf(json, each);
      if (header !== undefined) return header;
    }
    return undefined;
  };
  const read = (line: string): Entry | undefined => {
    const json = parseObject(line);
    if (json === undefined || !isEntry(json)) return undefined;
    return namedEntry(
      (part) => find(json, part),
      (wanted) => field(json, wanted),
      costs,
    );
  };
  return { name, costSource: costs, read };
}
