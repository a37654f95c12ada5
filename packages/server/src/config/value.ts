/**
 * A value of a file: what it is, where it stands, and what it is called when it is wrong. Readers
 * ask it for what they need; if it is something else, it says so there, and they get undefined.
 */
import { isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap } from 'yaml';
import { closestName, didYouMean } from './did-you-mean.ts';
import { type Source, startOf } from './source.ts';

/** What stands for itself. */
export type Plain = string | number | boolean | null;

const MAX_SHOWN_LENGTH = 60;
const MAX_WORDS_SHOWN = 20;

/** Text that is not too long for a message. */
export const short = (text: string, most = MAX_SHOWN_LENGTH): string =>
  text.length > most ? `${text.slice(0, most)}…` : text;

/** Text as it is shown in messages. */
export const quoted = (text: string): string => `\`${JSON.stringify(short(text))}\``;

/** Words to choose from, or the first of them. */
export function choice(words: readonly string[]): string {
  const shown = words.slice(0, MAX_WORDS_SHOWN).map((word) => short(word));
  return `one of ${shown.join(', ')}${words.length > MAX_WORDS_SHOWN ? ', …' : ''}`;
}

export class Value {
  readonly #source: Source;
  readonly #node: Node | null;
  readonly #level: number;
  /** Where its key stands; where it stands itself if it has none. */
  readonly #at: number;
  /** What it is called: "`limit` of policy `perMinute`". */
  readonly label: string;
  /** Missing because its key is misspelt, which has been said. */
  readonly #isExcused: boolean;

  constructor(source: Source, node: unknown, label: string, at = 0, level = 0, isExcused = false) {
    this.#source = source;
    this.#isExcused = isExcused;
    this.#level = level;
    this.#node = node === undefined ? null : source.resolved(node, level);
    this.label = label;
    this.#at = at;
  }

  /** A value that is not there counts like one that is left empty. */
  get isMissing(): boolean {
    return this.#node === null || (isScalar(this.#node) && this.#node.value === null);
  }

