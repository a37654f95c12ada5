import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readMetrics } from '../src/top/metrics.ts';
import { cutTo, fitRight, fitTo, sparkline, widthOf } from '../src/top/text.ts';
import { CONTROL, runSluice, type Serving, scratch, serving } from './running.ts';
import { onTerminalOf } from './terminal.ts';

const file = scratch();

const limits = file(
  'limits.yaml',
  `policies:
  perMinute: 3/1m
  watched: { limit: 2, window: 1h, shadow: true }
  ${'a-policy-with-a-name-that-is-much-too-long-for-a-column'}: 1000/1d
`,
);

const NASTY = 'evil\u001b[2J\u0007\u202etxt\nname';

async function check(url: string, policy: string, key: string, times = 1): Promise<void> {
  for (let call = 0; call < times; call++) {
    const body = JSON.stringify({ policy, key });
    const answer = await fetch(`${url}/v1/check`, { method: 'POST', body });
    if (!answer.ok) throw new Error(await answer.text());
  }
}

test('top shows denials of blocked keys, and the limit of a concurrency policy', async () => {
  const text = `policies:
  logins: { limit: 1, window: 1m, block: 15m }
  jobs: { concurrency: 20 }
`;
  const service = await serving(['--config', file('blocks.yaml', text)]);
  await check(service.url, 'logins', 'eve', 3);
  const { stdout } = await runSluice(['top', '--url', service.url, '--once']);
  await service.stop();
  expect(stdout).toContain('  2 denied by blocks  ');
  expect(stdout).toMatch(/^jobs +20 at a time /m);
  expect(stdout).toMatch(/^ +2 {2}logins +eve$/m);
});

