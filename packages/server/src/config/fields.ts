/**
 * Parses values by a zod schema and reports each problem at its line and column. This module walks
 * maps and lists itself, so that one problem does not hide others. Zod parses the scalars. The text
 * of a message comes from the schema (`expectation.ts`).
 */
import type { z } from 'zod';
import { expectationOf, shorten } from '../expectation.ts';
import { closestName, didYouMean } from './did-you-mean.ts';
import { labelIn, quoted, type Value } from './value.ts';

type Shape = Readonly<Record<string, z.ZodType>>;
type Present<S extends z.ZodType> = NonNullable<z.output<S>>;
type Optional<S extends Shape> = {
  [Name in keyof S]: undefined extends z.output<S[Name]> ? Name : never;
}[keyof S];

/** The output of an object schema. A field whose value is null counts as missing. */
export type Parsed<S extends Shape> = {
  readonly [Name in Exclude<keyof S, Optional<S>>]: Present<S[Name]>;
} & { readonly [Name in Optional<S>]?: Present<S[Name]> };

/** Returns an object without the fields that are undefined. */
export const withoutUndefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]?: Exclude<T[Name], undefined>;
  };

const INVALID = Symbol('invalid');

/** Parses a value by its schema. Returns undefined if it is missing or invalid. */
export function read<S extends z.ZodType>(value: Value, schema: S): Present<S> | undefined {
  const parsed = parse(value, schema);
  return parsed === INVALID ? undefined : (parsed as Present<S> | undefined);
}

function parse(value: Value, schema: z.core.$ZodType): unknown {
  const { def } = schema as z.ZodType;
  switch (def.type) {
    case 'optional':
    case 'nullable':
      return value.isMissing ? undefined : parse(value, (def as z.core.$ZodOptionalDef).innerType);
    case 'union':
      return parseUnion(value, schema, (def as z.core.$ZodUnionDef).options);
    case 'array':
      return parseList(value, schema as z.ZodArray);
    case 'record':
      return parseRecord(value, schema as z.ZodRecord);
    case 'object':
      return parseObject(value, schema as z.ZodObject);
    case 'unknown':
      return value.data;
    default:
      return parseScalar(value, schema as z.ZodType);
  }
}

/**
 * Parses a value by the option of the union that fits its kind (list, map or scalar). A union has
 * at most one option for lists and one for maps. Among several options for scalars, zod chooses.
 */
function parseUnion(
  value: Value,
  schema: z.core.$ZodType,
  options: readonly z.core.$ZodType[],
): unknown {
  const candidates = options.filter(({ _zod: { def } }) => {
    if (def.type === 'array') return value.isList;
    if (def.type === 'object' || def.type === 'record') return value.isMap;
    return !value.isList && !value.isMap;
  });
  const isUnambiguous = candidates.length === 1;
  return isUnambiguous ? parse(value, candidates[0]) : parseScalar(value, schema as z.ZodType);
}

function parseScalar(value: Value, schema: z.ZodType): unknown {
  const { expected, asWritten } = expectationOf(schema);
  const given = asWritten ? value.written : value.plain;
  const { success, data } = schema.safeParse(given);
  if (success) return data;
  const isMisspelt = typeof given === 'string' && schema.def.type === 'enum';
  const hint = isMisspelt ? didYouMean(given, (schema as z.ZodEnum).options.map(String)) : '';
  return reportInvalid(value, expected, hint);
}

function parseList(value: Value, schema: z.ZodArray): unknown {
  const items = itemsOf(value, schema);
  const parsed = items?.map((item) => parse(item, schema.element));
  return parsed === undefined || parsed.includes(INVALID) ? INVALID : parsed;
}

/** Returns the items of a list. Reports a problem if it is not a list, too short or too long. */
export function itemsOf(
  value: Value,
  schema: z.ZodArray,
  labelOf = (place: number): string => `entry ${place} of ${value.label}`,
): readonly Value[] | undefined {
  if (!value.isList) return void value.expected(expectationOf(schema).expected);
  const items = value.items(labelOf);
  const { length } = items;
  for (const { _zod: check } of schema.def.checks ?? []) {
    const { minimum = 0, maximum = Infinity } = check.def as LengthCheck;
    if (length >= minimum && length <= maximum) continue;
    const what = length < minimum ? `at least ${minimum}` : `at most ${maximum}`;
    const unit = what === 'at least 1' ? 'entry' : 'entries';
    return void value.report(`Expected ${value.label} to have ${what} ${unit}, got ${length}`);
  }
  return items;
}

type LengthCheck = z.core.$ZodCheckDef & { readonly minimum?: number; readonly maximum?: number };

function parseRecord(value: Value, schema: z.ZodRecord): unknown {
  if (!value.isMap) return reportInvalid(value, expectationOf(schema).expected);
  const parsed = [...value.entries(labelIn(value.label))].map(([name, entry]) => {
    const result = parse(entry, schema.valueType);
    if ((schema.keyType as z.ZodType).safeParse(name).success) return [name, result];
    const what = `a key of ${value.label} to be ${expectationOf(schema.keyType).expected}`;
    entry.reportKey(`Expected ${what}, got ${quoted(name)}`);
    return [name, INVALID];
  });
  return parsed.some(([, each]) => each === INVALID) ? INVALID : Object.fromEntries(parsed);
}

