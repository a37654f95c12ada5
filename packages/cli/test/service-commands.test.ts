/** Commands that send requests to a service, and their errors. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CONTROL, onTerminal, runSluice, type Serving, scratch, serving } from './running.ts';

const file = scratch();
const TOKEN = 'a-token-with-enough-letters';

const CONFIG = `policies:
  perMinute: 100/1m
  few: 2/1h
  budget: { limit: 1000, window: 1d, costs: { search: 100 } }
  steady: { limit: 10, window: 1h, algorithm: token-bucket, burst: 20 }
  watched: { limit: 1, window: 1h, shadow: true }
  logins: { limit: 1, window: 1m, block: 15m }
  jobs: { concurrency: 2, lease: 1m }
overrides:
  - { policy: perMinute, key: 'vip', limit: 5000, reason: a friend }
`;

let service: Serving;
const run = (...args: string[]) => runSluice([...args, '--url', service.url]);
/** The rest of a window of one minute; up to 10 s may have passed on a busy machine. */
const SOON = String.raw`5\d(?:\.\d)? s|60 s`;

beforeAll(async () => {
  service = await serving(['--config', file('limits.yaml', CONFIG)]);
});
afterAll(async () => {
  await service?.stop();
});

describe('sluice check', () => {
  test('check prints the remaining calls and exits with 0 if allowed', async () => {
    const { code, stdout, stderr } = await run('check', 'perMinute', 'user:1');
    expect(stdout).toMatch(new RegExp(`^allowed {3}99 of 100 remaining, resets in (?:${SOON})\n$`));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
  });

  test('check prints the wait and exits with 1 if denied', async () => {
    for (let call = 0; call < 2; call++) expect((await run('check', 'few', 'a')).code).toBe(0);
    const { code, stdout } = await run('check', 'few', 'a');
    expect(stdout).toMatch(
      /^denied {4}retry in (?:59 min \d+ s|60 min|1 h) \(policy few, limit 2\)\n$/,
    );
    expect(code).toBe(1);
  });

  test('check charges the cost of --cost or --operation', async () => {
    expect((await run('check', 'budget', 'a', '--cost', '7')).stdout).toContain('993 of 1,000');
    const named = await run('check', 'budget', 'a', '--operation', 'search');
    expect(named.stdout).toContain('893 of 1,000');
  });

  test('check charges two calls with the same --id once', async () => {
    const first = await run('check', 'perMinute', 'job', '--id', 'job-7');
    const again = await run('check', 'perMinute', 'job', '--id', 'job-7');
    expect(first.stdout).toContain('99 of 100');
    expect(again.stdout).toContain('99 of 100');
    expect((await run('check', 'perMinute', 'job')).stdout).toContain('98 of 100');
  });

  test('check --enforce prints the status and the rate limit headers', async () => {
    const { stdout } = await run('check', 'few', 'b', '--cost', '2', '--enforce');
    expect(stdout).toContain('\nstatus    200 OK\n');
    expect(stdout).toMatch(/\nratelimit: "few";r=0;t=3600\n/);
    expect(stdout).toContain('\nratelimit-policy: "few";q=2;w=3600\n');
    const denied = await run('check', 'few', 'b', '--enforce');
    expect(denied.code).toBe(1);
    expect(denied.stdout).toMatch(/\nstatus {4}429 Too Many Requests\n/);
    expect(denied.stdout).toMatch(/\nretry-after: 3[56]\d\d\n/);
  });

  test('check prints the decision of a shadow policy and exits with 0', async () => {
    const first = await run('check', 'watched', 'a');
    expect(first.stdout).toMatch(/^allowed\nshadow {4}allowed {3}0 of 1 remaining/);
    const second = await run('check', 'watched', 'a');
    expect(second.stdout).toMatch(/^allowed\nshadow {4}denied {4}retry in/);
    expect(second.code).toBe(0);
  });

  test('check --json prints the response of the service on one line', async () => {
    const { stdout } = await run('check', 'perMinute', 'machine', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      allowed: true,
      policy: 'perMinute',
      key: 'machine',
      remaining: 99,
      receipt: { charges: [{ cost: 1 }] },
    });
    expect(stdout.trimEnd().split('\n')).toHaveLength(1);
  });

  test('check prints allowed in green and denied in red on a terminal', async () => {
    const args = ['check', 'few', 'colour', '--cost', '2', '--url', service.url];
    expect((await onTerminal(args).ended).stdout).toContain('\u001b[32mallowed\u001b[0m');
    expect((await onTerminal(args).ended).stdout).toContain('\u001b[31mdenied\u001b[0m');
  });

  test.each([
    [['check', 'perHour', 'a'], 'ERR_UNKNOWN_POLICY'],
    [['check', 'perMinute', ''], 'ERR_INVALID_KEY'],
    [['check', 'perMinute', 'a', '--cost', '101'], 'ERR_COST_ABOVE_LIMIT'],
    [['check', 'budget', 'a', '--operation', 'swim'], 'ERR_UNKNOWN_OPERATION'],
    [['peek', 'perHour', 'a'], 'ERR_UNKNOWN_POLICY'],
    [['reset', 'perHour', 'a'], 'ERR_UNKNOWN_POLICY'],
    [['inspect', 'perHour', 'a'], 'ERR_UNKNOWN_POLICY'],
    [['inspect', 'perMinute', '..'], 'Expected a name other than'],
    [['inspect', 'perMinute', ''], 'Expected a name other than'],
  ])('sluice %j prints the reason and exits with 2', async (args, message) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: Expected /);
    expect(stderr).toContain(message);
  });
});

