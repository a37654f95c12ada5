import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { binary, CONTROL, onTerminal, Process, runSluice, scratch } from './running.ts';

const file = scratch();

const OWN = `policies:
  perMinute: 100/1m
  perDay: { limit: 9500, window: 1d }
rules:
  - match: { path: /api/** }
    limits: [{ policy: perMinute }]
`;
const ENVOYS = `domain: shop
descriptors:
  - key: path
    rate_limit: { unit: second, requests_per_unit: 10 }
`;
const WRONG = `policies:
  perMinute: 100/1x
rules:
  - limits: [{ policy: perHour }]
`;

describe('sluice validate', () => {
  test('validate counts the policies and rules of Sluice and Envoy files', async () => {
    const paths = [file('own.yaml', OWN), file('envoys.yaml', ENVOYS)];
    expect(await runSluice(['validate', ...paths])).toEqual({
      code: 0,
      stdout: '2 files, 3 policies, 1 rule, 1 domain, no problems\n',
      stderr: '',
    });
    expect(JSON.parse((await runSluice(['validate', '--json', ...paths])).stdout)).toEqual({
      ok: true,
      files: paths,
      policies: 3,
      rules: 1,
      domains: 1,
      overrides: 0,
      problems: [],
      warnings: [],
    });
  });

  test('the example configurations are valid', async () => {
    for (const path of ['packages/server/config/example.yaml', 'examples/proxies/sluice.yaml']) {
      const { code, stdout, stderr } = await runSluice(['validate', path]);
      expect(stdout).toMatch(/^1 file, .* no problems\n$/);
      expect([code, stderr]).toEqual([0, '']);
    }
  });

  test('validate warns about keys that clients can invent and exits with 0', async () => {
    const rules = 'rules:\n  - limits: [{ policy: perMinute, key: header:x-api-key | address }]\n';
    const path = file('keys.txt', `policies:\n  perMinute: 100/1m\n${rules}`);
    const { code, stdout, stderr } = await runSluice(['validate', path]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/no problems\n.*keys\.txt:4:40: Expected also a limit with key/);
    expect(stderr).toBe('1 warning\n');
    const { warnings, ok } = JSON.parse((await runSluice(['validate', '--json', path])).stdout);
    expect([ok, warnings]).toEqual([true, [expect.objectContaining({ line: 4, column: 40 })]]);
  });

  test('validate reads all files of a folder', async () => {
    file('envoys.yaml', ENVOYS);
    const folder = dirname(file('own.yaml', OWN));
    const { stdout } = await runSluice(['validate', folder]);
    expect(stdout).toMatch(/^2 files, 3 policies, /);
  });

  test('validate reports every problem with its position and exits with 1', async () => {
    const wrong = file('wrong.txt', WRONG);
    const absent = `${wrong}.absent`;
    const { code, stdout, stderr } = await runSluice(['validate', wrong, absent]);
    expect(code).toBe(1);
    const lines = stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/wrong\.txt:2:14: Expected /);
    expect(lines.join('\n')).toMatch(/\.absent:1:1: Expected a file or folder, got ENOENT/);
    expect(stdout).not.toMatch(CONTROL);
    expect(stderr).toBe(`error: ${lines.length} problems\n`);
    const { stdout: json, code: codeOfJson } = await runSluice([
      'validate',
      '--json',
      wrong,
      absent,
    ]);
    expect(codeOfJson).toBe(1);
    const { ok, problems } = JSON.parse(json);
    expect(ok).toBe(false);
    expect(problems).toHaveLength(lines.length);
    expect(problems[0]).toMatchObject({ file: wrong, line: 2, column: 14 });
  });

  test('validate shows the line and column of a problem on a terminal', async () => {
    const wrong = file('wrong.txt', WRONG);
    const { stdout } = await onTerminal(['validate', wrong], { NO_COLOR: '1' }).ended;
    expect(stdout.replaceAll('\r', '')).toContain(
      '  2 |   perMinute: 100/1x\n    |              ^\n',
    );
  });

  test('validate shows the part of a long line around the problem', async () => {
    const long = `policies: { a: ${' '.repeat(300)} 100/1x }\n`;
    const { stdout } = await onTerminal(['validate', file('long.txt', long)], { NO_COLOR: '1' })
      .ended;
    const lines = stdout.split(/\r?\n/);
    const at = lines.findIndex((line) => line.startsWith('  1 | '));
    expect(lines[at].length).toBeLessThanOrEqual(82);
    expect(lines[at][lines[at + 1].indexOf('^')]).toBe('1');
  });

  test('validate escapes control characters of a file', async () => {
    const hostile = file('hostile.txt', 'policies: { a: "100/1x\u001b[2J\\u001b[31m" }\n');
    const { code, stdout } = await onTerminal(['validate', hostile], { NO_COLOR: '1' }).ended;
    expect(stdout).toContain('Expected');
    expect(stdout.replaceAll('\r', '')).not.toMatch(CONTROL);
    expect(code).toBe(1);
  });

  test('validate --schema prints the JSON Schema of the files', async () => {
    const { code, stdout } = await runSluice(['validate', '--schema']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toHaveProperty('properties.policies');
  });

  test('validate exits with 0 if the reader closes the pipe early', async () => {
    // `true` exits before anything is written.
    const command = `'${process.execPath}' '${binary}' validate --schema | true`;
    const { code, stderr } = await new Process('bash', ['-c', command], {}).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});
