/**
 * Style checks for all files of the repository.
 *
 *     node tools/tidy.mjs          prints each violation as file:line
 *     node tools/tidy.mjs --tree   prints the tree that ARCHITECTURE.md must contain
 *
 * Each rule is a pure function from files to violations, so tests can pass it a bad file.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { posix } from 'node:path';
import { parseSync } from 'rolldown/utils';
import { importRules } from './import-rules.mjs';

const sourceFolders = Object.keys(importRules);
/** Returns the src folder of the package that contains the file, or undefined. */
const sourceOf = ({ path }) => sourceFolders.find((folder) => path.startsWith(folder));

const MAX_FILE_LINES = 400;
const MAX_FUNCTION_LINES = 80;
const MAX_COLUMNS = 100;

/** Allowed entries of the root folder. */
const rootEntries = new Set([
  ...['.ci', '.gitignore', '.npmrc', 'biome.json', 'package.json', 'package-lock.json'],
  ...['tsconfig.base.json', 'tsconfig.json', 'vitest.config.ts'],
  ...['ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md'],
  ...['bench', 'deploy', 'docs', 'examples', 'packages', 'tools'],
]);

/** Folders that the tree in ARCHITECTURE.md must contain. */
const treeEntries = [
  /^[^/]+\/$/,
  /^(?:docs|tools)\/[^/]+\/$/,
  /^packages\/[^/]+\/(?:src\/(?:.*\/)?)?$/,
];

/** The words have brackets, so that this file does not match the pattern itself. */
const leftOvers = /\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b|https?:\/\/registry\./g;
/**
 * Phrases to replace by an established term: caller, client, log, report, validate, reset,
 * unavailable, refund, fast path, slow path. The brackets have the same purpose as above.
 */
const PHRASES = [
  ...['[w]hoever', '[n]obody', '[s]omebody', '[e]verybody', '[a]nybody', '[t]old', '[m]ade sound'],
  ...['[a]s new', '[i]s away', '[g]ives? back', '[t]hose who', '[t]hat which'],
  ...['[s]hort way', '[l]ong way'],
];
/** A space, or a line break with the start of the next comment line. */
const GAP = String.raw`(?: +|[ \t]*\n[ \t]*(?:(?:\*|//|#|--|>)[ \t]+)?)`;
const vague = new RegExp(String.raw`\b(?:${PHRASES.join('|').replaceAll(' ', GAP)})\b`, 'gi');

/** Places where a phrase of `PHRASES` is allowed: the file, and a part of the line. At most 20. */
export const ALLOWED_PHRASES = [
  // The old name of an option.
  ['CHANGELOG.md', '| `sluice compare`, `explain` | `--key'],
];

