/** Logs out of order: sorted in memory, or marked as unreliable. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { binary, runSluice, scratch } from './running.ts';
import { burst, combinedLog, mixed } from './traffic-logs.ts';

const file = scratch();
const lines = combinedLog(mixed()).trimEnd().split('\n');
const jumbled = lines.map((_, at) => lines[(at * 7919) % lines.length]);
const ordered = file('ordered.log', `${lines.join('\n')}\n`);
const mixedUp = file('mixed up.log', `${jumbled.join('\n')}\n`);
const LIMIT = ['--limit', '5/min'];

/** Resolves to the result, with the fields about the log file apart. */
async function resultOf(command: string, path: string, ...flags: readonly string[]) {
  const { code, stdout, stderr } = await runSluice([command, path, ...flags, '--json']);
  const { log, ...result } = JSON.parse(stdout);
  return { code, stderr, log, result };
}

describe('a log out of order', () => {
  test.each([
    ['plan', LIMIT],
    ['suggest', []],
    ['compare', LIMIT],
  ])(
    '%s of a log out of order has the same result as of the sorted log',
    async (command, flags) => {
      const [one, other] = [
        await resultOf(command, ordered, ...flags),
        await resultOf(command, mixedUp, ...flags),
      ];
      expect(other.log).toMatchObject({ late: 0, unreliable: false });
      expect(other.result).toEqual(one.result);
    },
  );

  test('more than 1 % late lines are marked as unreliable in text, JSON and HTML', async () => {
    const page = join(dirname(ordered), 'late.html');
    const late = ['--lateness', '1s'];
    const text = await runSluice(['plan', mixedUp, ...LIMIT, ...late, '--report', page]);
    expect(text.code).toBe(0);
    expect(text.stdout).toMatch(/^warning {5}unreliable: [\d,]+ of [\d,]+ lines \(/m);
    expect((await resultOf('suggest', mixedUp, ...late)).log.unreliable).toBe(true);
    expect(readFileSync(page, 'utf8')).toContain('<b>Unreliable: </b>');
  });

  test('plan with a threshold exits with 1 if the result is unreliable', async () => {
    const flags = [...LIMIT, '--max-denied-clients', '100%'];
    expect((await resultOf('plan', mixedUp, ...flags)).code).toBe(0);
    const failed = await resultOf('plan', mixedUp, ...flags, '--lateness', '1s');
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/^error: The plan is unreliable: /);
  });

  test('the sort command that plan prints sorts the log', async () => {
    const { log } = await resultOf('plan', mixedUp, ...LIMIT, '--lateness', '1s');
    const cwd = mkdtempSync(join(dirname(ordered), 'sorted-'));
    execFileSync('sh', ['-c', log.sortCommand], { cwd });
    const times = (text: string) => text.split('\n').map((line) => /\[(.*?)\]/.exec(line)?.[1]);
    const sorted = readFileSync(join(cwd, 'sorted.log'), 'utf8');
    expect(times(sorted)).toEqual(times(readFileSync(ordered, 'utf8')));
    expect(sorted.split('\n').sort()).toEqual(readFileSync(ordered, 'utf8').split('\n').sort());
  });

  test.each([
    ['{"ts":1791640536.5,"client":"a","n":1}', '{"ts":1791640535.25,"client":"a","n":2}'],
    ['x 2026-10-10T13:55:36Z stdout F a', 'x 2026-10-09T13:55:36Z stdout F a'],
    ['2026-10-10 13:55:36 1.2.3.4', '2026-10-10 13:55:35 1.2.3.4'],
  ])('the sort command sorts lines such as %s', async (later, earlier) => {
    const { sortCommand } = await import('../src/traffic/sort-command.ts');
    const path = file('two.log', `#Fields: a\n${later}\n${earlier}\n`);
    const cwd = mkdtempSync(join(dirname(path), 'two-'));
    execFileSync('sh', ['-c', sortCommand([path], later)!], { cwd });
    expect(readFileSync(join(cwd, 'sorted.log'), 'utf8')).toBe(
      `#Fields: a\n${earlier}\n${later}\n`,
    );
  });
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'suggest deletes its copy of standard input on %s',
  async (signal) => {
    const temporary = mkdtempSync(join(tmpdir(), 'sluice-spool-test-'));
    const child = spawn(process.execPath, [binary, 'suggest', '-'], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    child.stdin.write(combinedLog(burst(5, 5)));
    while (readdirSync(temporary).length === 0) await sleep(20);
    const ended = new Promise((resolve) => {
      child.once('exit', (_, by) => resolve(by));
    });
    child.kill(signal);
    expect(await ended).toBe(signal);
    expect(readdirSync(temporary)).toEqual([]);
  },
);
