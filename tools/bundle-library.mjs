/**
 * Joins the modules of the library to a few files, after `tsc -b`: an app loads them sooner, and V8
 * makes faster code of what is in one file than of what is imported from many.
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

/** What several entry points share: a file for each layer, with nothing in it of those below. */
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
  // Where the types lie, there lies what `tsc` has made of the module.
  input[basename(file, '.js')] = join(LIBRARY, types.replace(/\.d\.ts$/, '.js'));
}

const bundle = await rolldown({
  input,
  platform: 'neutral',
  // Frameworks are the app's own, and so is Node.
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

/** Somebody may be running what is there: it is replaced in one step, and only by something new. */
function writeIfNew(path, text) {
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}