const skipsTests = /\.(?:only|skip|todo)\s*[.(]/g;
const readsTime =
  /\bDate\s*\.\s*now\b|\bnew\s+Date\b|\bperformance\s*\.\s*now\b|\bset(?:Timeout|Interval)\s*\(/g;

const isAny = () => true;
const isCode = ({ path }) =>
  /(?<!\.generated)\.(?:ts|mts|mjs)$/.test(path) && !path.includes('test/vectors/');
const isCodeOrLua = (file) => isCode(file) || file.path.endsWith('.lua');
const isDocument = ({ path }) =>
  /\.(?:md|ya?ml|html|css|lua|conf|cfg|proto|service)$|(?:file|services|\.ci\/run)$/.test(path) &&
  !path.includes('/test/');
const isTest = ({ path }) => path.endsWith('.test.ts');
const isRun = (file) => isCode(file) && /^(?:packages\/[^/]+\/src|tools|bench)\//.test(file.path);
const isSource = (file) => sourceOf(file) !== undefined && /\.[cm]?[jt]s$/.test(file.path);
const isTimeless = (file) => isSource(file) && !file.path.endsWith('/src/clock.ts');
const isSilent = (file) => isSource(file) && !file.path.startsWith('packages/cli/');
const violation = (path, line, message) => ({ path, line, message });
const lineAt = (text, offset) => text.slice(0, offset).split('\n').length;
const linesOf = (text) => text.replace(/\n$/, '').split('\n');

/** Creates a rule for single files. `check` yields pairs of a line and a message. */
function perFile(fits, check) {
  const inFile = (file) => [...check(file)].map(([line, what]) => violation(file.path, line, what));
  return (files) => files.filter(fits).flatMap(inFile);
}

/** Creates a rule that forbids a pattern in `textOf(file)`, by default the file's text. */
function forbid(fits, pattern, complaint, textOf = ({ text }) => text) {
  return perFile(fits, function* (file) {
    const text = textOf(file);
    for (const m of text.matchAll(pattern)) yield [lineAt(text, m.index), `${m[0]} ${complaint}`];
  });
}

const parses = new WeakMap();

/** Returns the file's imports, functions, code and prose, cached because several rules use them. */
function parsed(file) {
  if (!parses.has(file)) parses.set(file, parse(file));
  return parses.get(file);
}

function parse({ path, text }) {
  const { program, comments, errors } = parseSync(posix.basename(path), text);
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0].message}`);
  const nodes = [...nodesIn(program)];
  const ofType = (pattern) => nodes.filter(({ type }) => pattern.test(type));
  // Imports, re-exports, import() and import types have a source. A source that is not a string
  // literal cannot be resolved: it is kept as written, and no rule allows it.
  const imports = nodes
    .filter(({ source }) => source?.type)
    .map(({ type, source, importKind = '', exportKind = '', start }) => ({
      specifier: source.value ?? text.slice(source.start, source.end),
      typeOnly: type === 'TSImportType' || importKind + exportKind === 'type',
      line: lineAt(text, start),
    }));
  const functions = ofType(/Function(?:Declaration|Expression)$/);
  const prose = [...comments, ...ofType(/^(?:Literal|TemplateElement)$/)];
  return { imports, functions, code: without(text, prose), prose: only(text, prose) };
}

/** Yields every node of a syntax tree, parents first. */
function* nodesIn(value) {
  if (typeof value !== 'object' || value === null) return;
  if (value.type) yield value;
  for (const part of Object.values(value)) yield* nodesIn(part);
}

const bareCode = (file) => parsed(file).code;

const blank = (text) => text.replace(/[^\n]/g, ' ');
const replaceSpans = (characters, spans, replacement) => {
  for (const { start, end } of spans) {
    for (let at = start; at < end; at++) characters[at] = replacement[at];
  }
  return characters.join('');
};
/** Returns the text with the spans replaced by spaces. Lines and columns do not change. */
const without = (text, spans) => replaceSpans(text.split(''), spans, blank(text));
/** Returns the text with all but the spans replaced by spaces. */
const only = (text, spans) => replaceSpans(blank(text).split(''), spans, text);

/** Returns the imports of a source file as paths relative to src, or as `package NAME`. */
function importsOf(file) {
  const inside = (name) =>
    posix.relative(sourceOf(file), posix.join(posix.dirname(file.path), name));
  const target = (name) => (name.startsWith('.') ? inside(name) : `package ${name}`);
  return parsed(file).imports.map((each) => ({ ...each, to: target(each.specifier) }));
}

function isPackage(name, target) {
  if (target === 'node:*') return name.startsWith('node:');
  return target.endsWith('/') ? target.startsWith('@') && name.startsWith(target) : name === target;
}

function allows(row, from, to, typeOnly) {
  return row.split(' ').some((entry) => {
    const target = entry.replace(/^type:/, '');
    if (target !== entry && !typeOnly) return false;
    if (to.startsWith('package ')) return isPackage(to.slice('package '.length), target);
    if (target === '*') return !/^(?:index\.ts$|testing\/|\.\.\/|package )/.test(to);
    if (target === './') return to.startsWith(`${posix.dirname(from)}/`);
    return target.endsWith('/') ? to.startsWith(target) : to === target;
  });
}

function* forbiddenImports(file) {
  const folder = sourceOf(file);
  const rows = importRules[folder];
  const from = file.path.slice(folder.length);
  const key = Object.keys(rows).find((name) => allows(name, from, from, true));
  if (!key) return yield [1, 'has no row in the table of import rules'];
  for (const { to, typeOnly, line } of importsOf(file)) {
    if (allows(rows[key], from, to, typeOnly)) continue;
    const how = allows(rows[key], from, to, true) ? ' except as types' : '';
    yield [line, `${key} may not import ${to}${how}`];
  }
}

/**
 * Returns circular imports. Includes imports of types, because files that import each other's types
 * belong together.
 */
function importCircles(files) {
  return sourceFolders.flatMap((folder) =>
    circlesIn(
      folder,
      files.filter((file) => isSource(file) && sourceOf(file) === folder),
    ),
  );
}

function circlesIn(folder, files) {
  const sources = new Map(files.map((file) => [file.path.slice(folder.length), file]));
  const done = new Set();
  const trail = [];
  const found = [];
  const visit = (from) => {
    trail.push(from);
    for (const { to, line } of importsOf(sources.get(from))) {
      const start = trail.indexOf(to);
      if (start >= 0) {
        const circle = [...trail.slice(start), to].join(' -> ');
        found.push(violation(folder + from, line, `imports in a circle: ${circle}`));
      } else if (sources.has(to) && !done.has(to)) visit(to);
    }
    trail.pop();
    done.add(from);
  };
  for (const from of sources.keys()) if (!done.has(from)) visit(from);
  return found;
}

function* longFile({ text }) {
  const lines = linesOf(text).length;
  if (lines > MAX_FILE_LINES) yield [lines, `${lines} lines, at most ${MAX_FILE_LINES}`];
}

function* longFunctions(file) {
  for (const { start, end } of parsed(file).functions) {
    const lines = linesOf(file.text.slice(start, end)).length;
    if (lines <= MAX_FUNCTION_LINES) continue;
    yield [lineAt(file.text, start), `function of ${lines} lines, at most ${MAX_FUNCTION_LINES}`];
  }
}

function* wideLines({ text }) {
  for (const [index, line] of linesOf(text).entries()) {
    const columns = [...line].length;
    if (columns > MAX_COLUMNS) yield [index + 1, `${columns} columns, at most ${MAX_COLUMNS}`];
  }
}

function strayRootEntries(files) {
  const seen = new Set(files.map(({ path }) => path.split('/')[0]));
  const strays = [...seen].filter((entry) => !rootEntries.has(entry));
  return strays.map((entry) => violation(entry, 1, 'does not belong at the root'));
}

function algorithmsWithoutFiles(files) {
  const paths = new Set(files.map(({ path }) => path));
  return [...paths].flatMap((path) => {
    const name = path.match(/^packages\/sluice\/src\/algorithms\/([^/]+)\.ts$/)?.[1];
    if (!name || ['algorithm', 'description', 'index'].includes(name)) return [];
    return [
      `packages/sluice/src/stores/redis/scripts/${name}.lua`,
      `packages/sluice/test/algorithms/${name}.test.ts`,
      `docs/algorithms/${name}.md`,
    ]
      .filter((place) => !paths.has(place))
      .map((place) => violation(path, 1, `has no ${place}`));
  });
}

/** Returns all files, and all folders with a trailing `/`. */
function entriesOf(files) {
  const upTo = (_, index, parts) => parts.slice(0, index + 1).join('');
  return new Set(files.flatMap(({ path }) => path.split(/(?<=\/)/).map(upTo)));
}

const shownEntries = (files) =>
  [...entriesOf(files)].filter((entry) => treeEntries.some((shown) => shown.test(entry))).sort();

/** Returns the lines of the tree that ARCHITECTURE.md must contain, without descriptions. */
export function realTree(files) {
  return shownEntries(files).map((entry) => {
    const parts = entry.split(/(?<=\/)(?=.)/);
    return '  '.repeat(parts.length - 1) + parts.at(-1);
  });
}

/** Returns required folders missing in the tree, and entries of the tree that do not exist. */
function treeDifferences(files) {
  const path = 'ARCHITECTURE.md';
  const lines = files.find((file) => file.path === path)?.text.split('\n') ?? [];
  const start = lines.indexOf('```tree') + 1;
  if (start === 0) return [violation(path, 1, 'has no block that starts with ```tree')];
  const real = entriesOf(files);
  const missing = new Set(shownEntries(files));
  const found = [];
  let trail = [];
  for (let at = start; at < lines.length && lines[at] !== '```'; at++) {
    const [, indent = '', name = ''] = lines[at].match(/^((?: {2})*)(\S+)(?: {2,}\S.*)?$/) ?? [];
    const depth = indent.length / 2;
    const wellFormed = name !== '' && depth <= trail.length;
    trail = [...trail.slice(0, depth), name];
    const entry = trail.join('');
    missing.delete(entry);
    if (!wellFormed) found.push(violation(path, at + 1, 'is not an indented name in the tree'));
    else if (!real.has(entry))
      found.push(violation(path, at + 1, `${entry} is in the tree but does not exist`));
  }
  return [...missing].map((e) => violation(path, start, `${e} is not in the tree`)).concat(found);
}

