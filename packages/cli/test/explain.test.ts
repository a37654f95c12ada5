import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CONTROL, type Ended, runSluice, type Serving, scratch, serving } from './running.ts';
import { burst, combinedLog, mixed } from './traffic-logs.ts';

const file = scratch();
const log = file('access.log', combinedLog(mixed()));
const CLIENT = ['--client', '198.51.100.7'];

const isWellFormed = ({ stdout }: Ended): void => {
  expect(stdout).not.toMatch(CONTROL);
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
};

describe('sluice explain with a log', () => {
  test('explain draws the window of the first denial and the comparison', async () => {
    const ended = await runSluice(['explain', log, '--limit', '30/1m', ...CLIENT]);
    expect(ended.code).toBe(1);
    isWellFormed(ended);
    expect(ended.stdout).toContain('time        2026-10-10 12:00:24 UTC\n');
    expect(ended.stdout).toContain('decision    denied; fits in 36 s, at 12:01:00\n');
    expect(ended.stdout).toMatch(
      /^admitted {4}[·▁-█]{68}\ndenied {6}·{67}[▁-█]\n {12}1 min ago +now$/m,
    );
    expect(ended.stdout).toContain('comparison  30 + 1 = 31 > 30\n');
    expect(ended.stdout).toContain('oldest entry, of cost 2, expires in 36 s\n');
  });

  test.each([
    ['sliding-buckets', 'comparison  30 + 1 = 31 > 30', 'in buckets of 1 s'],
    [
      'sliding-counter',
      'comparison  0 x 36000 / 60000 + 30 + 1 = 31 > 30',
      'from the previous one',
    ],
    ['fixed-window', 'comparison  30 + 1 = 31 > 30', 'the next window begins in 36 s'],
    ['token-bucket', 'comparison  0.5 < 1', '30 refill per 1 min'],
  ])('explain shows the first denial by %s as: %s', async (algorithm, sum, args) => {
    const given = ['explain', log, '--limit', '30/1m', ...CLIENT, '--algorithm', algorithm];
    const ended = await runSluice(given);
    isWellFormed(ended);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toContain(`${sum}\n`);
    expect(ended.stdout.replace(/\n {12}/g, ' ')).toContain(args);
  });

  test('explain --at shows the decision at a given time', async () => {
    const at = ['--at', '2026-10-10T12:00:10Z'];
    const ended = await runSluice(['explain', log, '--limit', '30/1m', ...CLIENT, ...at]);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toMatch(/^decision {4}allowed, \d+ remaining after it$/m);
    const json = await runSluice(['explain', log, '--limit', '30/1m', ...CLIENT, ...at, '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      kind: 'explain',
      allowed: true,
      inLog: true,
    });
  });

  test('explain --client accepts any spelling of an IPv6 address', async () => {
    const six = file('six.log', combinedLog(burst(9, 9, { client: '2001:db8::1' })));
    const ended = await runSluice([
      'explain',
      six,
      '--limit',
      '5/1m',
      '--client',
      '2001:DB8:0::77',
    ]);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toContain('key         2001:db8::/64\n');
  });

  test.each([
    [[log], /Expected --limit, such as 100\/1m, and --client, such as .+ got none/],
    [[log, '--limit', '10/1m'], /Expected --client, such as 198\.51\.100\.7, with a log, got none/],
    [[log, ...CLIENT], /Expected --limit, such as 100\/1m, with a log, got none/],
    [[log, '--limit', '1/1m', '--client', '192.0.2.1'], /Expected requests of `192\.0\.2\.1`/],
    [[log, '--limit', '1/1m', '--client', 'x', '--at', 'noon'], /Expected a time such as/],
    [[], /Expected one of a log, --policy \(with --key\) or --headers/],
    [[log, '--policy', 'x', '--key', 'y'], /Expected one of a log/],
  ])('explain with the arguments %j is rejected', async (args, why) => {
    const { code, stdout, stderr } = await runSluice(['explain', ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(why);
  });
});

describe('sluice explain with a service', () => {
  let service: Serving;
  beforeAll(async () => {
    service = await serving();
  });
  afterAll(async () => {
    await service?.stop();
  });
  const run = (...args: string[]): Promise<Ended> => runSluice(args, { SLUICE_URL: service.url });

  test('explain shows why the next call is denied and charges nothing', async () => {
    await run('check', 'perMinute', 'user:42', '--cost', '10');
    for (let turn = 0; turn < 2; turn++) {
      const ended = await run('explain', '--policy', 'perMinute', '--key', 'user:42');
      isWellFormed(ended);
      expect(ended.code).toBe(1);
      expect(ended.stdout).toContain('limit       perMinute: 10 in 1 min, sliding-log\n');
      expect(ended.stdout).toMatch(/^decision {4}would be denied; fits in [\d. a-z]+, at /m);
      expect(ended.stdout).toContain('comparison  10 + 1 = 11 > 10\n');
    }
  });

  test('explain shows an unused key of a token bucket', async () => {
    const tokens = await run('explain', '--policy', 'steady', '--key', 'x');
    isWellFormed(tokens);
    expect(tokens.stdout).toContain('steady: 10 in 1 s, burst 20, token-bucket\n');
    expect(tokens.stdout).toContain('comparison  20 >= 1\n');
    expect(tokens.code).toBe(0);
  });

  test('explain --json prints the parameters and the state of the key', async () => {
    const { stdout } = await run('explain', '--policy', 'daily', '--key', 'team:7', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      ...{
        algorithm: 'sliding-buckets',
        limit: 5000,
        bucketMs: 900_000,
        allowed: true,
        entries: [],
      },
    });
  });

  test('explain rejects a missing key and an unknown policy', async () => {
    expect((await run('explain', '--policy', 'perMinute')).stderr).toMatch(/Expected --key/);
    const { code, stderr } = await run('explain', '--policy', 'none', '--key', 'x');
    expect(code).toBe(2);
    expect(stderr).toMatch(/ERR_UNKNOWN_POLICY/);
  });
});

describe('sluice explain with headers', () => {
  test.each([
    [
      ['RateLimit: "perMinute";r=0;t=12', 'RateLimit-Policy: "perMinute";q=100;w=60'],
      1,
      ['policies    perMinute: 100 in 1 min', 'limits      perMinute: 0 remaining, resets in 12 s'],
    ],
    [['HTTP/1.1 429 Too Many Requests\r\nRetry-After: 90\r\nDate: x'], 1, ['retry       in 90 s']],
    [
      ['x-ratelimit-limit: 60\nx-ratelimit-remaining: 7\nx-ratelimit-reset: 30'],
      0,
      ['limits      7 of 60 remaining, resets in 30 s', 'format      X-RateLimit'],
    ],
    [['RateLimit: limit=100, remaining=50, reset=30'], 0, ['limits      50 of 100 remaining']],
  ])('explain reads the headers %j and exits with %i', async (headers, code, lines) => {
    const args = headers.flatMap((header) => ['--headers', header]);
    const ended = await runSluice(['explain', ...args]);
    isWellFormed(ended);
    expect(ended.code).toBe(code);
    for (const line of lines) expect(ended.stdout).toContain(line);
  });

  test('explain rejects headers without rate limits', async () => {
    const { code, stderr } = await runSluice(['explain', '--headers', 'Server: x\u001b[31m']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: Expected headers such as /);
    expect(stderr.replaceAll('\n', '')).not.toMatch(CONTROL);
  });
});
