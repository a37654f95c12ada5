import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import {
  binary,
  CONTROL,
  onTerminal,
  Process,
  root,
  runSluice,
  scratch,
  serving,
  sluice,
} from './running.ts';

const file = scratch();
const TOKEN = 'a-token-that-is-hard-to-guess';
const CONFIG = 'policies: { perMinute: 100/1m, few: 2/1h }\n';

const running: Process[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop('SIGKILL')));
});
const keep = <T extends Process>(process: T): T => {
  running.push(process);
  return process;
};

/** Runs a line as copied from the output. */
const shell = (line: string) => new Process('bash', ['-c', line], {}).ended;

const lines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('sluice serve', () => {
  test('serve prints a command that works and logs no error at a clean stop', async () => {
    const service = keep(await serving());
    const [listening] = lines(service.stdout);
    expect(listening).toMatchObject({ msg: 'listening', example: true, url: service.url });
    expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const first = await shell(`${listening.try} -s`);
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(first.stdout).toMatch(/^RateLimit: "\w+";r=\d+;t=\d+\r$/im);
    // The same request, without a process for each.
    const [, url, body] = /'([^']+)' -d '([^']+)'/.exec(listening.try)!;
    const send = async () => (await fetch(url, { method: 'POST', body })).status;
    for (let call = 0; call < 200 && (await send()) !== 429; call++);
    const last = await shell(`${listening.try} -s`);
    expect(last.stdout).toMatch(/^HTTP\/1\.1 429 /);
    expect(last.stdout).toMatch(/^Retry-After: \d+\r$/im);
    const { code, stdout, stderr } = await service.stop('SIGTERM');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    const levels = lines(stdout).map(({ level }) => level);
    expect(levels.filter((level) => ['warn', 'error', 'fatal'].includes(level))).toEqual([]);
    await expect(fetch(service.url)).rejects.toThrow();
  });

  const AFTER_RELOADS =
    'with %i worker(s), each warning about keys is logged once, and unchanged files do not count';
  test.each([1, 2])(AFTER_RELOADS, async (workers) => {
    const limits = 'limits: [{ policy: few, key: header:x-api-key }]';
    const ruleOf = (rule: string) =>
      `  - { name: ${rule}, match: { path: /${rule} }, ${limits} }\n`;
    const name = `warned-${workers}.yaml`;
    const path = file(name, `${CONFIG}rules:\n${ruleOf('one')}`);
    const service = keep(await serving(['--config', path, '--workers', String(workers)]));
    const warnings = () => lines(service.stdout).filter(({ msg }) => msg === 'config warning');
    const problem = (line: number, rule: string) =>
      expect.stringMatching(new RegExp(`${name}:${line}:\\d+: .*\`${rule}\`.*got none`));
    const reload = async () => (await fetch(`${service.url}/v1/reload`, { method: 'POST' })).json();
    const reloads = async () => {
      const text = await (await fetch(`${service.url}/metrics`)).text();
      return /^sluice_config_reloads_total{result="ok"} (\d+)$/m.exec(text)?.[1];
    };
    const unchanged = Array(2).fill({ ok: true, changed: false });
    expect([await reload(), await reload()]).toEqual(unchanged);
    expect(await reloads()).toBe('0');
    expect(warnings()).toMatchObject([{ level: 'warn', problem: problem(3, 'one') }]);
    file(name, `${CONFIG}\nrules:\n${ruleOf('one')}${ruleOf('two')}`);
    await service.printed(/config reloaded/);
    expect([await reload(), await reload()]).toEqual(unchanged);
    expect(await reloads()).toBe('1');
    expect(warnings()).toMatchObject([
      { problem: problem(3, 'one') },
      { level: 'warn', problem: problem(5, 'two') },
    ]);
    const { code, stderr } = await service.stop();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  test('the default address of serve is 127.0.0.1:8080', async () => {
    const { stdout } = await runSluice(['serve', '--print-config']);
    expect(stdout).toMatch(/^listen +127\.0\.0\.1:8080 +default$/m);
  });

  test('on a terminal, serve prints readable lines', async () => {
    const words = ['serve', '--listen', '127.0.0.1:0'];
    const service = keep(onTerminal(words, { NO_COLOR: '1' }));
    await service.printed(/Press Ctrl-C to stop/);
    const text = service.stdout.replaceAll('\r', '');
    expect(text).toMatch(/^Sluice listens on http:\/\/127\.0\.0\.1:\d+\n/);
    expect(text).toContain('Store: memory. 4 policies of the example; set your own with --config');
    expect(text).not.toMatch(CONTROL);
    const [, line] = /^ {2}(curl .*)$/m.exec(text)!;
    expect((await shell(`${line} -s`)).stdout).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    for (let call = 0; call < 10; call++) await shell(`${line} -s`);
    await service.printed(/\d\d:\d\d:\d\d info {2}denied policy=perMinute key=user:42 /);
  });

  test('serve exits when its terminal is closed', async () => {
    const service = keep(onTerminal(['serve', '--listen', '127.0.0.1:0'], { NO_COLOR: '1' }));
    const [, url] = await service.printed(/listens on (\S+)/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    service.child.kill('SIGKILL');
    const isStopped = () =>
      fetch(`${url}/healthz`).then(
        () => false,
        () => true,
      );
    await expect.poll(isStopped, { timeout: 30_000 }).toBe(true);
  });

  test('serve reloads the configuration files when they change', async () => {
    const path = file('limits.yaml', CONFIG);
    const service = keep(await serving(['--config', path]));
    const check = async (policy: string) => {
      const body = JSON.stringify({ policy, key: 'a' });
      return (await fetch(`${service.url}/v1/check`, { method: 'POST', body })).json();
    };
    expect(await check('few')).toMatchObject({ allowed: true, limit: 2 });
    file('limits.yaml', CONFIG.replace('2/1h', '5/1h'));
    await service.printed(/config reloaded/);
    expect(await check('few')).toMatchObject({ allowed: true, limit: 5, remaining: 3 });
    file('limits.yaml', 'policies: { few: none }\n');
    await service.printed(/config rejected/);
    expect(await check('few')).toMatchObject({ limit: 5, remaining: 2 });
  });

  test('serve exits with 0 on SIGINT', async () => {
    const service = keep(await serving());
    const { code } = await service.stop('SIGINT');
    expect(code).toBe(0);
    await expect(fetch(service.url)).rejects.toThrow();
  });

  test('a SIGTERM as soon as the service listens causes a graceful shutdown', async () => {
    const preload = `import { Server } from 'node:net';
      const { listen } = Server.prototype;
      Server.prototype.listen = function (...args) {
        this.once('listening', () => process.kill(process.pid, 'SIGTERM'));
        return listen.apply(this, args);
      };`;
    const url = `data:text/javascript,${encodeURIComponent(preload)}`;
    const args = ['serve', '--listen', '127.0.0.1:0'];
    const { code, stdout } = await sluice(args, { NODE_OPTIONS: `--import ${url}` });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('"stopped"') });
  });

  test('several workers share one port, and the supervisor exits with 0', async () => {
    const config = ['--config', file('workers.yaml', CONFIG)];
    // The deadline is long because on a busy machine a fallback would decide.
    const service = keep(await serving(['--workers', '2', '--deadline', '10s', ...config]));
    const admitted = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const body = JSON.stringify({ policy: 'few', key: 'a' });
        const headers = { connection: 'close' };
        const response = await fetch(`${service.url}/v1/check`, { method: 'POST', body, headers });
        return ((await response.json()) as { allowed: boolean }).allowed;
      }),
    );
    expect(admitted.filter(Boolean)).toHaveLength(2);
    expect((await service.stop()).code).toBe(0);
  });

  test.each(['1', '2'])('a hung mount does not delay the exit of %s worker(s)', async (workers) => {
    const path = file('config.yaml', CONFIG);
    const folder = dirname(path);
    execFileSync('mkfifo', [join(folder, 'fifo')]);
    const preload = new URL('hung-mount.mjs', import.meta.url).pathname;
    const variables = { NODE_OPTIONS: `--import ${preload}`, HUNG_MOUNT: folder };
    const service = keep(await serving(['--config', path, '--workers', workers], variables));
    file('hang', '');
    file('config.yaml', CONFIG.replace('2/1h', '5/1h'));
    await expect.poll(() => existsSync(join(folder, 'is-hung')), { timeout: 30_000 }).toBe(true);
    const { stdout } = await service.stop();
    expect(stdout).toContain('"msg":"stopped"');
    expect(service.child.signalCode).toBe('SIGTERM');
    for (const name of ['fifo', 'hang', 'is-hung']) rmSync(join(folder, name));
  });

  test.each([[[]], [['--workers', '2']]])(
    'serve %j reports a port in use with a remedy and exits with 2',
    async (words) => {
      const other = createServer();
      await new Promise((resolve) => other.listen(0, '127.0.0.1', () => resolve(undefined)));
      const { port } = other.address() as AddressInfo;
      const listen = `127.0.0.1:${port}`;
      // Workers need a process of their own.
      const start = words.length > 0 ? sluice : runSluice;
      const { code, stderr } = await start(['serve', '--listen', listen, ...words]);
      other.close();
      expect(stderr).toContain(
        `error: ${listen} is in use by another process. Stop that process, or choose another ` +
          `address, for example \`--listen 127.0.0.1:${port + 1}\`.\n`,
      );
      expect(code).toBe(2);
    },
  );

  test('serve reports a gRPC port in use and exits with 2', async () => {
    const other = createServer();
    await new Promise((resolve) => other.listen(0, '127.0.0.1', () => resolve(undefined)));
    const grpc = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const { code, stderr } = await runSluice(['serve', '--listen', '127.0.0.1:0', '--grpc', grpc]);
    other.close();
    expect(stderr).toContain(`error: ${grpc} is in use by another process`);
    expect(stderr).toContain('for example `--grpc 127.0.0.1:');
    expect(code).toBe(2);
  });

  test('serve reports an address of another machine and exits with 2', async () => {
    const token = { SLUICE_ADMIN_TOKEN: TOKEN };
    const { code, stderr } = await runSluice(['serve', '--listen', '192.0.2.1:80'], token);
    expect(stderr).toContain('Cannot listen on 192.0.2.1:80 (EADDRNOTAVAIL)');
    expect(code).toBe(2);
  });

  test('serve reports all problems of files, variables and flags and exits with 1', async () => {
    const path = file('wrong.yaml', 'policies:\n  a: 100/1x\n  b: -1\nlogDenials: many\n');
    const words = ['serve', '--config', path, '--workers', 'x'];
    const { code, stdout, stderr } = await runSluice(words, { SLUICE_HEADERS: 'y' });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    const reported = stderr.trimEnd().split('\n');
    expect(reported).toHaveLength(5);
    expect(reported[0]).toMatch(/^error: \S*wrong\.yaml:2:6: Expected /);
    expect(reported[1]).toMatch(/wrong\.yaml:3:6: Expected /);
    expect(reported[2]).toMatch(/wrong\.yaml:4:13: Expected /);
    expect(reported[3]).toMatch(/^error: Expected SLUICE_HEADERS to be one of /);
    expect(reported[4]).toMatch(/^error: Expected --workers to be an integer/);
  });

  test('an invalid file is reported without problems of settings that it would set', async () => {
    const path = file('token.yaml', `adminToken: ${TOKEN}\npolicies: { a: nonsense }\n`);
    const { code, stderr } = await runSluice(['serve', '--config', path, '--listen', ':0']);
    expect(code).toBe(1);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr).toContain('token.yaml:2:16: ');
  });

  test.each([
    [['--tls-cert', '/nowhere.pem', '--tls-key', '/nowhere.pem'], /nowhere\.pem/],
    [['--store', 'redis://:::'], /store/],
    [['--overrides-file', '/nowhere/overrides.json'], /nowhere/],
    [['--admin-token-file', '/nowhere/token'], /got ENOENT/],
    [['--listen', '0.0.0.0:0'], /can be reached from other machines/],
  ])(
    'serve %j reports the problem without a stack trace and exits with 1',
    async (words, message) => {
      const { code, stderr } = await runSluice(['serve', '--listen', '127.0.0.1:0', ...words]);
      expect(stderr).toMatch(message);
      expect(stderr).not.toMatch(/^ +at /m);
      expect(code).toBe(1);
    },
  );

  test('serve requires the token of --admin-token-file and does not print the token', async () => {
    const path = file('token', `${TOKEN}\n`);
    const service = keep(await serving(['--admin-token-file', path]));
    const status = async (headers = {}) =>
      (await fetch(`${service.url}/v1/policies`, { headers })).status;
    expect(await status()).toBe(401);
    expect(await status({ authorization: `Bearer ${TOKEN}` })).toBe(200);
    await sleep(10);
    expect(service.stdout + service.stderr).not.toContain(TOKEN);
  });

  test('serve warns about a misspelt variable', async () => {
    const service = keep(await serving([], { SLUICE_LISTN: 'x', SLUICE_PORT: 'tcp://10.0.0.1' }));
    const warnings = lines(service.stdout).filter(({ level }) => level === 'warn');
    expect(warnings.map(({ msg }) => msg)).toEqual([
      'Expected SLUICE_LISTEN, got the variable SLUICE_LISTN',
    ]);
  });

  test('sluice starts through a symbolic link', async () => {
    const link = `${root}node_modules/.bin/sluice`;
    const { code, stdout } = await new Process(link, ['--version'], {}).ended;
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: (await new Process(process.execPath, [binary, '--version'], {}).ended).stdout,
    });
  });
});
