/** Base of the formats with one JSON object per line. */
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

/** Returns a member by name, or by path such as `request.remote_ip`. */
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

/** Returns a member as text. If it is a list, such as header values, returns the first item. */
export function fieldOf(json: Json, name: string): string | undefined {
  const value = memberOf(json, name, name.split('.'));
  const first = Array.isArray(value) ? value[0] : value;
  if (typeof first === 'string') return first;
  return typeof first === 'number' || typeof first === 'boolean' ? String(first) : undefined;
}

interface JsonFormatOptions {
  readonly name: string;
  readonly names: Names;
  /** Returns true if an object is a request. The same file may contain other messages. */
  isEntry(json: Json): boolean;
  /** Returns the possible names of a request header. */
  headerNames(name: string): readonly string[];
}

export function jsonFormat({ name, names, isEntry, headerNames }: JsonFormatOptions): Format {
  const paths = PARTS.map((part) => names[part].map((each) => [each, each.split('.')] as const));
  const pathsOf = Object.fromEntries(PARTS.map((part, at) => [part, paths[at]])) as Record<
    Part,
    (typeof paths)[number]
  >;
  const costs = names.cost.length === 0 ? undefined : new CostField();
  /** Returns the cost of a request, which may be an object: an invalid cost must not count as 1. */
  const findCost = (json: Json): unknown => {
    for (const [each, path] of pathsOf.cost) {
      const value = memberOf(json, each, path);
      if (value === undefined || value === null || value === '') continue;
      if (costs !== undefined) costs.name = each;
      return value;
    }
    return undefined;
  };
  const find = (json: Json, part: Part): unknown => {
    if (part === 'cost') return findCost(json);
    for (const [each, path] of pathsOf[part]) {
      const value = memberOf(json, each, path);
      // Skip objects: if `client` is an object, the address has another name, such as `client.ip`.
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
