/** `--report` of every command that has it: the report is written completely or not at all. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  binary,
  type Ended,
  Process,
  runSluice,
  type Serving,
  scratch,
  serving,
} from './running.ts';
import { onTerminalOf } from './terminal.ts';
import { combinedLog, mixed, NOON_MS } from './traffic-logs.ts';

const file = scratch();
const log = file('access.log', combinedLog(mixed()));
const folder = dirname(log);
const limits = file('limits.yaml', 'policies:\n  perMinute: 30/1m\n');

const NASTY = '<img src=x onerror=alert(1)>';
const nasty = file(
  'nasty.jsonl',
  Array.from({ length: 50 }, (_, call) => {
    const time = new Date(NOON_MS + 1000 * call).toISOString();
    return `${JSON.stringify({ time, client: NASTY, method: 'GET', path: `/${NASTY}` })}\n`;
  }).join(''),
);

let service: Serving;
beforeAll(async () => {
  service = await serving(['--config', limits]);
});
afterAll(async () => {
  await service?.stop();
});

/** Arguments with which each command ends soon. `URL` is replaced by that of the service. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  plan: ['plan', nasty, '--policy', limits],
  suggest: ['suggest', nasty],
  compare: ['compare', nasty, '--limit', '5/1m'],
  'explain, of a log': ['explain', nasty, '--limit', '5/1m', '--client', NASTY],
  'explain, of a service': ['explain', '--policy', 'perMinute', '--key', NASTY, '--url', 'URL'],
};

const argsOf = (name: string): readonly string[] =>
  COMMANDS[name].map((arg) => arg.replace('URL', service.url));

const unfinished = (): readonly string[] =>
  readdirSync(folder).filter((name) => name.endsWith('.part'));

const kindOf = (name: string): string => name.split(',')[0];

describe.each(Object.keys(COMMANDS))('sluice %s --report', (name) => {
  const page = join(folder, `${name.replaceAll(/\W+/g, '-')}.html`);

  test(`--report of ${name} is written beside the output and replaces a file`, async () => {
    writeFileSync(page, 'previous content');
    const { code, stdout, stderr } = await runSluice([...argsOf(name), '--report', page]);
    expect({ code, stderr }).toEqual({ code: name === 'explain, of a log' ? 1 : 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`.\n\nReport written to ${page}\n$`));
    const text = readFileSync(page, 'utf8');
    expect(text.slice(0, 15)).toBe('<!doctype html>');
    expect(text.trimEnd().endsWith('</html>')).toBe(true);
    expect(text.includes(`<div class="kind">sluice ${kindOf(name)}</div>`)).toBe(true);
    expect(/<img|<script|NaN|undefined/.exec(text)).toBeNull();
    expect(text.includes('<svg')).toBe(true);
    expect(Buffer.byteLength(text)).toBeLessThan(1_000_000);
    expect(unfinished()).toEqual([]);
  });

  test(`--report of ${name} with --json prints only JSON`, async () => {
    const { stdout, stderr } = await runSluice([...argsOf(name), '--report', page, '--json']);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout).kind).toBe(kindOf(name));
  });

  test.each([
    ['a missing folder', join(folder, 'no', 'page.html'), 'no such folder (ENOENT)'],
    ['a folder', folder, 'a folder (EISDIR)'],
  ])(`--report of ${name} rejects %s before the command starts`, async (_, path, why) => {
    const { code, stdout, stderr } = await runSluice([...argsOf(name), '--report', path]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(`error: Expected to write \`${path}\`, got ${why}\n`);
    expect(existsSync(join(folder, 'no'))).toBe(false);
  });
});

describe('the file of --report', () => {
  const plan = (...args: string[]): Promise<Ended> =>
    runSluice(['plan', log, '--policy', limits, ...args]);

  test('an unwritable report is rejected before the log is read', async () => {
    const args = ['plan', join(folder, 'absent.log'), '--policy', limits];
    const { stderr } = await runSluice([...args, '--report', folder]);
    expect(stderr).toContain('Expected to write');
  });

  test.each([
    ['the log', log],
    ['the policies', limits],
  ])('a report does not overwrite %s', async (_, path) => {
    const before = readFileSync(path, 'utf8');
    const { code, stdout, stderr } = await plan('--report', path);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Expected --report to be a separate file');
    expect(readFileSync(path, 'utf8')).toBe(before);
  });

  test('--report and --out with the same path are rejected', async () => {
    const path = join(folder, 'both');
    const { code, stderr } = await runSluice(['suggest', log, '--out', path, '--report', path]);
    expect(code).toBe(2);
    expect(stderr).toContain('which is also --out');
    expect(existsSync(path)).toBe(false);
  });

  test('an existing report remains if reading the log fails', async () => {
    const page = file('kept.html', 'previous content');
    const packed = join(folder, 'cut.log.gz');
    writeFileSync(packed, gzipSync(combinedLog(mixed())).subarray(0, 900));
    const { code, stdout } = await runSluice([
      ...['plan', packed, '--policy', limits, '--report', page],
    ]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(readFileSync(page, 'utf8')).toBe('previous content');
    expect(unfinished()).toEqual([]);
  });

  test('a report is written through a symbolic link, to a device and to a pipe', async () => {
    mkdirSync(join(folder, 'elsewhere'));
    const real = join(folder, 'elsewhere', 'page.html');
    writeFileSync(real, '');
    const link = join(folder, 'link.html');
    symlinkSync(real, link);
    expect((await plan('--report', link)).code).toBe(0);
    expect(readFileSync(real, 'utf8').slice(0, 15)).toBe('<!doctype html>');
    expect((await plan('--report', '/dev/null')).code).toBe(0);
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true);
    const args = `'${binary}' plan '${log}' --policy '${limits}' --report /dev/stdout`;
    const piped = `'${process.execPath}' ${args} | cat`;
    const { stdout } = await new Process('bash', ['-c', piped], {}).ended;
    expect(stdout).toContain('<!doctype html>');
    expect(stdout).toContain('denied      180 requests');
  });
});

test('Ctrl-C leaves no partial file of generate --out', async () => {
  const out = join(folder, 'endless.log');
  const args = [binary, 'generate', 'steady', '--requests', '1000000000', '--out', out];
  const running = new Process(process.execPath, args, {});
  while (unfinished().length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const { code } = await running.stop('SIGINT');
  expect(code).not.toBe(0);
  expect(unfinished()).toEqual([]);
  expect(existsSync(out)).toBe(false);
});

describe('progress of commands on a terminal', () => {
  const big = join(folder, 'big.log');
  beforeAll(async () => {
    await runSluice(['generate', 'steady', '--requests', '300000', '--out', big]);
  });

  test.each([
    ['generate', ['generate', 'steady', '--requests', '5000000', '--out', '/dev/null']],
    ['generate --against', ['generate', 'steady', '--rate', '50', '--against', 'URL/healthz']],
    ['plan', ['plan', big, '--policy', limits]],
    ['suggest', ['suggest', big]],
    ['compare', ['compare', big, '--limit', '5/1m']],
    ['explain', ['explain', big, '--limit', '9999/1m', '--client', '10.1.1.1']],
    ['top', ['top', '--url', 'URL', '--for', '1m']],
    ['demo', ['demo', '--json', '--for', '1m']],
  ])('sluice %s shows progress on a terminal', async (_, args) => {
    const given = args.map((arg) => arg.replace('URL', service.url));
    const shown = onTerminalOf(80, 24, given);
    await shown.shows(/(?:wrote|sent|read|watching|\d s left).*/);
    shown.type('\u0003');
    await shown.code;
    expect(shown.terminal.wrapped).toBe(0);
  });
});

