import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { binary, CONTROL, onTerminal, Process, runSluice, scratch } from './running.ts';
import { burst, combinedLog, mixed, NOON_MS } from './traffic-logs.ts';

const file = scratch();
const log = file('access.log', combinedLog(mixed()));
const next = file('new.yaml', 'policies:\n  perMinute: 30/1m\n');

const planned = async (args: readonly string[]) => {
  const { stdout, stderr, code } = await runSluice(['plan', ...args, '--json']);
  expect(stderr).toBe('');
  return { code, ...JSON.parse(stdout) };
};

describe('sluice plan', () => {
  test('plan lists the clients that would be denied in at most 80 columns', async () => {
    const { code, stdout, stderr } = await runSluice(['plan', log, '--policy', next]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toContain('traffic     540 requests from 41 clients\n');
    expect(stdout).toMatch(
      /denied {6}\d+ requests \(\d+\.?\d*%\)\n {12}1 client \(2\.4%\), 0 of them/,
    );
    expect(stdout).toContain('ordinary: all but the heaviest 1% by requests; at most 6 requests\n');
    expect(stdout).toMatch(/^198\.51\.100\.7 +\d+ +300 +2026-10-10 12:00:24 +perMinute$/m);
    expect(stdout).toMatch(/GET \/api\/orders\/:id$/m);
  });

  test('plan --json prints only the result', async () => {
    const result = await planned([log, '--policy', next]);
    expect(result).toMatchObject({
      kind: 'plan',
      requests: 540,
      clients: 41,
      denied: { clients: 1, ordinaryClients: 0 },
      topClients: [{ client: '198.51.100.7', requests: 300, firstMs: NOON_MS + 24_000 }],
      policies: [{ name: 'perMinute', algorithm: 'sliding-log', limit: 30, windowMs: 60_000 }],
      log: { paths: [log], format: 'combined', lines: 540, unreadable: 0 },
      thresholds: [],
    });
    // 30 in each of the four minutes.
    expect(result.denied.requests).toBe(300 - 4 * 30);
  });

  test('plan with a limit that is high enough denies no client', async () => {
    const wide = file('wide.yaml', 'policies:\n  perMinute: 3000/1m\n');
    const { code, stdout } = await runSluice(['plan', log, '--policy', wide]);
    expect(code).toBe(0);
    expect(stdout).toContain('denied      none\n');
  });

  test('plan exits with 1 and reports the threshold only if one is exceeded', async () => {
    const ended = (...args: string[]) => runSluice(['plan', log, '--policy', next, ...args]);
    const many = await ended('--max-denied-clients', '2%', '--max-denied-requests', '1%');
    expect(many.code).toBe(1);
    expect(many.stderr).toBe(
      'error: 1 of 41 clients are denied (2.4%), more than --max-denied-clients 2%\n' +
        'error: 180 of 540 requests are denied (33.3%), more than --max-denied-requests\n1%\n',
    );
    expect((await ended('--max-denied-clients', '1')).code).toBe(0);
    expect((await ended('--max-denied-clients', '0')).code).toBe(1);
    expect((await ended('--max-denied-requests', '34%')).code).toBe(0);
    expect((await ended('--max-denied-ordinary', '0%')).code).toBe(0);
    const json = await planned([log, '--policy', next, '--max-denied-ordinary', '0']);
    expect(json.thresholds).toEqual([
      ...[{ flag: '--max-denied-ordinary', most: '0', what: 'ordinary clients' }].map((each) => ({
        ...each,
        ...{ denied: 0, of: 40, ok: true },
      })),
    ]);
  });

  test.each(['x', '-1', '101%', '1.5', '%', ''])(
    'plan rejects a threshold of `%s`',
    async (text) => {
      const args = ['plan', log, '--policy', next, `--max-denied-clients=${text}`];
      const { code, stderr } = await runSluice(args);
      expect(code).toBe(2);
      expect(stderr).toContain('Expected a percentage such as 0.1%, or a whole number.');
    },
  );

  test('plan --against shows the changes compared with the current policies', async () => {
    const current = file('old.yaml', 'policies:\n  perMinute: 100/1m\n');
    const args = ['plan', log, '--policy', next, '--against', current];
    const { stdout } = await runSluice(args);
    expect(stdout).toContain('current     perMinute 100 in 1 min\n');
    expect(stdout).toContain('requests    0 denied now, 180 planned:\n');
    expect(stdout).toContain('clients     1 (0 ordinary) newly denied\n');
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const back = await planned([log, '--policy', current, '--against', next]);
    expect(back.against).toMatchObject({ requestsWon: 180, requestsLost: 0 });
    expect(back.against.noLongerDeniedClients).toMatchObject([{ client: '198.51.100.7' }]);
  });

  test('plan marks shadow policies, which deny nothing', async () => {
    const shadow = file(
      'shadow.yaml',
      'policies:\n  wide: 500/1m\n  tight: { limit: 30, window: 1m, shadow: true }\n',
    );
    const { stdout } = await runSluice(['plan', log, '--policy', shadow]);
    expect(stdout).toContain('denied      none\n');
    expect(stdout).toMatch(/^tight +30 in 1 min +sliding-log, shadow +180 +1 +0$/m);
  });

  test('plan reads several logs, gzip files and standard input', async () => {
    const packed = file('packed.log.gz', '');
    writeFileSync(packed, gzipSync(readFileSync(log)));
    expect(await planned([packed, '--policy', next])).toMatchObject({ requests: 540 });
    expect(await planned([packed, log, '--policy', next])).toMatchObject({ requests: 1080 });
    const piped = `'${process.execPath}' '${binary}' plan - --policy '${next}' --json`;
    const command = `cat '${log}' | ${piped}`;
    const { stdout } = await new Process('bash', ['-c', command], {}).ended;
    expect(JSON.parse(stdout)).toMatchObject({ requests: 540, log: { paths: ['-'] } });
  });

  test('plan shows progress on a terminal and erases it at the end', async () => {
    const long = file('long.log', combinedLog(burst(60_000, 3600)).repeat(1));
    const { stdout } = await onTerminal(['plan', long, '--policy', next], { NO_COLOR: '1' }).ended;
    expect(stdout).toMatch(/\rread [\d.]+ MB of [\d.]+ MB \([\d.]+%\), [\d,]+ lines\/s/);
    const last = stdout.slice(stdout.lastIndexOf('lines/s') + 'lines/s'.length);
    expect(last).toMatch(/^ *\r +\r/);
  });
});

describe('sluice plan with rules', () => {
  const rules = (text: string): string => file('rules.yaml', text);

  test('in a plan, rules select the policies, keys and costs of requests', async () => {
    const path = rules(`policies:
  api: { limit: 100, window: 1m, costs: { write: 10 } }
  pages: 3/1m
rules:
  - match: { path: /health }
    limits: []
  - match: { path: /api/**, method: POST }
    limits: [{ policy: api, operation: write }]
  - match: { path: /pages/* }
    limits: [{ policy: pages, key: [address, path] }]
`);
    const requests = file(
      'ruled.log',
      combinedLog([
        ...burst(50, 10, { path: '/health' }),
        ...burst(50, 10, { path: '/api/x' }),
        ...burst(12, 12, { path: '/api/x', method: 'POST' }),
        // One too many of each page; another spelling of a path is the same page.
        ...burst(4, 4, { path: '/pages/1' }),
        ...burst(3, 3, { path: '/pages/2' }),
        ...burst(1, 1, { path: '/pages/%32/' }),
      ]),
    );
    const { denied, policies } = await planned([requests, '--policy', path]);
    expect(denied.requests).toBe(2 + 1 + 1);
    expect(policies).toMatchObject([
      { name: 'api', denied: { requests: 2 } },
      { name: 'pages', denied: { requests: 2 } },
    ]);
  });

  test('plan uses the headers in the log and reports missing headers', async () => {
    const path = rules(`policies:
  perAgent: 5/1m
rules:
  - limits: [{ policy: perAgent, key: header:user-agent }]
  - match: { headers: { x-plan: gold } }
    limits: []
`);
    const agents = file(
      'agents.log',
      combinedLog(['a', 'b', 'c'].flatMap((agent) => burst(6, 6, { agent }))),
    );
    const byAgent = await planned([agents, '--policy', path]);
    expect(byAgent.denied.requests).toBe(3);
    expect(byAgent.missingHeaders).toEqual([]);
    const keyed = rules(
      'policies: { a: 5/1m }\nrules: [{ limits: [{ policy: a, key: header:x-key }] }]\n',
    );
    const { stdout } = await runSluice(['plan', agents, '--policy', keyed]);
    expect(stdout).toMatch(/^note {8}No request in the log has x-key, which the rules use/m);
  });

  test('in a plan, overrides apply until they expire in log time', async () => {
    const path = rules(`policies:
  perMinute: 5/1m
overrides:
  - { policy: perMinute, key: 203.0.113.1, limit: 50 }
  - { policy: perMinute, key: 203.0.113.2, limit: 50, expires: 2026-10-10T12:05:00Z }
  - { policy: perMinute, key: '2001*', limit: 7 }
`);
    const clients = ['203.0.113.1', '203.0.113.2', '203.0.113.3', '2001:db8::5'];
    const requests = file(
      'overridden.log',
      combinedLog(
        clients.flatMap((client) => [
          ...burst(10, 10, { client }),
          ...burst(10, 10, { client, at: 600 }),
        ]),
      ),
    );
    const { topClients } = await planned([requests, '--policy', path]);
    const denied = topClients.map(
      ({ client, denied: count }: { client: string; denied: number }) => [client, count],
    );
    expect(Object.fromEntries(denied)).toEqual({
      '203.0.113.3': 10,
      '203.0.113.2': 5,
      '2001:db8::/64': 6,
    });
  });

  test('in a plan, a cost above the override of a key is always denied', async () => {
    const path = rules(`policies:
  api: 100/1m
rules:
  - limits: [{ policy: api, cost: 10 }]
overrides:
  - { policy: api, key: 'address:203.0.113.9', limit: 5 }
`);
    const requests = file('costly.log', combinedLog(burst(3, 300, { client: '203.0.113.9' })));
    const { denied } = await planned([requests, '--policy', path]);
    expect(denied.requests).toBe(3);
  });
});

describe('sluice plan with invalid input', () => {
  const rejected = async (args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await runSluice(['plan', ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr.replaceAll('\n', '')).not.toMatch(CONTROL);
    return stderr;
  };

  test('plan reports problems in policy files with line and column', async () => {
    const wrong = file('wrong.yaml', 'policies:\n  perMinute: 30/1x\n  perHour: 0/1h\n');
    const problems = await rejected([log, '--policy', wrong]);
    expect(problems).toMatch(
      /^error: \S+wrong\.yaml:2:14: Expected .+\nerror: \S+wrong\.yaml:3:12: Expected .+\n$/,
    );
    expect(await rejected([log, '--policy', next, '--against', wrong])).toMatch(/wrong\.yaml:2:14/);
    expect(await rejected([log, '--policy', `${wrong}.absent`])).toMatch(
      /absent:1:1: Expected a file/,
    );
  });

  test('plan rejects a file with only descriptor rules', async () => {
    const envoys = file(
      'envoy.yaml',
      'domain: shop\ndescriptors:\n  - key: path\n' +
        '    rate_limit: { unit: second, requests_per_unit: 1 }\n',
    );
    expect(await rejected([log, '--policy', envoys])).toMatch(
      /^error: Expected request rules in \S+envoy\.yaml, got descriptor rules only/,
    );
  });

  test('plan rejects missing, empty and unrecognized logs', async () => {
    expect(await rejected(['/nowhere.log', '--policy', next])).toMatch(/nowhere\.log/);
    const prose = file('prose.log', 'Dear all,\n\nthis is a letter.\n');
    expect(await rejected([prose, '--policy', next])).toMatch(
      /Expected \S+prose\.log to be in one of/,
    );
    expect(await rejected([file('empty.log', ''), '--policy', next])).toMatch(
      /Expected \S+empty\.log/,
    );
    expect(await rejected([log, '--policy', next, '--format', 'elf'])).toMatch(/--format/);
    expect(await rejected([log, '--policy', next, '--column', 'when'])).toMatch(
      /option '--column <mapping>' argument 'when' is invalid\. Expected PART=NAME/,
    );
    const columns = ['--column', 'time=when', '--column', 'client=who'];
    const other = file('other.csv', 'when,who\n2026-10-10T12:00:00Z,192.0.2.1\n');
    expect(await rejected([other, '--policy', next])).toMatch(
      /got `when,who`\. Name the columns, such as --column time=when --column client=ip\n$/,
    );
    expect((await runSluice(['plan', other, '--policy', next, ...columns])).code).toBe(0);
  });

  test('plan rejects a missing policy or log', async () => {
    expect(await rejected([log])).toMatch(/Expected --policy/);
    expect(await rejected(['--policy', next])).toMatch(/missing required argument 'logs'/);
  });
});

test('plan --report writes the file atomically', async () => {
  const folder = dirname(next);
  const page = join(folder, 'plan.html');
  const { code, stdout } = await runSluice(['plan', log, '--policy', next, '--report', page]);
  expect(code).toBe(0);
  expect(stdout).toContain('denied      180 requests');
  const text = readFileSync(page, 'utf8');
  expect(text).toMatch(/^<!doctype html>/);
  expect(text).toContain('198.51.100.7');
  const nowhere = join(folder, 'no', 'plan.html');
  const failed = await runSluice(['plan', log, '--policy', next, '--report', nowhere]);
  expect(failed.code).toBe(2);
  expect(failed.stderr).toMatch(/Expected to write `\S+plan\.html`, got no such folder \(ENOENT\)/);
  expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([]);
});

test('plan escapes control characters of the log', async () => {
  const hostile = burst(40, 10, { path: '/\u001b[2J\u009b31m/x', client: 'evil\u202e.example' });
  const path = file('hostile.log', combinedLog(hostile));
  const { stdout } = await runSluice(['plan', path, '--policy', next]);
  expect(stdout).not.toMatch(CONTROL);
  expect(stdout).not.toContain('\u202e');
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
});

test('plan counts unreadable lines and shows one', async () => {
  const path = file('partly.log', `${combinedLog(burst(40, 10))}not a log line\n`);
  const { stdout, code } = await runSluice(['plan', path, '--policy', next]);
  expect(code).toBe(0);
  expect(stdout).toContain('1 line unreadable, such as line 41:\n            not a log line\n');
});

test('each of two compared configurations identifies clients by its own IPv6 prefix', async () => {
  const policies = 'policies:\n  perMinute: 10/1m\n';
  const next = file('sixty-four.yaml', policies);
  const current = file('forty-eight.yaml', `ipv6Prefix: 48\n${policies}`);
  const networks = Array.from({ length: 30 }, (_, network) => ({
    at: network,
    client: `2001:db8:1:${network}::1`,
  }));
  const path = file('networks.log', combinedLog(networks));
  const alone = await runSluice(['plan', path, '--policy', current, '--json']);
  expect(JSON.parse(alone.stdout)).toMatchObject({ clients: 1, denied: { requests: 20 } });
  const args = ['plan', path, '--policy', next, '--against', current];
  expect(JSON.parse((await runSluice([...args, '--json'])).stdout)).toMatchObject({
    clients: 30,
    denied: { requests: 0 },
    against: { denied: { requests: 20 }, requestsWon: 20 },
  });
  const { stdout } = await runSluice([...args, '--top', '3']);
  expect(stdout).toContain('\nNo longer denied clients, 3 of 20\n');
});

test('plan reports missing headers of the current policies, and a wrong clock', async () => {
  const current = file(
    'by-header.yaml',
    'policies:\n  perMinute: 10/1m\nrules:\n' +
      '  - limits: [{ policy: perMinute, key: header:x-api-key }]\n',
  );
  const wrong = { at: 400 * 86_400 };
  const lines = combinedLog(burst(300, 300)).split('\n');
  lines.splice(150, 0, combinedLog([wrong]).trim().replace('10/Oct/2026', '10/Oct/2031'));
  const path = file('wrong-clock.log', lines.join('\n'));
  const args = ['plan', path, '--policy', next, '--against', current];
  const { stdout } = await runSluice(args);
  expect(stdout).toContain('No request in the log has x-api-key');
  expect(stdout).toContain('1 line more than a day ahead, replayed with an earlier time\n');
});
