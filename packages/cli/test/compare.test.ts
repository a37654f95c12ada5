import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CONTROL, runSluice, scratch } from './running.ts';
import { burst, combinedLog, mixed } from './traffic-logs.ts';

const file = scratch();
const log = file('access.log', combinedLog(mixed()));
const bursts = file(
  'bursts.log',
  combinedLog([...burst(50, 1, { at: 58 }), ...burst(50, 1, { at: 61 })]),
);

interface Row {
  readonly algorithm: string;
  readonly worst: { readonly multiple: number };
  readonly adversary: { readonly multiple: number };
}

describe('sluice compare', () => {
  test('compare shows five algorithms side by side in at most 80 columns', async () => {
    const { code, stdout, stderr } = await runSluice(['compare', log, '--limit', '30/1m']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^sliding-log +360 +180 +1 +0 +0 +0%$/m);
    expect(stdout).toMatch(/^sliding-counter .* \d+\.?\d*%$/m);
    expect(stdout).toMatch(/^sliding-log +30 +1\.00 x +1\.00 x +\d+ +\d+$/m);
  });

  test('in compare, only fixed-window admits twice the limit around a boundary', async () => {
    const { stdout } = await runSluice(['compare', bursts, '--limit', '50/1m', '--json']);
    const { algorithms } = JSON.parse(stdout) as { algorithms: readonly Row[] };
    const worst = Object.fromEntries(algorithms.map((row) => [row.algorithm, row.worst.multiple]));
    expect(worst['fixed-window']).toBe(2);
    expect(worst['sliding-log']).toBe(1);
    const attacked = Object.fromEntries(
      algorithms.map((row) => [row.algorithm, row.adversary.multiple]),
    );
    expect(attacked['sliding-counter']).toBeGreaterThan(1.9);
    const text = (await runSluice(['compare', bursts, '--limit', '50/1m'])).stdout;
    expect(text).toMatch(/^fixed-window +100 +2026-10-10 12:01:01 +198\.51\.100\.7$/m);
    expect(text).toMatch(/^fixed-window +50 after 59\.999 s, 50 after 60 s$/m);
  });

  test('compare --report writes an HTML file', async () => {
    const page = join(dirname(log), 'compare.html');
    expect((await runSluice(['compare', log, '--limit', '30/1m', '--report', page])).code).toBe(0);
    expect(readFileSync(page, 'utf8')).toContain('sliding-counter');
  });

  test('compare --key counts by path, header or all requests together', async () => {
    const clients = async (key: string): Promise<number> =>
      JSON.parse(
        (await runSluice(['compare', log, '--limit', '9/1m', '--key', key, '--json'])).stdout,
      ).clients;
    expect(await clients('all')).toBe(1);
    expect(await clients('path')).toBe(41);
    expect(await clients('field:user-agent')).toBe(1);
  });

  test.each([
    [['--limit', '30'], /Expected --limit to be a limit such as 100\/1m, got `30`/],
    [['--limit', '0/1m'], /Expected --limit to be a limit such as 100\/1m, got `0\/1m`/],
    [[], /Expected --limit such as 100\/1m, got none/],
    [['--limit', '30/1m', '--key', 'shoe'], /Expected --key to be one of client, user/],
  ])('compare with the options %j is rejected', async (args, why) => {
    const { code, stdout, stderr } = await runSluice(['compare', log, ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(why);
  });
});
