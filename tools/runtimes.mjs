/**
 * Tests the library on other runtimes: all tests on newer Node.js versions; the core, the test
 * vectors and the fetch adapter on Bun and Deno. Installs the runtimes with npm into a folder that
 * git ignores.
 *
 *     npm run runtimes               all runtimes
 *     npm run runtimes -- bun deno   some runtimes
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const FOLDER = resolve('node_modules/.cache/sluice-runtimes');
const { platform, arch } = process;
const BUN = `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`;
const DENO = `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`;

const vitest = ['node_modules/vitest/vitest.mjs', 'run'];
const check = 'tools/runtime-check.mjs';

/**
 * The npm package of each runtime, its program and the arguments of the test. The packages contain
 * the programs, so that no install script must download them.
 */
const runtimes = {
  node22: { spec: `npm:node-${platform}-${arch}@22`, program: 'node22/bin/node', args: vitest },
  node24: { spec: `npm:node-${platform}-${arch}@24`, program: 'node24/bin/node', args: vitest },
  bun: { spec: `npm:${BUN}@1`, program: 'bun/bin/bun', args: [check] },
  deno: { spec: `npm:${DENO}@2`, program: 'deno/deno', args: ['run', '--allow-all', check] },
};

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (error) throw error;
  return status === 0;
}

function install(names) {
  const missing = names.filter((name) => {
    return !existsSync(join(FOLDER, 'node_modules', runtimes[name].program));
  });
  if (missing.length === 0) return;
  mkdirSync(FOLDER, { recursive: true });
  const manifest = join(FOLDER, 'package.json');
  if (!existsSync(manifest)) writeFileSync(manifest, '{ "private": true }');
  const specs = missing.map((name) => `${name}@${runtimes[name].spec}`);
  if (!run('npm', ['install', '--no-audit', '--no-fund', ...specs], { cwd: FOLDER })) {
    throw new Error(`cannot install ${missing.join(', ')}`);
  }
}

const given = process.argv.slice(2);
const names = given.length > 0 ? given : Object.keys(runtimes);
const unknown = names.filter((name) => !Object.hasOwn(runtimes, name));
if (unknown.length > 0) {
  console.error(`Expected some of ${Object.keys(runtimes).join(' ')}, got ${unknown.join(' ')}`);
  process.exit(2);
}
install(names);
const failed = names.filter((name) => {
  console.log(`\n== ${name}`);
  const { program, args } = runtimes[name];
  return !run(join(FOLDER, 'node_modules', program), args);
});
console.log(failed.length > 0 ? `failed: ${failed.join(', ')}` : `passed: ${names.join(', ')}`);
process.exitCode = failed.length > 0 ? 1 : 0;
