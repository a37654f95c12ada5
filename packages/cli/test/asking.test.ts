/** The commands that ask a service, and what they say when that does not work. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CONTROL, onTerminal, runSluice, type Serving, scratch, serving } from './running.ts';

const file = scratch();
const TOKEN = 'a-token-that-nobody-guesses';

const CONFIG = `policies:
  perMinute: 100/1m
  few: 2/1h
  budget: { limit: 1000, window: 1d, costs: { search: 100 } }
  steady: { limit: 10, window: 1h, algorithm: token-bucket, burst: 20 }
  watched: { limit: 1, window: 1h, shadow: true }
overrides:
  - { policy: perMinute, key: 'vip', limit: 5000, reason: a friend }
`;

let service: Serving;
const ask = (...words: string[]) => runSluice([...words, '--url', service.url]);
/** Most is decided within a moment, but the machine may be busy. */
const SOON = String.raw`5\d(?:\.\d)? s|60 s`;

beforeAll(async () => {
  service = await serving(['--config', file('limits.yaml', CONFIG)]);
});
afterAll(async () => {
  await service?.stop();
});

describe('sluice check', () => {
  test('allows, says what is left, and ends with 0', async () => {
    const { code, stdout, stderr } = await ask('check', 'perMinute', 'user:1');
    expect(stdout).toMatch(new RegExp(`^allowed {3}99 of 100 remaining, resets in (?:${SOON})\n$`));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
  });

  test('denies, says when to try again, and ends with 1', async () => {
    for (let call = 0; call < 2; call++) expect((await ask('check', 'few', 'a')).code).toBe(0);
    const { code, stdout } = await ask('check', 'few', 'a');
    expect(stdout).toMatch(
      /^denied {4}retry in (?:59 min \d+ s|60 min|1 h) \(policy few, limit 2\)\n$/,
    );
    expect(code).toBe(1);
  });

  test('charges a cost, or a named one', async () => {
    expect((await ask('check', 'budget', 'a', '--cost', '7')).stdout).toContain('993 of 1000');
    const named = await ask('check', 'budget', 'a', '--operation', 'search');
    expect(named.stdout).toContain('893 of 1000');
  });

  test('charges once under one id', async () => {
    const first = await ask('check', 'perMinute', 'job', '--id', 'job-7');
    const again = await ask('check', 'perMinute', 'job', '--id', 'job-7');
    expect(first.stdout).toContain('99 of 100');
    expect(again.stdout).toContain('99 of 100');
    expect((await ask('check', 'perMinute', 'job')).stdout).toContain('98 of 100');
  });

  test('with --enforce it shows the status and the fields', async () => {
    const { stdout } = await ask('check', 'few', 'b', '--cost', '2', '--enforce');
    expect(stdout).toContain('\nstatus    200 OK\n');
    expect(stdout).toMatch(/\nratelimit: "few";r=0;t=3600\n/);
    expect(stdout).toContain('\nratelimit-policy: "few";q=2;w=3600\n');
    const denied = await ask('check', 'few', 'b', '--enforce');
    expect(denied.code).toBe(1);
    expect(denied.stdout).toMatch(/\nstatus {4}429 Too Many Requests\n/);
    expect(denied.stdout).toMatch(/\nretry-after: 3[56]\d\d\n/);
  });

  test('shows a shadow limit, which never denies', async () => {
    const first = await ask('check', 'watched', 'a');
    expect(first.stdout).toMatch(/^allowed\nshadow {4}allowed {3}0 of 1 remaining/);
    const second = await ask('check', 'watched', 'a');
    expect(second.stdout).toMatch(/^allowed\nshadow {4}denied {4}retry in/);
    expect(second.code).toBe(0);
  });

  test('with --json it prints what the service says', async () => {
    const { stdout } = await ask('check', 'perMinute', 'machine', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      allowed: true,
      policy: 'perMinute',
      key: 'machine',
      remaining: 99,
      receipt: { charges: [{ cost: 1 }] },
    });
    expect(stdout.trimEnd().split('\n')).toHaveLength(1);
  });

  test('is green on a terminal, and red if denied', async () => {
    const words = ['check', 'few', 'colour', '--cost', '2', '--url', service.url];
    expect((await onTerminal(words).ended).stdout).toContain('\u001b[32mallowed\u001b[0m');
    expect((await onTerminal(words).ended).stdout).toContain('\u001b[31mdenied\u001b[0m');
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
  ])('%j is refused with what is wrong, and ends with 2', async (words, message) => {
    const { code, stdout, stderr } = await ask(...words);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: Expected /);
    expect(stderr).toContain(message);
  });
});

