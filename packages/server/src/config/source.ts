/**
 * Parses one YAML file: nodes, their positions, and the targets of aliases. The size of the file
 * and the number and depth of its values are bounded.
 */
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

export interface ConfigText {
  readonly path: string;
  readonly text: string;
}

export const MAX_FILE_BYTES = 4 * 2 ** 20;
/**
 * Maximum number of values. The values in the target of an alias count once for each alias, because
 * a few lines of aliases can expand to millions of values.
 */
const MAX_VALUES = 1_000_000;
const MAX_LEVELS = 200;
const LEVELS = `${MAX_LEVELS} levels`;
/** Replacements for messages of the YAML parser, by error code. */
const MESSAGES: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'one document, got another',
  RESOURCE_EXHAUSTION: `at most ${LEVELS}, got more`,
};
/** Maximum number of names, values and punctuation marks. Bounds the parsing time. */
const MAX_TOKENS = 1_000_000;

/** Thrown to stop the parsing of one file. The problem has already been reported. */
export class UnreadableFile extends Error {}

export class Source {
  readonly path: string;
  readonly root: Node | null;
  readonly #problems: Problems;
  readonly #text: string;
  /** The offset at which each line starts. Computed when the first problem is reported. */
  #lines: readonly number[] | undefined = undefined;
  readonly #aliased: ReadonlyMap<Alias, Node>;
  #values = 0;

  /** Throws `UnreadableFile` if the text is not YAML. */
  constructor({ path, text }: ConfigText, problems: Problems) {
    this.path = path;
    this.#problems = problems;
    problems.addFile(path);
    const bare = text.replace(/^\uFEFF/, '');
    this.#text = bare;
    const document = this.#parse(bare);
    this.root = document.contents;
    this.#aliased = this.#aliasesIn(document);
  }

  /** Adds a problem at an offset. */
  report(offset: number, message: string): void {
    const { line, column } = this.#positionOf(offset);
    this.#problems.add(this.path, line, column, message);
  }

  /** Adds a warning at an offset. */
  warn(offset: number, message: string): void {
    const { line, column } = this.#positionOf(offset);
    this.#problems.warn(this.path, line, column, message);
  }

  #positionOf(offset: number): { line: number; column: number } {
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

  /**
   * Returns the target if the node is an alias, otherwise the node. Throws if the file has too many
   * values or levels.
   */
  resolve(node: unknown, level: number): Node | null {
    const found = isNode(node) ? node : null;
    if (++this.#values > MAX_VALUES) {
      throw this.#unreadable(0, `Expected at most ${MAX_VALUES} values, aliases counted, got more`);
    }
    if (level > MAX_LEVELS) {
      throw this.#unreadable(startOf(found), `Expected at most ${LEVELS}, got more`);
    }
    return isAlias(found) ? this.#aliased.get(found)! : found;
  }

  /**
   * Returns the target of each alias: the last node before the alias whose anchor has the same
   * name.
   */
  #aliasesIn(document: Document.Parsed): ReadonlyMap<Alias, Node> {
    const anchors = new Map<string, Node>();
    const aliased = new Map<Alias, Node>();
    let isValid = true;
    visit(document, {
      Node: (_key, node) => {
        if (!isAlias(node)) {
          if (node.anchor !== undefined) anchors.set(node.anchor, node);
          return;
        }
        const target = anchors.get(node.source);
        if (target !== undefined) aliased.set(node, target);
        else {
          isValid = false;
          const what = `an anchor \`&${node.source}\` before \`*${node.source}\``;
          this.report(startOf(node), `Expected ${what}, got none`);
        }
      },
    });
    if (!isValid) throw new UnreadableFile(this.path);
    return aliased;
  }

  #unreadable(offset: number, message: string): UnreadableFile {
    this.report(offset, message);
    return new UnreadableFile(message);
  }

  #parse(text: string): Document.Parsed {
    const bound = exceededBound(text);
    if (bound !== undefined) throw this.#unreadable(0, `Expected at most ${bound}, got more`);
    const document = parseDocument(text, {
      prettyErrors: false,
      // With a lower `logLevel`, the parser does not report a second document.
      logLevel: 'error',
      // Text, numbers, booleans and null of YAML 1.2, even if the file declares another version.
      schema: 'core',
      merge: false,
      resolveKnownTags: false,
      // The parser would compare each pair of keys. `map-entries.ts` uses a set instead.
      uniqueKeys: false,
    });
    const errors = [...document.errors, ...document.warnings];
    for (const { code, pos, message } of errors) {
      const what = MESSAGES[code] ?? `YAML, got an error: ${message}`;
      this.report(pos[0], `Expected ${what}`);
    }
    if (errors.length > 0) throw new UnreadableFile(this.path);
    return document;
  }
}

function linesOf(text: string): readonly number[] {
  const lines = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines.push(at + 1);
  return lines;
}

/**
 * Returns a description of the bound that a text exceeds; undefined if it exceeds none. Counts the
 * tokens before the parser runs, so that the parser does not allocate nodes for a text that is too
 * large.
 */
function exceededBound(text: string): string | undefined {
  if (text.length > MAX_FILE_BYTES) return `${MAX_FILE_BYTES} bytes`;
  let tokens = 0;
  let brackets = 0;
  let levelsInLine = 0;
  // The lexer emits U+001F before the text of a scalar, which may contain brackets.
  let isScalar = false;
  for (const token of new Lexer().lex(text)) {
    if (!isScalar && '[{'.includes(token)) brackets++;
    else if (!isScalar && ']}'.includes(token)) brackets--;
    else if (!isScalar && '-?'.includes(token) && brackets <= 0) levelsInLine++;
    else if (token.endsWith('\n')) levelsInLine = 0;
    isScalar = token === '\u001f';
    if (++tokens > MAX_TOKENS) return `${MAX_TOKENS} names, values and punctuation marks`;
    if (brackets + levelsInLine > MAX_LEVELS) return LEVELS;
  }
  return undefined;
}

/** Returns the offset of a node. */
export const startOf = (node: Node | null): number => node?.range?.[0] ?? 0;
