import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { binary, CONTROL, Process, runSluice, scratch } from './running.ts';
import { burst, combinedLog, mixed } from './traffic-logs.ts';

const file = scratch();
const log = file('access.log', combinedLog(mixed()));

describe('sluice suggest', () => {
  test('suggest proposes a limit with its effect in at most 80 columns', async () => {
    const { code, stdout, stderr } = await runSluice(['suggest', log]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).not.toMatch(CONTROL);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^ +1 min +75 +2 +80 +0 \(0%\) +0 \(0%\)$/m);
    expect(stdout).toContain('With fewer than 100 clients, the proposed limits deny none');
    expect(stdout.trimEnd().split('\n').at(-1)).toBe(
      'Use 80 per minute: 0 of 41 clients would be denied.',
    );
    expect(stdout).toMatch(/ <- knee$/m);
    expect(stdout).toMatch(/ <- proposed$/m);
    expect(stdout).not.toMatch(/^ +1 h /m);
    expect(stdout).toMatch(/^policies:\n {2}perMinute:\n {4}limit: 80\n {4}window: 1m\nrules:/m);
  });

  test('the suggested policy is valid and has the predicted effect', async () => {
    const out = join(dirname(log), 'found.yaml');
    const { code, stdout } = await runSluice(['suggest', log, '--window', '90s', '--out', out]);
    expect(code).toBe(0);
    expect(stdout).toContain(`Policy written to ${out}\n`);
    expect((await runSluice(['validate', out])).stdout).toBe(
      '1 file, 1 policy, 1 rule, no problems\n',
    );
    const plan = JSON.parse((await runSluice(['plan', log, '--policy', out, '--json'])).stdout);
    const { windows } = JSON.parse(
      (await runSluice(['suggest', log, '--window', '90s', '--json'])).stdout,
    );
    const [{ proposed, limits }] = windows;
    const predicted = limits.find(({ limit }: { limit: number }) => limit === proposed);
    expect(plan.policies).toMatchObject([{ name: 'per90s', limit: proposed, windowMs: 90_000 }]);
    expect(plan.denied).toMatchObject({
      requests: predicted.deniedRequests,
      clients: predicted.clients,
    });
    expect(
      readFileSync(out, 'utf8')
        .split('\n')
        .every(({ length }) => length <= 80),
    ).toBe(true);
    expect(readdirSync(dirname(out)).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  test('suggest --report writes an HTML file', async () => {
    const page = join(dirname(log), 'suggest.html');
    expect((await runSluice(['suggest', log, '--report', page])).code).toBe(0);
    expect(readFileSync(page, 'utf8')).toContain('perMinute');
  });

  test('suggest reports a policy file that cannot be written and creates no folder', async () => {
    const out = join(dirname(log), 'no', 'such', 'folder.yaml');
    const { code, stderr } = await runSluice(['suggest', log, '--out', out]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: Expected to write `\S+folder\.yaml`, got no such folder/);
    expect(existsSync(dirname(out))).toBe(false);
  });

  test('suggest reads standard input twice and deletes its temporary file', async () => {
    const TMPDIR = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
    const command = `cat '${log}' | '${process.execPath}' '${binary}' suggest - --json`;
    const { stdout, stderr } = await new Process('bash', ['-c', command], { TMPDIR }).ended;
    expect(stderr).toBe('');
    const direct = JSON.parse((await runSluice(['suggest', log, '--json'])).stdout);
    const { log: facts, ...piped } = JSON.parse(stdout);
    expect(facts.paths).toEqual(['-']);
    expect({ ...piped, log: direct.log }).toEqual(direct);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });

  test('suggest rejects a log shorter than the window', async () => {
    const { code, stderr } = await runSluice(['suggest', log, '--window', '1d']);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: Expected a log longer than the window, got a log of 4 min 49 s\n$/,
    );
    const instant = file('instant.log', combinedLog(burst(5, 1)));
    expect((await runSluice(['suggest', instant])).stderr).toMatch(
      /Expected a log longer than one second, got a log of 0 ms/,
    );
  });
});
