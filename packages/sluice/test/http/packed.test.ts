/** Installs the packed library in an empty folder and runs the Express example of the README. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';

const root = new URL('../../../../', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'sluice-packed-'));
let server: ChildProcess | undefined;

afterAll(() => {
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

const npm = (args: string[], cwd: string): string =>
  execFileSync('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline'], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

it('the README example of the installed package returns 429 with correct headers', async () => {
  const readme = readFileSync(`${root}README.md`, 'utf8');
  const [, pack, install] = /<!-- install commands -->\n```sh\n(.*)\n(.*)\n```/.exec(readme)!;
  // The tests run after the installation and the build.
  const [, packing] = /^npm install && npm run build && npm (.+)$/.exec(pack)!;
  const [, installing] = /^cd \.\.\/my-project && npm (.+)$/.exec(install)!;
  npm([...packing.split(' '), '--pack-destination', folder], root);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  npm(installing.replace('../sluice/', './').split(' '), folder);
  const [, lines] = /```js\n([\s\S]*?)```/.exec(readme)!;
  expect(lines.trim().split('\n').length).toBeLessThanOrEqual(8);
  writeFileSync(join(folder, 'app.js'), lines);
  const port = await freePort();
  server = spawn(process.execPath, ['app.js'], {
    cwd: folder,
    env: { ...process.env, PORT: String(port) },
    stdio: 'inherit',
  });
  const send = async (attempts = 200): Promise<Response> => {
    try {
      return await fetch(`http://127.0.0.1:${port}/`);
    } catch (error) {
      if (attempts === 0) throw error;
      await sleep(50);
      return send(attempts - 1);
    }
  };
  const first = await send();
  expect(first.status).toBe(200);
  expect(first.headers.get('ratelimit-policy')).toBe('"default";q=100;w=60');
  expect(first.headers.get('ratelimit')).toBe('"default";r=99;t=60');
  const startMs = Date.now();
  let denied = first;
  for (let call = 0; call < 100; call++) denied = await send();
  expect(denied.status).toBe(429);
  const seconds = Number(denied.headers.get('retry-after'));
  expect(seconds).toBeLessThanOrEqual(60);
  expect(seconds).toBeGreaterThanOrEqual(60 - Math.ceil((Date.now() - startMs) / 1000) - 1);
});