describe('sluice peek', () => {
  test('peek returns the decision of a check and charges nothing', async () => {
    for (let call = 0; call < 2; call++) {
      const { code, stdout } = await run('peek', 'few', 'peeked');
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'allowed   2 of 2 remaining\n' });
    }
    await run('check', 'few', 'peeked', '--cost', '2');
    const { code, stdout } = await run('peek', 'few', 'peeked');
    expect(stdout).toMatch(/^denied {4}retry in /);
    expect(code).toBe(1);
    expect((await run('peek', 'few', 'peeked', '--cost', '0')).code).toBe(0);
  });

  test('peek accepts --operation and --json', async () => {
    const { stdout } = await run('peek', 'budget', 'c', '--operation', 'search', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ allowed: true, cost: 100, remaining: 1000 });
  });
});

describe('sluice reset', () => {
  test('reset clears the counters of a key', async () => {
    await run('check', 'few', 'reset me', '--cost', '2');
    const { code, stdout } = await run('reset', 'few', 'reset me');
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'reset     reset me of policy few\n' });
    expect((await run('peek', 'few', 'reset me')).stdout).toContain('2 of 2 remaining');
  });

  test('reset --json prints the policy and the key', async () => {
    const { stdout } = await run('reset', 'few', 'x', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ policy: 'few', key: 'x' });
  });
});