/** Creates the rule that forbids vague phrases in documents, comments, messages and test names. */
export function plainLanguage(allowed) {
  const isChecked = (file) => isCode(file) || isDocument(file);
  return perFile(isChecked, function* (file) {
    const prose = isCode(file) ? parsed(file).prose : file.text;
    const lines = file.text.split('\n');
    const excerpts = allowed.filter(([path]) => path === file.path).map(([, excerpt]) => excerpt);
    for (const { 0: phrase, index } of prose.matchAll(vague)) {
      const line = lineAt(prose, index);
      if (excerpts.some((excerpt) => lines[line - 1].includes(excerpt))) continue;
      yield [line, `"${phrase.replace(/\W+/g, ' ')}" is vague: use an established term`];
    }
    for (const excerpt of excerpts) {
      const isUsed = lines.some((line) => line.includes(excerpt));
      if (!isUsed) yield [1, `does not contain "${excerpt}", which ALLOWED_PHRASES lists`];
    }
  });
}

export const rules = [
  ['import rules', perFile(isSource, forbiddenImports)],
  ['no import circles', importCircles],
  ['file length', perFile(isCodeOrLua, longFile)],
  ['function length', perFile(isRun, longFunctions)],
  ['line length', perFile(isCode, wideLines)],
  ['time only in the clock', forbid(isTimeless, readsTime, 'outside clock.ts', bareCode)],
  ['no left-overs', forbid(isAny, leftOvers, 'is left over')],
  ['plain language', plainLanguage(ALLOWED_PHRASES)],
  ['no printing', forbid(isSilent, /\bconsole\.log\b/g, 'in the core')],
  ['all tests run', forbid(isTest, skipsTests, 'skips tests', bareCode)],
  ['no stray root entries', strayRootEntries],
  ['one name in all places', algorithmsWithoutFiles],
  ['the tree is the real one', treeDifferences],
].map(([name, check]) => ({ name, check }));

/**
 * Returns the text of a file. Returns an empty text for a picture, whose bytes could match a rule
 * by chance.
 */
const readText = (path) => (path.endsWith('.png') ? '' : readFileSync(path, 'utf8'));

/** Reads all files that git tracks, and untracked files that git does not ignore. */
function repositoryFiles() {
  const listed = execFileSync('git', ['ls-files', '-coz', '--exclude-standard']).toString();
  return listed
    .split('\0')
    .filter((path) => path && statSync(path, { throwIfNoEntry: false })?.isFile())
    .map((path) => ({ path, text: readText(path) }));
}

export function main(args) {
  const files = repositoryFiles();
  if (args.includes('--tree')) return console.log(realTree(files).join('\n'));
  const found = rules.flatMap(({ check }) => check(files));
  for (const { path, line, message } of found) console.log(`${path}:${line}: ${message}`);
  process.exitCode = found.length > 0 ? 1 : 0;
  if (found.length > 0) console.log(`tidy: ${found.length} violations`);
  else console.log(`tidy: ${files.length} files, no violations`);
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) {
  main(process.argv.slice(2));
}
