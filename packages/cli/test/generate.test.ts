import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { binary, CONTROL, Process, runSluice, type Serving, scratch, serving } from './running.ts';

const file = scratch();

describe('sluice generate of a log', () => {
  test('the same seed generates the same log, on standard output only', async () => {
    const args = ['generate', 'abuser', '--requests', '300', '--seed', '9'];
    const { code, stdout, stderr } = await runSluice(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.trimEnd().split('\n')).toHaveLength(300);
    expect((await runSluice(args)).stdout).toBe(stdout);
    expect((await runSluice([...args.slice(0, -1), '10'])).stdout).not.toBe(stdout);
  });

  test('a generated log has the given start, duration and number of clients', async () => {
    const when = ['--start', '2026-03-29T12:00:00+02:00', '--duration', '1h'];
    const more = ['--clients', '3', '--requests', '200', '--format', 'json-lines'];
    const { stdout } = await runSluice(['generate', 'steady', ...when, ...more]);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0].time.slice(0, 14)).toBe('2026-03-29T10:');
    expect(lines.at(-1).time.slice(0, 16)).toBe('2026-03-29T10:59');
    expect(new Set(lines.map(({ client }) => client)).size).toBe(3);
  });

  test('generate --out writes the file atomically', async () => {
    const path = file('access.log', 'previous content');
    const args = ['generate', 'boundary', '--requests', '100', '--out', path];
    const { code, stdout } = await runSluice(args);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: `100 lines of boundary traffic written to ${path}\n`,
    });
    expect(readFileSync(path, 'utf8').trimEnd().split('\n')).toHaveLength(100);
    const { stdout: json } = await runSluice([...args, '--json']);
    expect(JSON.parse(json)).toMatchObject({
      kind: 'generate',
      settings: { shape: 'boundary', seed: 1, requests: 100, clients: 100, windowMs: 60_000 },
      file: path,
      format: 'combined',
      bytes: readFileSync(path).length,
      requests: 100,
    });
    expect(readdirSync(dirname(path)).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  test('generate reports a file that cannot be written and leaves no part of it', async () => {
    const path = `${dirname(file('x', ''))}/nowhere/access.log`;
    const { code, stdout, stderr } = await runSluice(['generate', 'steady', '--out', path]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`Expected to write \`${path}\`, got no such folder (ENOENT)`);
    expect(existsSync(path)).toBe(false);
  });

  test('generate exits with 0 if the reader closes the pipe early', async () => {
    const line = `'${process.execPath}' '${binary}' generate steady --requests 100000000 | head -2`;
    const { code, stdout, stderr } = await new Process(
      'bash',
      ['-c', `set -o pipefail; ${line}`],
      {},
    ).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.trimEnd().split('\n')).toHaveLength(2);
  });

  test('generate writes a log that is twice as large as the heap', async () => {
    // The log is twice as large as the heap.
    const command =
      `'${process.execPath}' --max-old-space-size=24 '${binary}' generate flash-crowd ` +
      '--requests 350000 --clients 1000000 | wc -lc';
    const { code, stdout } = await new Process('bash', ['-c', `set -o pipefail; ${command}`], {})
      .ended;
    expect(code).toBe(0);
    const [lines, bytes] = stdout.trim().split(/\s+/).map(Number);
    expect(lines).toBe(350_000);
    expect(bytes).toBeGreaterThan(48 * 1024 * 1024);
  });
});

