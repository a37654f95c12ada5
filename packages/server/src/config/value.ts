/** A value in a configuration file, with its position and the name that messages use for it. */
import { isMap, isScalar, isSeq, type Node } from 'yaml';
import { shorten } from '../expectation.ts';
import { entriesOf, writtenText } from './map-entries.ts';
import { type Source, startOf } from './source.ts';

export type Plain = string | number | boolean | null;

/** Returns text in quotes and backticks, shortened, for messages. */
export const quoted = (text: string): string => `\`${JSON.stringify(shorten(text))}\``;

export class Value {
  readonly #source: Source;
  readonly #node: Node | null;
  readonly #level: number;
  /** The offset of the key in the file; for items of a list, the offset of the item. */
  readonly #keyAt: number;
  /** The name of the value in messages: "`limit` of policy `perMinute`". */
  readonly label: string;

  constructor(source: Source, node: unknown, label: string, keyAt = 0, level = 0) {
    this.#source = source;
    this.#level = level;
    this.#node = node === undefined ? null : source.resolve(node, level);
    this.label = label;
    this.#keyAt = keyAt;
  }

  /** Whether the key is absent or has no value. */
  get isMissing(): boolean {
    return this.#node === null || (isScalar(this.#node) && this.#node.value === null);
  }

  get isMap(): boolean {
    return isMap(this.#node);
  }

  get isList(): boolean {
    return isSeq(this.#node);
  }

  /** The value of a scalar; undefined for lists and maps. */
  get plain(): Plain | undefined {
    return isScalar(this.#node) ? (this.#node.value as Plain) : undefined;
  }

  /** The text of a scalar as written in the file; undefined for null, lists and maps. */
  get written(): string | undefined {
    return isScalar(this.#node) && this.#node.value !== null ? writtenText(this.#node) : undefined;
  }

  /** The value and all nested values as plain data. */
  get data(): unknown {
    if (this.isList) return this.items(() => this.label).map(({ data }) => data);
    if (!this.isMap) return this.plain ?? null;
    const entries = [...this.entries(() => this.label)];
    return Object.fromEntries(entries.map(([name, { data }]) => [name, data]));
  }

  /** Returns the items of a list; empty if the value is not a list. */
  items(labelOf: (place: number) => string): readonly Value[] {
    if (!isSeq(this.#node)) return [];
    return this.#node.items.map((item, index) => {
      const at = startOf(item as Node | null);
      return new Value(this.#source, item, labelOf(index + 1), at, this.#level + 1);
    });
  }

  /** Returns the entries of a map; empty if the value is not a map. */
  entries(labelOf: (name: string) => string): Map<string, Value> {
    const values = new Map<string, Value>();
    if (!isMap(this.#node)) return values;
    const level = this.#level + 1;
    for (const [name, { at, value }] of entriesOf(this.#source, this.#node, level)) {
      values.set(name, new Value(this.#source, value, labelOf(name), at, level));
    }
    return values;
  }

  /** Returns a missing value for a key that this map does not have. */
  missing(label: string): Value {
    return new Value(this.#source, undefined, label, this.#keyAt, this.#level);
  }

  /** Adds a problem at this value. */
  report(message: string): void {
    this.#source.report(this.#at, message);
  }

  /** Adds a warning at this value. */
  warn(message: string): void {
    this.#source.warn(this.#at, message);
  }

  /** Adds a problem at the key of this value. */
  reportKey(message: string): void {
    this.#source.report(this.#keyAt, message);
  }

  /** Adds the problem "Expected ... to be ..., got ...". */
  expected(what: string, hint = ''): void {
    this.report(`Expected ${this.label} to be ${what}, got ${this.#shown}${hint}`);
  }

  get #at(): number {
    return this.isMissing ? this.#keyAt : startOf(this.#node);
  }

  get #shown(): string {
    if (this.isMissing) return 'nothing';
    if (this.isMap) return 'a map';
    if (this.isList) return 'a list';
    const { plain } = this;
    return typeof plain === 'string' ? quoted(plain) : `\`${String(plain)}\``;
  }
}

/** Returns a function that names the fields of a map: "`limit` of policy `perMinute`". */
export const labelIn =
  (owner: string) =>
  (name: string): string =>
    owner === '' ? `\`${shorten(name)}\`` : `\`${shorten(name)}\` of ${owner}`;
