/**
 * Composes the Lua scripts and embeds them in TypeScript. A line `-- include NAME` is replaced by
 * scripts/NAME.lua, so that the general script and the fast-path scripts share code.
 *
 *     node tools/embed-lua.mjs           writes scripts.generated.ts
 *     node tools/embed-lua.mjs --check   exits with 1 if the file is out of date
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const FOLDER = new URL('../packages/sluice/src/stores/redis/', import.meta.url);
const TARGET = new URL('scripts.generated.ts', FOLDER);

/** The parts of each script, in order of dependency. */
const SCRIPTS = {
  general: [
    ...['prelude', 'fixed-window', 'log-entries', 'log-segments', 'sliding-log'],
    ...['sliding-counter', 'sliding-buckets', 'token-bucket', 'concurrency', 'records', 'policies'],
    ...['reply', 'blocks', 'leases', 'decide'],
  ],
  fixedWindow: ['fast/fixed-window'],
  slidingCounter: ['fast/sliding-counter'],
  tokenBucket: ['fast/token-bucket'],
  log: ['fast/log'],
};

/** Returns the lines of a file and its includes, without comments and indentation. */
function linesOf(name) {
  const text = readFileSync(new URL(`scripts/${name}.lua`, FOLDER), 'utf8');
  return text.split('\n').flatMap((given) => {
    const line = given.trim();
    const [, included] = /^-- include (\S+)$/.exec(line) ?? [];
    if (included !== undefined) return linesOf(included);
    return line === '' || line.startsWith('--') ? [] : [line];
  });
}

export function generated() {
  const scripts = Object.entries(SCRIPTS).map(([name, parts]) => {
    const text = parts.flatMap(linesOf).join('\n');
    if (/[`\\]|\$\{/.test(text))
      throw new Error(`Expected ${name} without backquotes, backslashes and \${`);
    const sha = createHash('sha1').update(text).digest('hex');
    return `  ${name}: {\n    sha: '${sha}',\n    text: \`${text}\`,\n  },\n`;
  });
  return `/** Composed of the Lua files in scripts/ by tools/embed-lua.mjs. */
export interface Script {
  /** The SHA-1 under which Redis caches the script. */
  readonly sha: string;
  readonly text: string;
}

export const SCRIPTS = {
${scripts.join('')}} satisfies Readonly<Record<string, Script>>;
`;
}

if (process.argv[1] === import.meta.filename) {
  if (!process.argv.includes('--check')) writeFileSync(TARGET, generated());
  else if (readFileSync(TARGET, 'utf8') !== generated()) {
    console.error('scripts.generated.ts is out of date: run node tools/embed-lua.mjs');
    process.exitCode = 1;
  }
}