describe('sluice inspect', () => {
  test('inspect draws and lists the entries of a sliding log', async () => {
    await run('check', 'perMinute', 'drawn', '--cost', '1');
    await run('check', 'perMinute', 'drawn', '--cost', '8');
    const { code, stdout } = await run('inspect', 'perMinute', 'drawn');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'policy    perMinute (sliding-log, 1 min)',
      'key       drawn',
      'used      9 of 100, 91 remaining',
    ]);
    expect(lines[3]).toMatch(new RegExp(`^resets {4}in (?:${SOON})$`));
    // A high bar for the later entry; the other one may be in the same column.
    expect(lines[5]).toMatch(/^[·▁█]{60}$/);
    expect(lines[5]).toContain('█');
    expect(lines[6]).toMatch(/^1 min ago +now$/);
    expect(lines[8]).toMatch(/^admitted +cost {2}expires$/);
    expect(lines[9]).toMatch(new RegExp(`^.* ago +8 +in (?:${SOON})$`));
    expect(lines[10]).toMatch(new RegExp(`^.* ago +1 +in (?:${SOON})$`));
  });

  test('inspect lists the newest ten entries and counts the others', async () => {
    for (let call = 0; call < 3; call++) {
      const checks = Array.from({ length: 4 }, () => ({ policy: 'perMinute', key: 'long' }));
      const body = JSON.stringify({ checks });
      await fetch(`${service.url}/v1/check`, { method: 'POST', body });
    }
    const state = JSON.parse((await run('inspect', 'perMinute', 'long', '--json')).stdout);
    const { stdout } = await run('inspect', 'perMinute', 'long');
    const rows = stdout.split('\n').filter((line) => / ago +\d+ +in /.test(line));
    expect(rows).toHaveLength(Math.min(10, state.entryCount));
    expect(stdout.includes('older')).toBe(state.entryCount > 10);
  });

  test('inspect shows an unused key, a token bucket and an override', async () => {
    expect((await run('inspect', 'few', 'unused')).stdout).toBe(
      'policy    few (sliding-log, 1 h)\n' +
        'key       unused\n' +
        'used      0 of 2, 2 remaining\n' +
        'resets    now\n',
    );
    await run('check', 'steady', 'a', '--cost', '5');
    const bucket = (await run('inspect', 'steady', 'a')).stdout;
    expect(bucket).toContain('policy    steady (token-bucket, 1 h)\n');
    expect(bucket).toMatch(/used {6}[45] of 20, 1[56] remaining\n/);
    expect((await run('inspect', 'perMinute', 'vip')).stdout).toContain(
      'override  limit 5,000 (a friend)\n',
    );
  });

  test('check and inspect show that a key is blocked, and until when', async () => {
    await run('check', 'logins', 'eve');
    const { code, stdout } = await run('check', 'logins', 'eve');
    expect(stdout).toMatch(/^denied {4}blocked, retry in 15 min \(policy logins, limit 1\)\n$/);
    expect(code).toBe(1);
    expect((await run('inspect', 'logins', 'eve')).stdout).toMatch(
      /\nblocked {3}until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, for (?:14 min \d+ s|15 min)\n/,
    );
  });

  test('inspect lists the holds of a concurrency limit with their labels', async () => {
    const body = JSON.stringify({ policy: 'jobs', key: 'a', label: 'report\u001b[2J 7' });
    const response = await fetch(`${service.url}/v1/check`, { method: 'POST', body });
    const { fence } = (await response.json()) as { fence: number };
    const lines = (await run('inspect', 'jobs', 'a')).stdout.split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'policy    jobs (concurrency, lease 1 min)',
      'key       a',
      'held      1 of 2, 1 remaining',
    ]);
    expect(lines[5]).toMatch(/^held since +cost {2}expires +fence +label$/);
    expect(lines[6]).toMatch(new RegExp(`^.* ago +1 +in (?:${SOON}) +${fence} +report`));
    expect(lines.join('')).not.toMatch(CONTROL);
  });

  test('inspect escapes control characters in a key', async () => {
    const args = ['inspect', 'few', 'a\u001b[2J/b', '--url', service.url];
    const { stdout } = await onTerminal(args, { NO_COLOR: '1' }).ended;
    expect(stdout).toContain('key       a\\u{1b}[2J/b');
    expect(stdout.replaceAll('\r', '')).not.toMatch(CONTROL);
  });
});

describe('the admin token of reset', () => {
  let guarded: Serving;
  beforeAll(async () => {
    guarded = await serving(['--config', file('limits.yaml', CONFIG)], {
      SLUICE_ADMIN_TOKEN: TOKEN,
    });
  });
  afterAll(async () => {
    await guarded?.stop();
  });
  const runGuarded = (args: string[], variables = {}) =>
    runSluice(['reset', 'few', 'a', ...args], { SLUICE_URL: guarded.url, ...variables });

  test('a missing admin token is reported with the flags that set it', async () => {
    const { code, stderr } = await runGuarded([]);
    expect(code).toBe(2);
    expect(stderr).toContain('Admin token required: set --token-file, --token or');
  });

  test('a wrong admin token is rejected and not printed', async () => {
    const { code, stderr } = await runGuarded(['--token', 'wrong-but-long-enough']);
    expect(code).toBe(2);
    expect(stderr).toContain('rejected the admin token');
    expect(stderr).not.toContain('wrong-but');
  });

  test('the admin token is read from a flag, a file or a variable', async () => {
    const path = file('token', `${TOKEN}\n`);
    expect((await runGuarded(['--token', TOKEN])).code).toBe(0);
    expect((await runGuarded(['--token-file', path])).code).toBe(0);
    expect((await runGuarded([], { SLUICE_ADMIN_TOKEN: TOKEN })).code).toBe(0);
    expect((await runGuarded([], { SLUICE_ADMIN_TOKEN_FILE: path })).code).toBe(0);
    const other = { SLUICE_ADMIN_TOKEN: 'of another service' };
    expect((await runGuarded(['--token-file', path], other)).code).toBe(0);
  });

  test('a missing admin token file is reported', async () => {
    const { code, stderr } = await runGuarded(['--token-file', '/nowhere/token']);
    expect(code).toBe(2);
    expect(stderr).toContain('Expected a readable file at `/nowhere/token`, got ENOENT');
  });

  test('check needs no admin token', async () => {
    const { code } = await runSluice(['check', 'few', 'z'], { SLUICE_URL: `${guarded.url}/` });
    expect(code).toBe(0);
  });
});