  get isMap(): boolean {
    return isMap(this.#node);
  }

  get isList(): boolean {
    return isSeq(this.#node);
  }

  get plain(): Plain | undefined {
    return isScalar(this.#node) ? (this.#node.value as Plain) : undefined;
  }

  /** The whole as data, for what is passed on as it is. */
  get data(): unknown {
    if (this.isList) return this.items(() => this.label).map(({ data }) => data);
    if (!this.isMap) return this.plain ?? null;
    const { entries } = this.fields(this.label);
    return Object.fromEntries(entries.map(([name, { data }]) => [name, data]));
  }

  /** Says what is wrong, in its place. */
  report(message: string): undefined {
    if (this.#isExcused) return undefined;
    this.#source.report(this.isMissing ? this.#at : startOf(this.#node), message);
    return undefined;
  }

  /** Says what is rarely meant, in its place. */
  warn(message: string): void {
    this.#source.warn(this.isMissing ? this.#at : startOf(this.#node), message);
  }

  /** Says what is wrong where its key stands. */
  reportKey(message: string): undefined {
    this.#source.report(this.#at, message);
    return undefined;
  }

  /** "Expected ... to be ..., got ...". */
  expected(what: string, hint = ''): undefined {
    return this.report(`Expected ${this.label} to be ${what}, got ${this.shown}${hint}`);
  }

  get shown(): string {
    if (this.isMissing) return 'nothing';
    if (this.isMap) return 'a map';
    if (this.isList) return 'a list';
    const { plain } = this;
    return typeof plain === 'string' ? quoted(plain) : `\`${String(plain)}\``;
  }

  /** Text of at least one character. */
  text(what = 'text'): string | undefined {
    const { plain } = this;
    return typeof plain === 'string' && plain !== '' ? plain : this.expected(what);
  }

  /** Text, or a number or truth value as it is written: names of people are sometimes `42`. */
  written(what = 'text'): string | undefined {
    const node = this.#node;
    const text = isScalar(node) && node.value !== null ? writtenText(node) : '';
    return text !== '' ? text : this.expected(what);
  }

  integer(least: number, most = Number.MAX_SAFE_INTEGER): number | undefined {
    const { plain } = this;
    const isRight = Number.isSafeInteger(plain) && Number(plain) >= least && Number(plain) <= most;
    if (isRight) return plain as number;
    const isOpen = most === Number.MAX_SAFE_INTEGER;
    return this.expected(isOpen ? `an integer >= ${least}` : `an integer from ${least} to ${most}`);
  }

  /** Missing means false. */
  flag(): boolean {
    if (this.isMissing) return false;
    return typeof this.plain === 'boolean' ? this.plain : (this.expected('true or false') ?? false);
  }

  oneOf<T extends string>(words: readonly T[]): T | undefined {
    const { plain } = this;
    if (words.includes(plain as T)) return plain as T;
    const hint = typeof plain === 'string' ? didYouMean(plain, words) : '';
    return this.expected(choice(words), hint);
  }

  /** The items of a list; a missing list has none. */
  items(labelOf: (place: number) => string, what = 'a list'): readonly Value[] {
    if (this.isMissing) return [];
    if (!isSeq(this.#node)) return this.expected(what) ?? [];
    return this.#node.items.map((item, index) => {
      const at = startOf(item as Node | null);
      return new Value(this.#source, item, labelOf(index + 1), at, this.#level + 1);
    });
  }

  /** A list, or one value that stands for a list of one. */
  oneOrMore(): readonly Value[] {
    return this.isList ? this.items(() => `each of ${this.label}`) : [this];
  }

  /**
   * The fields of a map; a missing map has none. `owner` is what they are called after:
   * "`limit` of policy `perMinute`". With `known`, all other keys are mistakes.
   */
  fields(owner: string, known?: readonly string[], what = 'a map'): Fields {
    const entries = new Map<string, Value>();
    if (isMap(this.#node)) this.#collect(this.#node, owner, entries, this.#level + 1);
    else if (!this.isMissing) this.expected(what);
    const meant = this.#refuseUnknown(entries, owner, known);
    const missing = (name: string): Value => {
      const label = labelOf(name, owner);
      return new Value(this.#source, undefined, label, this.#at, this.#level, meant.has(name));
    };
    return new Fields(entries, missing);
  }

  /** Tells which fields were probably meant. */
  #refuseUnknown(
    entries: Map<string, Value>,
    owner: string,
    known: readonly string[] | undefined,
  ): ReadonlySet<string> {
    const meant = new Set<string>();
    if (known === undefined) return meant;
    for (const [name, value] of entries) {
      if (known.includes(name)) continue;
      const where = owner === '' ? '' : ` in ${owner}`;
      const hint = didYouMean(name, known);
      meant.add(closestName(name, known) ?? '');
      const came = `\`${short(name)}\``;
      value.reportKey(`Expected only ${known.join(', ')}${where}, got ${came}${hint}`);
      entries.delete(name);
    }
    return meant;
  }

  /** Takes a map's entries; those of `<<` go behind, the first of them first. */
  #collect(map: YAMLMap, owner: string, entries: Map<string, Value>, level: number): void {
    const own = new Set<string>();
    const merged: unknown[] = [];
    for (const { key, value } of map.items) {
      const keyNode = this.#source.resolved(key, level);
      const at = startOf(key as Node | null);
      if (keyNode !== null && !isScalar(keyNode)) {
        this.#source.report(at, 'Expected a key to be text, got something else');
        continue;
      }
      const name = keyNode === null ? '' : writtenText(keyNode);
      if (name === '<<' && keyNode?.type === 'PLAIN') {
        merged.push(value);
        continue;
      }
      if (own.has(name)) this.#source.report(at, `Expected \`${short(name)}\` once, got it again`);
      own.add(name);
      if (entries.has(name)) continue;
      entries.set(name, new Value(this.#source, value, labelOf(name, owner), at, level));
    }
    for (const each of merged) this.#merge(each, owner, entries, level + 1);
  }

  #merge(value: unknown, owner: string, entries: Map<string, Value>, level: number): void {
    const node = this.#source.resolved(value, level);
    if (isMap(node)) this.#collect(node, owner, entries, level);
    else if (isSeq(node)) {
      for (const item of node.items) this.#merge(item, owner, entries, level + 1);
    } else {
      this.#source.report(startOf(value as Node | null), 'Expected `<<` to name a map, got none');
    }
  }
}

/** What a map holds, by name. What is not there is a missing value, and knows where it would be. */
export class Fields {
  readonly #entries: ReadonlyMap<string, Value>;
  readonly #missing: (name: string) => Value;

  constructor(entries: ReadonlyMap<string, Value>, missing: (name: string) => Value) {
    this.#entries = entries;
    this.#missing = missing;
  }

  get(name: string): Value {
    return this.#entries.get(name) ?? this.#missing(name);
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  get entries(): readonly (readonly [string, Value])[] {
    return [...this.#entries];
  }
}

const labelOf = (name: string, owner: string): string =>
  owner === '' ? `\`${short(name)}\`` : `\`${short(name)}\` of ${owner}`;

/** A scalar as it stands in the file: `007` stays `007`. */
function writtenText({ value, source }: Scalar): string {
  if (typeof value === 'string') return value;
  return source ?? String(value);
}
