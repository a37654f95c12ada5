/**
 * Bundles the library's modules into a few files after `tsc -b`. Few files load faster, and V8
 * generates faster code for calls within a file than for calls of imported functions.
 *
 *     node tools/bundle-library.mjs
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { rolldown } from 'rolldown';

const LIBRARY = 'packages/sluice';
const OUTPUT = join(LIBRARY, 'lib');

/** Chunks that several entry points share: one file per layer of the library. */
const GROUPS = [
  {
    name: 'core',
    test: /\/dist\/(?:(?!engine)[^/]+\.js$|acquire\/|algorithms\/|stores\/memory\/)/,
    priority: 3,
  },
  { name: 'failure', test: /\/dist\/failure\//, priority: 2 },
  { name: 'http', test: /\/dist\/http\//, priority: 1 },
];

const { exports } = JSON.parse(readFileSync(join(LIBRARY, 'package.json'), 'utf8'));
const input = {};
for (const { types, default: file } of Object.values(exports)) {
  if (types === undefined) continue;
  // The compiled module is in the same folder as its types.
  input[basename(file, '.js')] = join(LIBRARY, types.replace(/\.d\.ts$/, '.js'));
}

const bundle = await rolldown({
  input,
  platform: 'neutral',
  // Frameworks and Node.js are not bundled.
  external: /^[^./]/,
  treeshake: { moduleSideEffects: false },
});
try {
  const { output } = await bundle.generate({
    format: 'esm',
    chunkFileNames: 'shared/[name].js',
    codeSplitting: { groups: GROUPS },
  });
  mkdirSync(join(OUTPUT, 'shared'), { recursive: true });
  for (const { fileName, code } of output) writeIfNew(join(OUTPUT, fileName), code);
  const made = new Set(output.map(({ fileName }) => fileName));
  for (const name of readdirSync(OUTPUT, { recursive: true })) {
    if (name.endsWith('.js') && !made.has(name)) rmSync(join(OUTPUT, name));
  }
} finally {
  await bundle.close();
}

/** Replaces a file atomically, and only if it changed, because a process may be using it. */
function writeIfNew(path, text) {
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}