describe('sluice top', () => {
  let service: Serving;
  beforeAll(async () => {
    service = await serving(['--config', limits, '--admin-token', 'sixteen-letters-1']);
    await check(service.url, 'perMinute', 'user:42', 10);
    await check(service.url, 'perMinute', NASTY, 5);
    await check(service.url, 'watched', '2001:db8:85a3::8a2e:370:7334', 4);
  });
  afterAll(async () => {
    await service?.stop();
  });

  const asked = (...words: string[]): string[] => [
    'top',
    ...['--url', service.url, '--token', 'sixteen-letters-1', '--interval', '300ms', ...words],
  ];

  test('top prints one report without a terminal and exits', async () => {
    const { code, stdout, stderr } = await runSluice(asked());
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    const lines = stdout.trimEnd().split('\n');
    for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(80);
    expect(lines[0]).toMatch(/^sluice top {2}http:\S+ {2}ready +\d\d:\d\d:\d\d UTC$/);
    expect(lines[1]).toMatch(/^store up {2}3 keys {2}config ok {2}sluice \d/);
    expect(stdout).toMatch(/^perMinute +3 in 1 min +0 +0$/m);
    expect(stdout).toMatch(/^watched \(shadow\) +2 in 1 h +0 +0$/m);
    expect(stdout).toMatch(/^a-policy-with-a-name… +1,000 in 1 d +0 +0$/m);
    const [, denied, allowed] = stdout.split(/^ +(?:denied|allowed) +policy +key$/m);
    expect(denied.trim().split('\n')).toEqual([
      expect.stringMatching(/^7 +perMinute +user:42$/),
      expect.stringMatching(
        /^ +2 +perMinute +evil\\u\{1b\}\[2J\\u\{7\}\\u\{202e\}txt\\u\{a\}name$/,
      ),
      expect.stringMatching(/^ +2 +watched +2001:db8:85a3::8a2e:370:7334$/),
    ]);
    expect(allowed.trim().split('\n')).toHaveLength(3);
  });

  test('top --json prints the counters and the most denied keys', async () => {
    const { code, stdout } = await runSluice(asked('--json'));
    expect(code).toBe(0);
    const board = JSON.parse(stdout);
    expect(board).toMatchObject({ ready: true, storeUp: true, configOk: true, degraded: 0 });
    expect(board.policies).toContainEqual({
      name: 'perMinute',
      limit: 3,
      windowMs: 60_000,
      algorithm: 'sliding-log',
      shadow: false,
      allowed: 6,
      denied: 9,
      allowedPerSecond: 0,
      deniedPerSecond: 0,
      rates: { allowed: [0], denied: [0] },
    });
    expect(board.mostDenied[0]).toEqual({
      policy: 'perMinute',
      key: 'user:42',
      atLeast: 7,
      atMost: 7,
    });
    expect(board.mostDenied).toContainEqual(expect.objectContaining({ key: NASTY }));
  });

  test('top shows current decisions per second', async () => {
    const { url } = service;
    const board = runSluice(asked('--json', '--interval', '1500ms'));
    let isOver = false;
    board.finally(() => {
      isOver = true;
    });
    while (!isOver) await check(url, 'perMinute', 'busy', 1);
    const { policies } = JSON.parse((await board).stdout);
    const { deniedPerSecond } = policies.find(({ name }: { name: string }) => name === 'perMinute');
    expect(deniedPerSecond).toBeGreaterThan(1);
  });

  test('top redraws an alternate screen until q, then restores the terminal', async () => {
    const shown = onTerminalOf(80, 24, asked());
    await shown.shows(/perMinute +3 in 1 min/);
    expect(shown.terminal.isOtherScreen).toBe(true);
    expect(shown.terminal.isCursorHidden).toBe(true);
    let isOver = false;
    const busy = (async () => {
      while (!isOver) await check(service.url, 'perMinute', 'busy2', 2);
    })();
    try {
      await shown.shows(/perMinute +3 in 1 min +\d.*[▁▂▃▄▅▆▇█]/);
      await shown.shows(/perMinute +busy2/);
    } finally {
      isOver = true;
    }
    await busy;
    await shown.resize(60, 16);
    await check(service.url, 'perMinute', 'after-resizing', 9);
    await shown.shows(/perMinute +after-resizing/);
    expect(shown.terminal.lines.length).toBeLessThanOrEqual(16);
    expect(shown.terminal.lines[0]).toHaveLength(60);
    expect(shown.terminal.wrapped).toBe(0);
    shown.type('q');
    expect(await shown.code).toBe(0);
    expect(shown.terminal.isOtherScreen).toBe(false);
    expect(shown.terminal.isCursorHidden).toBe(false);
    expect(shown.terminal.lines.join('')).toBe('');
  });

  test('Ctrl-C ends top, and top --once prints on the normal screen', async () => {
    const shown = onTerminalOf(100, 30, asked(), { NO_COLOR: '1' });
    await shown.shows(/perMinute +3 in 1 min/);
    expect([...shown.terminal.styles]).toEqual([]);
    shown.type('\u0003');
    expect(await shown.code).toBe(0);
    expect(shown.terminal.isOtherScreen).toBe(false);
    const once = onTerminalOf(80, 60, asked('--once'));
    expect(await once.code).toBe(0);
    expect(once.terminal.lines.join('\n')).toMatch(/perMinute +3 in 1 min/);
  });

  test('top shows that the service is unreachable, and its data after a restart', async () => {
    const first = await serving(['--config', limits]);
    const { port } = new URL(first.url);
    const shown = onTerminalOf(80, 24, ['top', '--url', first.url, '--interval', '200ms']);
    await shown.shows(/ready/);
    await first.stop();
    await shown.shows(/unreachable[\s\S]*Connection refused by/);
    const second = await serving(['--config', limits, '--listen', `127.0.0.1:${port}`]);
    await shown.shows(/ {2}ready/);
    shown.type('q');
    expect(await shown.code).toBe(0);
    await second.stop();
  });

  test('top rejects a missing token, an unreachable service and a short interval', async () => {
    const { code, stdout, stderr } = await runSluice(['top', '--url', service.url]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Admin token required');
    const refused = await runSluice(['top', '--url', 'http://127.0.0.1:1']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('Connection refused by http://127.0.0.1:1');
    const hasty = await runSluice(asked('--interval', '1ms'));
    expect(hasty.code).toBe(2);
    expect(hasty.stderr).toContain('Expected --interval to be at least 100ms');
  });
});

describe('sluice top with another HTTP server', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = createServer((_, response) => response.end('hello'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  test('top rejects a server that is not a Sluice service', async () => {
    const { code, stderr } = await runSluice(['top', '--url', url]);
    expect(code).toBe(2);
    expect(stderr).toContain('Expected a Sluice service at');
  });
});

test('readMetrics parses labels with escaped characters', () => {
  const text = [
    '# HELP a_total What it is.',
    'a_total 3',
    'b{policy="x\\"y\\\\z\\n{}, =",outcome="denied"} 1.5e3',
    'b{policy=""} 0',
    'not a metric',
  ].join('\n');
  expect(Object.fromEntries(readMetrics(text))).toEqual({
    a_total: [{ labels: {}, value: 3 }],
    b: [
      { labels: { policy: 'x"y\\z\n{}, =', outcome: 'denied' }, value: 1500 },
      { labels: { policy: '' }, value: 0 },
    ],
  });
});

describe('text in columns', () => {
  const red = '\u001b[31mred\u001b[0m';

  test('a colour has no width, a wide character two columns', () => {
    expect(widthOf(red)).toBe(3);
    expect(widthOf('日本')).toBe(4);
    expect(widthOf('e\u0301')).toBe(1);
  });

  test('cut text keeps the sequence that ends its colour', () => {
    expect(cutTo(red, 3)).toBe(red);
    expect(cutTo(red, 2)).toBe('\u001b[31mr…\u001b[0m');
    expect(cutTo('日本語', 4)).toBe('日…');
    expect(fitTo('ab', 4)).toBe('ab  ');
    expect(fitTo('abcdef', 4)).toBe('abc…');
    expect(fitRight('ab', 4)).toBe('  ab');
  });

  test('a sparkline shows the newest values, with a blank for zero', () => {
    expect(sparkline([0, 1, 50, 100], 6, 100)).toBe('   ▁▄█');
    expect(sparkline([100, 0, 100], 2, 100)).toBe(' █');
    expect(sparkline([], 3, 0)).toBe('   ');
  });
});