describe('sluice peek', () => {
  test('peek returns the decision of a check and charges nothing', async () => {
    for (let call = 0; call < 2; call++) {
      const { code, stdout } = await ask('peek', 'few', 'peeked');
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'allowed   2 of 2 remaining\n' });
    }
    await ask('check', 'few', 'peeked', '--cost', '2');
    const { code, stdout } = await ask('peek', 'few', 'peeked');
    expect(stdout).toMatch(/^denied {4}retry in /);
    expect(code).toBe(1);
    expect((await ask('peek', 'few', 'peeked', '--cost', '0')).code).toBe(0);
  });

  test('knows named costs, and JSON', async () => {
    const { stdout } = await ask('peek', 'budget', 'c', '--operation', 'search', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ allowed: true, cost: 100, remaining: 1000 });
  });
});

describe('sluice reset', () => {
  test('reset clears the counters of a key', async () => {
    await ask('check', 'few', 'reset me', '--cost', '2');
    const { code, stdout } = await ask('reset', 'few', 'reset me');
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'reset     reset me of policy few\n' });
    expect((await ask('peek', 'few', 'reset me')).stdout).toContain('2 of 2 remaining');
  });

  test('knows JSON', async () => {
    const { stdout } = await ask('reset', 'few', 'x', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ policy: 'few', key: 'x' });
  });
});

describe('sluice inspect', () => {
  test('draws the entries of a log', async () => {
    await ask('check', 'perMinute', 'drawn', '--cost', '1');
    await ask('check', 'perMinute', 'drawn', '--cost', '8');
    const { code, stdout } = await ask('inspect', 'perMinute', 'drawn');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'policy    perMinute (sliding-log, 1 min)',
      'key       drawn',
      'used      9 of 100, 91 remaining',
    ]);
    expect(lines[3]).toMatch(new RegExp(`^resets {4}in (?:${SOON})$`));
    // A high bar for the later one; the other may share its place.
    expect(lines[5]).toMatch(/^[·▁█]{60}$/);
    expect(lines[5]).toContain('█');
    expect(lines[6]).toMatch(/^1 min ago +now$/);
    expect(lines[8]).toMatch(/^admitted +cost {2}expires$/);
    expect(lines[9]).toMatch(new RegExp(`^.* ago +8 +in (?:${SOON})$`));
    expect(lines[10]).toMatch(new RegExp(`^.* ago +1 +in (?:${SOON})$`));
  });

  test('shows the last ten and counts the rest', async () => {
    for (let call = 0; call < 3; call++) {
      const checks = Array.from({ length: 4 }, () => ({ policy: 'perMinute', key: 'long' }));
      const body = JSON.stringify({ checks });
      await fetch(`${service.url}/v1/check`, { method: 'POST', body });
    }
    const state = JSON.parse((await ask('inspect', 'perMinute', 'long', '--json')).stdout);
    const { stdout } = await ask('inspect', 'perMinute', 'long');
    const rows = stdout.split('\n').filter((line) => / ago +\d+ +in /.test(line));
    expect(rows).toHaveLength(Math.min(10, state.entryCount));
    expect(stdout.includes('older')).toBe(state.entryCount > 10);
  });

  test('shows a new key, a token bucket and an override', async () => {
    expect((await ask('inspect', 'few', 'nobody')).stdout).toBe(
      'policy    few (sliding-log, 1 h)\n' +
        'key       nobody\n' +
        'used      0 of 2, 2 remaining\n' +
        'resets    now\n',
    );
    await ask('check', 'steady', 'a', '--cost', '5');
    const bucket = (await ask('inspect', 'steady', 'a')).stdout;
    expect(bucket).toContain('policy    steady (token-bucket, 1 h)\n');
    expect(bucket).toMatch(/used {6}[45] of 20, 1[56] remaining\n/);
    expect((await ask('inspect', 'perMinute', 'vip')).stdout).toContain(
      'override  limit 5000 (a friend)\n',
    );
  });

  test('a key is nothing that a terminal obeys', async () => {
    const words = ['inspect', 'few', 'a\u001b[2J/b', '--url', service.url];
    const { stdout } = await onTerminal(words, { NO_COLOR: '1' }).ended;
    expect(stdout).toContain('key       a\\u{1b}[2J/b');
    expect(stdout.replaceAll('\r', '')).not.toMatch(CONTROL);
  });
});