describe('a server that is not a Sluice service', () => {
  const urlOf = (server: { address(): unknown }) =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listening = async <T extends Server | ReturnType<typeof createTcpServer>>(server: T) => {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
    return server;
  };
  const checkAgainst = async (status: number, type: string, body: string) => {
    const server = await listening(
      createServer((_, response) => response.writeHead(status, { 'content-type': type }).end(body)),
    );
    const ended = await runSluice(['check', 'a', 'b', '--url', urlOf(server)]);
    server.close();
    return ended;
  };

  test('a refused connection is reported with a remedy', async () => {
    const probe = await listening(createTcpServer());
    const url = urlOf(probe);
    await new Promise((resolve) => probe.close(resolve));
    const { code, stdout, stderr } = await runSluice(['check', 'a', 'b'], { SLUICE_URL: url });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(
      `error: Connection refused by ${url}. Start a service with \`sluice serve\`, or set its ` +
        'address with --url or SLUICE_URL.\n',
    );
  });

  test.each([
    [404, 'text/html', '<h1>Not here</h1>', 'Expected a Sluice service at'],
    [302, 'text/plain', '', 'Expected a Sluice service at'],
    [200, 'application/json', '{', 'Expected a Sluice service at'],
    [200, 'application/json', '{"hello":1}', 'Expected a decision from the service'],
    [200, 'application/json', 'null', 'Expected a decision from the service'],
    [400, 'application/problem+json', '{"detail":"\\u001b[2Jno"}', 'error: \\u{1b}[2Jno'],
  ])('a response %i of %s, %s, is reported', async (status, type, body, message) => {
    const { code, stdout, stderr } = await checkAgainst(status, type, body);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(CONTROL);
  });

  test('a connection that ends without a response is reported', async () => {
    const server = await listening(createTcpServer((socket) => socket.destroy()));
    const { code, stderr } = await runSluice(['check', 'a', 'b', '--url', urlOf(server)]);
    server.close();
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: Cannot reach http:\/\/127\.0\.0\.1:\d+ \(.+\)\. Set/);
  });

  test('a path in --url is reported', async () => {
    for (const url of [`${service.url}/v1`, `${service.url}/v1/check/`]) {
      for (const args of [['check', 'few', 'path'], ['inspect', 'few', 'path'], ['top']]) {
        const { code, stderr } = await runSluice([...args, '--url', url]);
        expect(code).toBe(2);
        expect(stderr).toContain(`error: Expected --url without a path, such as ${service.url}, `);
      }
    }
    const server = await listening(createServer((_, response) => response.writeHead(404).end()));
    const { stderr } = await runSluice(['check', 'a', 'b', '--url', `${urlOf(server)}/v1`]);
    server.close();
    expect(stderr).toContain('Expected --url without a path');
  });

  test('a port without TLS is reported with the URL to try', async () => {
    const url = service.url.replace('http:', 'https:');
    const { code, stderr } = await runSluice(['check', 'few', 'tls', '--url', url]);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: Cannot reach https:\S+ \(\w+\): it may not support TLS\. Try http:/,
    );
  });

  test.each(['nowhere', 'ftp://127.0.0.1', '127.0.0.1:8080', ''])(
    '--url %j is rejected',
    async (url) => {
      const { code, stderr } = await runSluice(['check', 'a', 'b', '--url', url]);
      expect(code).toBe(2);
      expect(stderr).toContain('Expected --url to be a URL such as http://127.0.0.1:8080, got');
    },
  );
});
