/**
 * Bundles the programs that tests start as processes, each with its dependencies. A bundle starts
 * in less than half of the CPU time of the compiled modules (0.16 s instead of 0.38 s), and a full
 * run starts hundreds of processes. Vitest calls `setup` before a run. The tests of the packed
 * packages (`packed.test.ts`) start what is published.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';

const root = new URL('../', import.meta.url).pathname;

/** Paths of the programs, by the name of their bundle. */
const PROGRAMS = {
  sluice: 'packages/cli/dist/main.js',
  'worker-main': 'packages/server/dist/cluster/worker-main.js',
  'store-main': 'packages/server/dist/cluster/store-main.js',
  'load-thread': 'packages/server/dist/config/load-thread.js',
  'supervisor-process': 'packages/server/test/cluster/supervisor-process.mjs',
  'stop-service': 'packages/server/test/stop-service.mjs',
} as const;

/** Returns the path of a program: its bundle, or the file itself outside of Vitest. */
export function programOf(name: keyof typeof PROGRAMS): string {
  const folder = process.env.TEST_PROGRAMS;
  return folder === undefined ? join(root, PROGRAMS[name]) : join(folder, `${name}.js`);
}

/** Modules find files of their packages by their own address, and programs beside the bundle. */
const keepAddresses: Plugin = {
  name: 'keep-addresses',
  transform: (code, id) =>
    code.replace(/(?:new URL\('\.\/([\w-]+)\.js', )?import\.meta\.url/g, (all, name) =>
      name in PROGRAMS ? all : all.replace('import.meta.url', `'${pathToFileURL(id)}'`),
    ),
};

export async function setup(): Promise<(() => void) | undefined> {
  const paths = Object.values(PROGRAMS).map((path) => join(root, path));
  // Without a build, the tests that need one fail with their own message.
  if (!paths.every((path) => existsSync(path))) return undefined;
  const folder = join(root, '.cache', `test-programs-${process.pid}`);
  const bundle = await rolldown({
    cwd: root,
    input: PROGRAMS,
    platform: 'node',
    // Requires its parts by computed names.
    external: /^(?:node:|@grpc\/)/,
    plugins: [keepAddresses],
    logLevel: 'silent',
  });
  await bundle.write({ dir: folder, format: 'esm' });
  await bundle.close();
  process.env.TEST_PROGRAMS = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