test.each([
  [['round'], 'Expected the shape to be one of steady, boundary, diurnal, flash-crowd, abuser'],
  [['steady', '--requests', '1.5'], 'Expected an integer of at least 0'],
  [['steady', '--clients', '0'], 'Expected an integer of at least 1'],
  [['steady', '--clients', '9000000'], 'Expected --clients to be an integer from 1 to 8388608'],
  [['steady', '--duration', '5'], 'Expected a duration such as 500ms, 10s or 5m'],
  [['boundary', '--duration', '30s'], 'Expected --duration to contain a boundary of 60000 ms'],
  [['steady', '--start', 'tomorrow'], 'Expected a time such as 2026-01-31T12:00:00Z'],
  [['steady', '--format', 'xml'], 'Allowed choices are combined, json-lines'],
  [['steady', '--rate', '5'], 'Expected --rate with --against'],
  [['steady', '--json'], 'Expected --json with --out or --against'],
  [['steady', '--against', 'http://127.0.0.1:1/', '--out', 'x'], 'cannot be used with'],
  [['steady', '--against', 'ftp://127.0.0.1/'], 'Expected --against to be a URL such as http'],
  [
    ['steady', '--against', 'http://127.0.0.1:1/', '--rate=1', '--duration=1s', '--requests=1'],
    'Expected two of --requests, --duration and --rate, got all three',
  ],
])('generate %j prints the reason and exits with 2', async (args, message) => {
  const { code, stdout, stderr } = await runSluice(['generate', ...args]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

describe('sluice generate --against', () => {
  let server: Server;
  let url: string;
  const seen: IncomingMessage[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      seen.push(request);
      response.statusCode = request.url === '/login' ? 429 : 200;
      response.end('x'.repeat(1000));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  test.each([
    'http://example.com/',
    'http://8.8.8.8/',
    'http://0.0.0.0/',
    'http://10.0.0.1/',
    'http://127.0.0.1.example.com/',
    'http://localhost.example.com/',
    'http://[2001:db8::1]/',
    'http://127.0.0.1@example.com/',
    'http://[::ffff:8.8.8.8]/',
  ])('--against %s is rejected because it is not a local address', async (address) => {
    const { code, stdout, stderr } = await runSluice(['generate', 'steady', '--against', address]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Expected --against to be a local address');
  });

  test('generate --against sends the client address of each request, prints statuses', async () => {
    seen.length = 0;
    const args = ['--requests', '200', '--rate', '400', '--seed', '3'];
    const { code, stdout } = await runSluice([
      'generate',
      'abuser',
      '--against',
      `${url}/`,
      ...args,
    ]);
    expect(code).toBe(0);
    expect(seen).toHaveLength(200);
    const logins = seen.filter((request) => request.url === '/login');
    expect(stdout).toMatch(/^sent {6}200 requests from \d+ clients in \d/);
    expect(stdout).toMatch(new RegExp(`^429 +${logins.length} .* Too Many Requests$`, 'm'));
    expect(stdout).toMatch(new RegExp(`^200 +${200 - logins.length} .* OK$`, 'm'));
    expect(stdout).not.toMatch(CONTROL);
    // Concurrent requests may arrive in another order than in the log of the same seed.
    const { stdout: log } = await runSluice([
      'generate',
      'abuser',
      ...args.slice(0, 2),
      '--seed',
      '3',
    ]);
    const clients = log
      .trimEnd()
      .split('\n')
      .map((line) => line.split(' ')[0]);
    const forwarded = seen.map((request) => request.headers['x-forwarded-for']);
    expect([...forwarded].sort()).toEqual([...clients].sort());
    expect(seen.every((request) => request.headers['user-agent'] !== undefined)).toBe(true);
  });

  test('generate --against requests a URL without a trailing slash as it is', async () => {
    seen.length = 0;
    const where = ['--against', `${url}/v1/forward-auth?deny=403`];
    const { stdout } = await runSluice([
      'generate',
      'steady',
      ...where,
      '--requests=20',
      '--json',
      '--rate=200',
    ]);
    expect(seen.map((request) => `${request.method} ${request.url}`)).toEqual(
      new Array(20).fill('GET /v1/forward-auth?deny=403'),
    );
    expect(seen[0].headers['x-forwarded-uri']).toMatch(/^\//);
    expect(JSON.parse(stdout)).toMatchObject({
      settings: { shape: 'steady' },
      sent: 20,
      responses: 20,
      statuses: { 200: 20 },
      failures: {},
    });
  });

  test('generate --against spreads requests over --duration', async () => {
    const args = ['--requests', '50', '--duration', '1s', '--json'];
    const { stdout } = await runSluice(['generate', 'steady', '--against', `${url}/`, ...args]);
    expect(JSON.parse(stdout).tookMs).toBeGreaterThan(900);
  });

  test('an unreachable service is reported, and generate exits with 2', async () => {
    const args = ['--requests', '5', '--rate', '100'];
    const unreachable = ['generate', 'steady', '--against', 'http://127.0.0.1:1/', ...args];
    const { code, stdout, stderr } = await runSluice(unreachable);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Cannot reach http://127.0.0.1:1 (ECONNREFUSED)');
  });

  test('Ctrl-C stops generate --against, which prints the summary', async () => {
    seen.length = 0;
    const args = [binary, 'generate', 'steady', '--against', `${url}/`, '--duration', '10m'];
    const load = new Process(process.execPath, args, {});
    while (seen.length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
    const { code, stdout } = await load.stop('SIGINT');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^sent {6}\d+ requests/);
  });
});

describe('sluice generate --against a service', () => {
  let service: Serving;
  beforeAll(async () => {
    const limits = 'policies:\n  own: 15/1m\nrules:\n  - limits: [{ policy: own }]\n';
    service = await serving(['--config', file('limits.yaml', limits)]);
  });
  afterAll(async () => {
    await service?.stop();
  });

  test('the service admits the limit of the abuser and denies its other requests', async () => {
    const where = ['--against', `${service.url}/v1/forward-auth`, '--json'];
    const args = ['generate', 'abuser', ...where, '--requests', '400', '--rate', '400'];
    const { stdout } = await runSluice(args);
    const { statuses, denied, firstDeniedMs } = JSON.parse(stdout);
    expect(statuses[200] + statuses[429]).toBe(400);
    expect(denied[0].sent - denied[0].denied).toBe(15);
    expect(denied[0].denied).toBeGreaterThan(100);
    expect(firstDeniedMs).toBeGreaterThan(0);
  });
});
