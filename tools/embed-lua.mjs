/**
 * Concatenates the Lua files into one script and embeds it in TypeScript.
 *
 *     node tools/embed-lua.mjs           writes scripts.generated.ts
 *     node tools/embed-lua.mjs --check   exits with 1 if it is out of date
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const FOLDER = new URL('../packages/sluice/src/stores/redis/', import.meta.url);
const TARGET = new URL('scripts.generated.ts', FOLDER);

/** In order of dependency. */
const PARTS = [
  ...['prelude', 'fixed-window', 'log-entries', 'log-segments', 'sliding-log'],
  ...['sliding-counter', 'sliding-buckets', 'token-bucket', 'records', 'decide'],
];

/** Removes comments and indentation only, so that error messages stay readable. */
function stripped(text) {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('--')).join('\n');
}

export function generated() {
  const read = (part) => readFileSync(new URL(`scripts/${part}.lua`, FOLDER), 'utf8');
  const script = PARTS.map((part) => stripped(read(part))).join('\n');
  if (/[`\\]|\$\{/.test(script.replaceAll('\\0', ''))) throw new Error('Lua that needs escaping');
  const sha = createHash('sha1').update(script).digest('hex');
  return `/** Made of scripts/*.lua by tools/embed-lua.mjs; a test says when it is out of date. */
export const SCRIPT_SHA = '${sha}';

export const SCRIPT = String.raw\`${script}\`;
`;
}

if (process.argv[1] === import.meta.filename) {
  if (!process.argv.includes('--check')) writeFileSync(TARGET, generated());
  else if (readFileSync(TARGET, 'utf8') !== generated()) {
    console.error('scripts.generated.ts is out of date: run node tools/embed-lua.mjs');
    process.exitCode = 1;
  }
}
