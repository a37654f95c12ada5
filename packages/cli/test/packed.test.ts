/** Installs the packed packages in an empty folder and runs the example service. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Ended, Process, root } from './running.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-cli-packed-'));
let service: Process | undefined;

afterAll(async () => {
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function npm(args: readonly string[], cwd: string): Promise<Ended> {
  const quiet = ['--no-audit', '--no-fund', '--prefer-offline'];
  const ended = await new Process('npm', [...args, ...quiet], {}, cwd).ended;
  if (ended.code !== 0) throw new Error(ended.stderr);
  return ended;
}

beforeAll(async () => {
  const names = ['sluice', 'dashboard', 'server', 'traffic', 'cli'];
  const workspaces = names.flatMap((name) => ['--workspace', `packages/${name}`]);
  await npm(['pack', ...workspaces, '--pack-destination', folder], root);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const archives = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  expect(archives).toHaveLength(5);
  await npm(['install', ...archives.map((name) => `./${name}`)], folder);
}, 300_000);

/** Runs the installed command. Not with npx, which takes a second and does not forward signals. */
const sluice = (args: readonly string[], variables = {}) =>
  new Process(join(folder, 'node_modules/.bin/sluice'), args, variables, folder);

test('npx sluice-cli serve finds the example configuration', async () => {
  const words = ['--no-install', 'sluice-cli', 'serve', '--print-config', '--json'];
  const { code, stdout } = await new Process('npx', words, {}, folder).ended;
  expect(code).toBe(0);
  const { config } = JSON.parse(stdout);
  expect(config).toMatchObject({ example: true });
  expect(config.files[0]).toContain(join(folder, 'node_modules/sluice-server/config'));
});

test('the packed service with gRPC and two workers responds to a check', async () => {
  const where = ['--listen', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--workers', '2'];
  service = sluice(['serve', ...where]);
  const [, url] = await service.printed(/"url":"([^"]+)"/);
  const { code, stdout } = await sluice(['check', 'perMinute', 'user:42'], { SLUICE_URL: url })
    .ended;
  expect(stdout).toMatch(/^allowed {3}\d+ of \d+ remaining, resets in /);
  expect(code).toBe(0);
});

test('the packed validate --schema prints the JSON Schema', async () => {
  const { code, stdout } = await sluice(['validate', '--schema']).ended;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toHaveProperty('properties');
});