describe('a service that fails some requests', () => {
  const responses: Readonly<Record<string, [status: number, type: string, body: string]>> = {
    '/v1/policies': [200, 'application/json', '{"policies":[]}'],
    '/readyz': [
      ...[503, 'application/json'],
      '{"ready":false,"store":{"up":false},"config":{"ok":true}}',
    ] as [number, string, string],
    '/metrics': [200, 'text/plain', 'sluice_keys 1\n'],
  };
  const server = createServer((request, response) => {
    const [status, type, body] = responses[request.url!] ?? [404, 'text/plain', ''];
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve())));
  afterAll(() => {
    server.close();
  });

  test('top exits with 1 if the service is not ready', async () => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { code, stdout } = await runSluice(['top', '--url', url, '--for', '200ms']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^sluice top .* not ready.*\nstore down {2}1 key {2}config ok\n/);
  });
});

test('generate --against exits with 1 if some requests fail', async () => {
  let received = 0;
  const server = createServer((request, response) => {
    if (received++ % 4 === 0) request.destroy();
    else response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const args = ['generate', 'steady', '--against', url, '--requests', '20'];
  const { code, stdout } = await runSluice([...args, '--rate', '200']);
  server.close();
  expect(code).toBe(1);
  expect(stdout).toMatch(/^failed +5 +25% /m);
});
