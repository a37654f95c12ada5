/** One file as YAML: its nodes, where they stand, and what aliases stand for. Nothing unbounded. */
import {
  type Alias,
  type Document,
  isAlias,
  isNode,
  Lexer,
  type Node,
  parseDocument,
  visit,
} from 'yaml';
import type { Problems } from './problems.ts';

/** A file and what is in it. */
export interface ConfigText {
  readonly path: string;
  readonly text: string;
}

export const MAX_FILE_BYTES = 4 * 2 ** 20;
/** Aliases count each time, so that a few lines cannot stand for millions. */
const MAX_VALUES = 1_000_000;
const MAX_LEVELS = 200;
const LEVELS = `${MAX_LEVELS} levels`;
/** What the parser says too much or too little about. */
const MEANINGS: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'one document, got another',
  RESOURCE_EXHAUSTION: `at most ${LEVELS}, got more`,
};
/** Names, values and signs. What is more than that is no configuration, and takes long to parse. */
const MAX_TOKENS = 1_000_000;

/** Ends the reading of one file, after what is wrong has been told. */
export class Unreadable extends Error {}

export class Source {
  readonly path: string;
  readonly root: Node | null;
  readonly #problems: Problems;
  readonly #text: string;
  /** Where each line begins; found when something is wrong. */
  #lines: readonly number[] | undefined = undefined;
  readonly #aliased: ReadonlyMap<Alias, Node>;
  #values = 0;

  /** Throws `Unreadable` if the text is not YAML. */
  constructor({ path, text }: ConfigText, problems: Problems) {
    this.path = path;
    this.#problems = problems;
    problems.announce(path);
    const bare = text.replace(/^\uFEFF/, '');
    this.#text = bare;
    const document = this.#parsed(bare);
    this.root = document.contents;
    this.#aliased = this.#aliasesIn(document);
  }

  /** Says what is wrong at an offset. */
  report(offset: number, message: string): void {
    const { line, column } = this.#placeOf(offset);
    this.#problems.add(this.path, line, column, message);
  }

  /** Says what is rarely meant at an offset. */
  warn(offset: number, message: string): void {
    const { line, column } = this.#placeOf(offset);
    this.#problems.warn(this.path, line, column, message);
  }

  #placeOf(offset: number): { line: number; column: number } {
    this.#lines ??= linesOf(this.#text);
    const at = Math.min(offset, this.#text.length);
    let line = 0;
    for (let after = this.#lines.length; after - line > 1; ) {
      const middle = (line + after) >> 1;
      if (this.#lines[middle] <= at) line = middle;
      else after = middle;
    }
    return { line: line + 1, column: at - this.#lines[line] + 1 };
  }

  /** What a node stands for, each time it is read; too much of it is an error. */
  resolved(node: unknown, level: number): Node | null {
    const found = isNode(node) ? node : null;
    if (++this.#values > MAX_VALUES) {
      throw this.#unreadable(0, `Expected at most ${MAX_VALUES} values, aliases counted, got more`);
    }
    if (level > MAX_LEVELS) {
      throw this.#unreadable(startOf(found), `Expected at most ${LEVELS}, got more`);
    }
    return isAlias(found) ? this.#aliased.get(found)! : found;
  }

  /** An alias means the last anchor of its name before it. Found for all at once, in one walk. */
  #aliasesIn(document: Document.Parsed): ReadonlyMap<Alias, Node> {
    const anchors = new Map<string, Node>();
    const aliased = new Map<Alias, Node>();
    let isWhole = true;
    visit(document, {
      Node: (_key, node) => {
        if (!isAlias(node)) {
          if (node.anchor !== undefined) anchors.set(node.anchor, node);
          return;
        }
        const target = anchors.get(node.source);
        if (target !== undefined) aliased.set(node, target);
        else {
          isWhole = false;
          const wanted = `an anchor \`&${node.source}\` before \`*${node.source}\``;
          this.report(startOf(node), `Expected ${wanted}, got none`);
        }
      },
    });
    if (!isWhole) throw new Unreadable(this.path);
    return aliased;
  }

  #unreadable(offset: number, message: string): Unreadable {
    this.report(offset, message);
    return new Unreadable(message);
  }

  #parsed(text: string): Document.Parsed {
    const excess = excessOf(text);
    if (excess !== undefined) throw this.#unreadable(0, `Expected at most ${excess}, got more`);
    const document = parseDocument(text, {
      prettyErrors: false,
      // With less it would say nothing about a second document.
      logLevel: 'error',
      // YAML 1.2 whatever the file says: only text, numbers, true, false and null.
      schema: 'core',
      merge: false,
      resolveKnownTags: false,
      // Compares each key with each other; where maps are read, that is done with a table.
      uniqueKeys: false,
    });
    const faults = [...document.errors, ...document.warnings];
    for (const { code, pos, message } of faults) {
      const what = MEANINGS[code] ?? `YAML, got an error: ${message}`;
      this.report(pos[0], `Expected ${what}`);
    }
    if (faults.length > 0) throw new Unreadable(this.path);
    return document;
  }
}

function linesOf(text: string): readonly number[] {
  const lines = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines.push(at + 1);
  return lines;
}

/** What there is too much of. Told from the tokens, because the parser is not thrifty. */
function excessOf(text: string): string | undefined {
  if (text.length > MAX_FILE_BYTES) return `${MAX_FILE_BYTES} bytes`;
  let tokens = 0;
  let brackets = 0;
  let inLine = 0;
  let isScalar = false;
  for (const token of new Lexer().lex(text)) {
    // What follows this mark is text, whatever it looks like.
    if (!isScalar && '[{'.includes(token)) brackets++;
    else if (!isScalar && ']}'.includes(token)) brackets--;
    else if (!isScalar && '-?'.includes(token) && brackets <= 0) inLine++;
    else if (token.endsWith('\n')) inLine = 0;
    isScalar = token === '\u001f';
    if (++tokens > MAX_TOKENS) return `${MAX_TOKENS} names, values and signs`;
    if (brackets + inLine > MAX_LEVELS) return LEVELS;
  }
  return undefined;
}

/** Where a node begins. */
export const startOf = (node: Node | null): number => node?.range?.[0] ?? 0;
