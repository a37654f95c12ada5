/**
 * Checks the packed packages, as they would be published. Requires `npm run build`.
 *
 *     node tools/package-check.mjs
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { rolldown } from 'rolldown';

const LIBRARY = 'packages/sluice';
const PAGE = 'packages/dashboard';
const PROGRAMS = [PAGE, 'packages/server', 'packages/traffic', 'packages/cli'];
const ENTRY = join(LIBRARY, 'lib/index.js');
/** This module must run in a browser, like the library. */
const LAB = 'packages/traffic/dist/lab.js';
const MAX_BUNDLE_KB = 19;
const OTEL = join(LIBRARY, 'lib/otel.js');
const OTEL_API = '@opentelemetry/api';
const MAX_OTEL_KB = 2;
const LLM = join(LIBRARY, 'lib/llm.js');
const MAX_LLM_KB = 16;
const MAX_PAGE_KB = 120;

const inKb = (bytes) => (bytes / 1024).toFixed(1);

/** Runs a command. Returns its output. If it fails, throws an error with the output. */
function run(command, args, cwd = '.') {
  const env = { ...process.env, npm_config_offline: 'true', npm_config_update_notifier: 'false' };
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
  });
  if (error) throw error;
  if (status !== 0) throw new Error([stdout, stderr].join('\n').trim());
  return stdout;
}

const manifestOf = (source) => JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));

/** Packs packages into `folder`. Returns the paths of the archives and the packed files. */
function packAll(sources, folder) {
  const workspaces = sources.flatMap((source) => ['--workspace', source]);
  const args = ['pack', '--json', ...workspaces, '--pack-destination', folder];
  const all = JSON.parse(run('npm', args));
  return sources.map((source) => {
    const packed = all.find(({ name }) => name === manifestOf(source).name);
    const files = packed.files.map(({ path }) => path);
    return { source, archive: join(folder, packed.filename), files };
  });
}

/**
 * Throws unless the package contains all files of its entry points and something of each entry of
 * `files`.
 */
function contents({ source, archive, files }) {
  const { exports = {}, bin = {}, files: listed } = manifestOf(source);
  const entries = [...Object.values(exports), ...Object.values(bin)];
  const named = entries.flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry),
  );
  const empty = listed.filter(
    (name) => !name.startsWith('!') && !files.some((path) => path.startsWith(name)),
  );
  if (empty.length > 0) throw new Error(`the package contains nothing of ${empty.join(', ')}`);
  const absent = named.filter((path) => !files.includes(path.replace('./', '')));
  if (absent.length > 0) throw new Error(`not in the package: ${absent.join(', ')}`);
  return `${files.length} files, ${inKb(statSync(archive).size)} KB packed`;
}

function dependencies() {
  const manifest = manifestOf(LIBRARY);
  const needed = ['dependencies', 'optionalDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind] ?? {}),
  );
  // Frameworks must be optional peers: an application needs only the framework of its adapter.
  const peers = Object.keys(manifest.peerDependencies ?? {});
  const optional = manifest.peerDependenciesMeta ?? {};
  needed.push(...peers.filter((name) => optional[name]?.optional !== true));
  if (needed.length > 0) throw new Error(`depends on ${needed.join(', ')}`);
  return `none, ${peers.length} optional peers`;
}

async function manifest({ archive }) {
  const tarball = new Uint8Array(readFileSync(archive)).buffer;
  const { messages, pkg } = await publint({ pack: { tarball }, level: 'suggestion' });
  const lines = messages.map(
    (each) => `${each.type}: ${formatMessage(each, pkg, { color: false })}`,
  );
  const text = lines.map((line) => `\n       ${line}`).join('');
  if (messages.some(({ type }) => type !== 'suggestion')) throw new Error(`publint reports${text}`);
  return `publint has ${messages.length} suggestions${text}`;
}

function types({ archive }) {
  run('npx', ['--no-install', 'attw', archive, '--profile', 'esm-only']);
  return 'attw resolves every entry point';
}

/** Bundles and minifies a module, as for an application that uses all of its exports. */
async function bundle(input, external = []) {
  const build = await rolldown({
    input,
    external,
    platform: 'neutral',
    logLevel: 'silent',
  });
  try {
    // Comments are removed, including hints for other tools.
    const options = { format: 'esm', minify: true, comments: false };
    const { output } = await build.generate(options);
    return output.filter(({ type }) => type === 'chunk');
  } finally {
    await build.close();
  }
}

function bundleSize(chunks, maxKb = MAX_BUNDLE_KB) {
  const bytes = chunks.reduce((sum, { code }) => sum + gzipSync(code).length, 0);
  const figures = `${inKb(bytes)} KB gzipped, ${bytes} bytes (limit ${maxKb} KB)`;
  if (bytes > maxKb * 1024) throw new Error(figures);
  return figures;
}

/** Returns the compressed size of all dashboard files. */
function pageSize() {
  const folder = join(PAGE, 'dist');
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name)));
  const bytes = files.reduce((sum, file) => sum + gzipSync(file).length, 0);
  const figures = `${inKb(bytes)} KB gzipped in ${files.length} files (limit ${MAX_PAGE_KB} KB)`;
  if (bytes > MAX_PAGE_KB * 1024) throw new Error(figures);
  return figures;
}

/** Throws if the bundle imports packages or Node.js modules other than the allowed ones. */
function bundleImports(chunks, allowed = []) {
  const own = new Set([...allowed, ...chunks.map(({ fileName }) => fileName)]);
  const left = chunks
    .flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports])
    .filter((name) => !own.has(name));
  if (left.length > 0) throw new Error(`imports ${[...new Set(left)].join(', ')}`);
  return allowed.length > 0 ? `only ${allowed.join(', ')}` : 'none';
}

/** Runs a check and prints one line. Resolves to false if the check fails. */
async function report(name, check) {
  try {
    console.log(`ok   ${name}  ${await check()}`);
    return true;
  } catch (error) {
    console.log(`FAIL ${name}  ${error.message}`);
    return false;
  }
}

async function main(folder) {
  if (!existsSync(ENTRY)) throw new Error(`${ENTRY} is missing: run npm run build first`);
  const [packed, ...programs] = packAll([LIBRARY, ...PROGRAMS], folder);
  const chunks = await bundle(ENTRY);
  const otel = await bundle(OTEL, [OTEL_API]);
  const llm = await bundle(LLM);
  const results = [
    await report('contents', () => contents(packed)),
    await report('dependencies', () => dependencies()),
    await report('manifest', () => manifest(packed)),
    await report('types', () => types(packed)),
    await report('core bundle', () => bundleSize(chunks)),
    await report('core imports', () => bundleImports(chunks)),
    await report('otel bundle', () => bundleSize(otel, MAX_OTEL_KB)),
    await report('otel imports', () => bundleImports(otel, [OTEL_API])),
    await report('llm bundle', () => bundleSize(llm, MAX_LLM_KB)),
    await report('llm imports', () => bundleImports(llm)),
    await report('lab imports', async () => bundleImports(await bundle(LAB))),
    await report('dashboard size', () => pageSize()),
  ];
  for (const program of programs) {
    const { name } = manifestOf(program.source);
    results.push(await report(`${name} contents`, () => contents(program)));
    results.push(await report(`${name} manifest`, () => manifest(program)));
  }
  return results.every((passed) => passed);
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-package-'));
try {
  process.exitCode = (await main(folder)) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