describe('the admin token', () => {
  let guarded: Serving;
  beforeAll(async () => {
    guarded = await serving(['--config', file('limits.yaml', CONFIG)], {
      SLUICE_ADMIN_TOKEN: TOKEN,
    });
  });
  afterAll(async () => {
    await guarded?.stop();
  });
  const askGuarded = (words: string[], variables = {}) =>
    runSluice(['reset', 'few', 'a', ...words], { SLUICE_URL: guarded.url, ...variables });

  test('a missing admin token is reported with the flags that set it', async () => {
    const { code, stderr } = await askGuarded([]);
    expect(code).toBe(2);
    expect(stderr).toContain('Admin token required: set --token-file, --token or');
  });

  test('a wrong admin token is rejected and not printed', async () => {
    const { code, stderr } = await askGuarded(['--token', 'wrong-but-long-enough']);
    expect(code).toBe(2);
    expect(stderr).toContain('rejected the admin token');
    expect(stderr).not.toContain('wrong-but');
  });

  test('is taken from a flag, a file or a variable', async () => {
    const path = file('token', `${TOKEN}\n`);
    expect((await askGuarded(['--token', TOKEN])).code).toBe(0);
    expect((await askGuarded(['--token-file', path])).code).toBe(0);
    expect((await askGuarded([], { SLUICE_ADMIN_TOKEN: TOKEN })).code).toBe(0);
    expect((await askGuarded([], { SLUICE_ADMIN_TOKEN_FILE: path })).code).toBe(0);
    const other = { SLUICE_ADMIN_TOKEN: 'of another service' };
    expect((await askGuarded(['--token-file', path], other)).code).toBe(0);
  });

  test('a missing token file is reported', async () => {
    const { code, stderr } = await askGuarded(['--token-file', '/nowhere/token']);
    expect(code).toBe(2);
    expect(stderr).toContain('Expected a readable file at `/nowhere/token`, got ENOENT');
  });

  test('is not needed to check', async () => {
    const { code } = await runSluice(['check', 'few', 'z'], { SLUICE_URL: `${guarded.url}/` });
    expect(code).toBe(0);
  });
});

describe('what is not a service', () => {
  const urlOf = (server: { address(): unknown }) =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listening = async <T extends Server | ReturnType<typeof createTcpServer>>(server: T) => {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
    return server;
  };
  const answering = async (status: number, type: string, body: string) => {
    const server = await listening(
      createServer((_, response) => response.writeHead(status, { 'content-type': type }).end(body)),
    );
    const ended = await runSluice(['check', 'a', 'b', '--url', urlOf(server)]);
    server.close();
    return ended;
  };

  test('a refused connection is reported with how to fix it', async () => {
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
  ])('an answer %i of %s, %s, is told', async (status, type, body, message) => {
    const { code, stdout, stderr } = await answering(status, type, body);
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
      for (const words of [['check', 'few', 'path'], ['inspect', 'few', 'path'], ['top']]) {
        const { code, stderr } = await runSluice([...words, '--url', url]);
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
    '%j is no URL of a service',
    async (url) => {
      const { code, stderr } = await runSluice(['check', 'a', 'b', '--url', url]);
      expect(code).toBe(2);
      expect(stderr).toContain('Expected --url to be a URL such as http://127.0.0.1:8080, got');
    },
  );
});