const parseObject = (value: Value, schema: z.ZodObject): unknown =>
  fieldsOf(value, schema as z.ZodObject<Shape>)?.complete() ?? INVALID;

/** Returns the schema of a field's value without `optional` and `nullable`. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  const { def } = schema as z.ZodType;
  const isWrapper = def.type === 'optional' || def.type === 'nullable';
  return isWrapper ? unwrap((def as z.core.$ZodOptionalDef).innerType) : schema;
}

function reportInvalid(value: Value, expected: string, hint?: string): typeof INVALID {
  value.expected(expected, hint);
  return INVALID;
}

/** Returns the fields of a map. If the value is not a map, reports a problem. */
export function fieldsOf<S extends Shape>(
  value: Value,
  schema: z.ZodObject<S>,
  owner = value.label,
): Fields<S> | undefined {
  if (value.isMap) return new Fields(value, schema, owner);
  value.expected(expectationOf(schema).expected);
  return undefined;
}

/** The fields of a map, parsed by an object schema. `owner` is the name of the map in messages. */
export class Fields<S extends Shape> {
  readonly #map: Value;
  readonly #shape: S;
  readonly #owner: string;
  readonly #values: Map<string, Value>;
  /**
   * Fields that are absent, probably because a key is misspelt. They are not reported as missing.
   */
  readonly #misspelt = new Set<string>();
  #isValid = true;

  /** Reports each unknown key as a problem. */
  constructor(map: Value, schema: z.ZodObject<S>, owner: string) {
    this.#map = map;
    this.#shape = schema.shape;
    this.#owner = owner;
    this.#values = map.entries(labelIn(owner));
    for (const [name, value] of this.#values) {
      if (!Object.hasOwn(this.#shape, name)) this.#rejectUnknown(name, value);
    }
  }

  #rejectUnknown(name: string, value: Value): void {
    const known = Object.keys(this.#shape);
    const where = this.#owner === '' ? '' : ` in ${this.#owner}`;
    const got = `\`${shorten(name)}\`${didYouMean(name, known)}`;
    value.reportKey(`Expected only ${known.join(', ')}${where}, got ${got}`);
    this.#misspelt.add(closestName(name, known) ?? '');
    this.#isValid = false;
  }

  /** Whether all keys are known, and all fields that were read so far are valid. */
  get isValid(): boolean {
    return this.#isValid;
  }

  /** Returns the unparsed value of a field, for example to report a problem at its position. */
  at(name: keyof S & string): Value {
    return this.#values.get(name) ?? this.#map.missing(labelIn(this.#owner)(name));
  }

  /** Returns the parsed field; undefined if it is missing or invalid. */
  read<Name extends keyof S & string>(name: Name): Present<S[Name]> | undefined {
    const isExcused = this.#misspelt.has(name) && !this.#values.has(name);
    const parsed = isExcused ? INVALID : parse(this.at(name), this.#shape[name]);
    if (parsed !== INVALID) return parsed as Present<S[Name]> | undefined;
    this.#isValid = false;
    return undefined;
  }

  /** Returns a parsed field. Reports a problem if the field is missing, even if it is optional. */
  require<Name extends keyof S & string>(name: Name): Present<S[Name]> | undefined {
    const value = this.at(name);
    if (!value.isMissing) return this.read(name);
    if (!this.#misspelt.has(name))
      value.expected(expectationOf(unwrap(this.#shape[name])).expected);
    this.#isValid = false;
    return undefined;
  }

  /** Returns the unparsed items of a field that is a list. */
  items(name: keyof S & string, labelOf: (place: number) => string): readonly Value[] {
    const schema = this.#shape[name];
    const value = this.at(name);
    const isOptional = schema.def.type === 'optional';
    if (value.isMissing && (isOptional || this.#misspelt.has(name))) return [];
    const items = itemsOf(value, unwrap(schema) as z.ZodArray, labelOf);
    if (items === undefined) this.#isValid = false;
    return items ?? [];
  }

  /** Returns the unparsed entries of a field that is a map. */
  entries(name: keyof S & string, labelOf: (name: string) => string): Map<string, Value> {
    const value = this.at(name);
    if (!value.isMap && !value.isMissing) {
      value.expected(expectationOf(unwrap(this.#shape[name])).expected);
    }
    return value.entries(labelOf);
  }

  /** Returns all fields that are present and valid. */
  readAll(): Partial<Parsed<S>> {
    const parsed: Record<string, unknown> = {};
    for (const name of Object.keys(this.#shape)) {
      const value = this.read(name);
      if (value !== undefined) parsed[name] = value;
    }
    return parsed as Partial<Parsed<S>>;
  }

  /** Returns all fields, or undefined if one is invalid. */
  complete(): Parsed<S> | undefined {
    const parsed = this.readAll();
    return this.#isValid ? (parsed as Parsed<S>) : undefined;
  }
}
