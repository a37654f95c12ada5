/** `sluice demo`, with and without a terminal. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { binary, CONTROL, type Ended, Process, root, runSluice, sluice } from './running.ts';
import { onTerminalOf } from './terminal.ts';

/** Replaces what depends on the machine: the position of the bursts and the wait. */
const withoutTimes = (text: string): string =>
  text
    .replace(/·*([█x])·*│·*([█x])·*/g, '$1 │ $2')
    .replace(/after [\d,]+ ms/g, 'after # ms')
    .replace(/[ \t]+$/gm, '');

const PROOF = /Limit: 50 in 3 s\.[\s\S]*retry after [\d,]+ ms: \w+/;

describe('sluice demo', () => {
  let plain: Ended;
  beforeAll(async () => {
    plain = await sluice(['demo', '--for', '2s']);
  });

  test('demo prints plain lines without a terminal and exits by itself', async () => {
    const { code, stdout, stderr } = plain;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    for (const line of stdout.split('\n')) expect([...line].length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^Sluice listens on http:\/\/127\.0\.0\.1:\d+, /);
    const [, allowed, denied] =
      /: ([\d,]+) allowed, ([\d,]+) denied, the first one after [\d.]+ m?s\./.exec(stdout)!;
    expect(Number(allowed.replace(',', ''))).toBeGreaterThan(100);
    expect(Number(denied.replace(',', ''))).toBeGreaterThan(50);
    // The picture comes before the traffic.
    expect(stdout.indexOf('within the limit')).toBeLessThan(stdout.indexOf('  after '));
    const [, next] = /Next steps:\n([\s\S]+)\n$/.exec(stdout)!;
    const columns = next.split('\n').map((line) => line.split(/ {2,}/));
    expect(columns.map(([, command]) => command)).toEqual([
      'npx sluice demo --keep',
      'npx sluice serve',
      'npx sluice generate abuser --out access.log',
      'npx sluice suggest access.log',
    ]);
    const starts = next.split('\n').map((line, at) => line.indexOf(columns[at][2]));
    expect(new Set(starts).size).toBe(1);
  });

  test('demo prints the comparison at a boundary that README.md shows', () => {
    const [proof] = PROOF.exec(plain.stdout)!;
    expect(proof).toMatch(/fixed-window .* 50 before, 50 after\n.* 100: 2 x the limit\n/);
    expect(proof).toMatch(/sliding-log .* 50 before, 0 after\n.* 50: within the limit\n/);
    expect(proof).toMatch(/retry after [\d,]+ ms: allowed$/);
    const [readme] = PROOF.exec(readFileSync(`${root}README.md`, 'utf8'))!;
    expect(withoutTimes(proof)).toBe(withoutTimes(readme));
  });

  test('demo --json prints the counts and the comparison at a boundary', async () => {
    const { code, stdout } = await sluice(['demo', '--for', '1s', '--json']);
    expect(code).toBe(0);
    const result = JSON.parse(stdout);
    expect(result.allowed + result.denied).toBe(result.requests);
    expect(result).toMatchObject({ kind: 'demo', isShown: true });
    expect(result.deniedClients[0].denied).toBeLessThanOrEqual(result.denied);
    const atMs = [expect.any(Number), expect.any(Number)];
    const common = { limit: 50, windowMs: 3000, sent: [50, 50], atMs };
    expect(result.boundary).toEqual([
      { algorithm: 'fixed-window', ...common, passed: [50, 50] },
      {
        algorithm: 'sliding-log',
        ...common,
        passed: [50, 0],
        retryAfterMs: expect.any(Number),
        retryAllowed: true,
      },
    ]);
  });

  test('demo redraws in place on a terminal and restores the cursor', async () => {
    const shown = onTerminalOf(80, 30, ['demo', '--for', '1s']);
    await shown.shows(
      /Try it:\n {2}http:\/\/127\.0\.0\.1:\d+\/dashboard\/\n {2}curl -i '127\.0\.0\.1:/,
    );
    expect(shown.terminal.isCursorHidden).toBe(true);
    expect(await shown.code).toBe(0);
    const { terminal } = shown;
    expect(terminal.wrapped).toBe(0);
    expect(terminal.isCursorHidden).toBe(false);
    expect(terminal.isOtherScreen).toBe(false);
    const text = terminal.lines.join('\n');
    expect(text.match(/Sluice listens on/g)).toHaveLength(1);
    expect(text).toMatch(/admitted +█{20}┃█{20} {2}100: 2 x the limit/);
    expect(text).toMatch(/admitted +█{20}┃ +50: within the limit/);
    expect(text).toContain('Next steps:');
    expect([...terminal.styles].sort()).toEqual(['0', '1', '2', '31', '32']);
  });

  test('demo fits a small terminal and prints no colours with NO_COLOR', async () => {
    const shown = onTerminalOf(50, 12, ['demo', '--for', '1s'], { NO_COLOR: '1' });
    await shown.shows(/fixed-window/);
    expect(shown.terminal.wrapped).toBe(0);
    shown.type('\u0003');
    expect(await shown.code).toBe(0);
    expect([...shown.terminal.styles]).toEqual([]);
  });

  test('demo runs until Ctrl-C on a terminal, then prints a summary', async () => {
    const shown = onTerminalOf(80, 30, ['demo']);
    const text = await shown.shows(/most denied +10\./);
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(text)!;
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    shown.type('\u0003');
    expect(await shown.code).toBe(0);
    expect(shown.terminal.isCursorHidden).toBe(false);
    expect(shown.terminal.lines.join('\n')).toMatch(/\d+ requests in .* allowed/);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });

  test('demo --keep continues until a signal', async () => {
    const words = [binary, 'demo', '--for', '1s', '--keep'];
    const running = new Process(process.execPath, words, {});
    const [, url] = await running.printed(/listens on (\S+),/);
    await running.printed(/retry after [\d,]+ ms: allowed[\s\S]*Try it:[\s\S]*Press Ctrl-C/);
    const top = `${url}/v1/top?policy=each&by=denied&count=1`;
    const hits = async (): Promise<number> => {
      const body = (await (await fetch(top)).json()) as { hits: number };
      return body.hits;
    };
    const before = await hits();
    while ((await hits()) <= before) await sleep(50);
    const { code, stdout, stderr } = await running.stop();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('Next steps:');
  });

  test('demo rejects a port in use and a public address', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const taken = await runSluice(['demo', '--listen', `127.0.0.1:${port}`]);
    server.close();
    expect(taken.code).toBe(2);
    expect(taken.stderr).toContain('is in use');
    const open = await runSluice(['demo', '--listen', '0.0.0.0:9555']);
    expect(open.code).toBe(2);
    expect(open.stderr).toBe(
      'error: Expected --listen to be a loopback address, such as 127.0.0.1:9555, got ' +
        '`0.0.0.0:9555`: the demo has no admin token\n',
    );
    expect((await runSluice(['demo', '--help'])).stdout).toMatch(/loopback\s+address/i);
    const wrong = await runSluice(['demo', '--for', 'ever']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('Expected a duration such as');
  });
});

test('npm run demo runs sluice demo', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  expect(scripts.demo).toMatch(/node packages\/cli\/bin\/sluice\.mjs demo$/);
});
