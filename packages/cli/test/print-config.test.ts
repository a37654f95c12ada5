import { describe, expect, test } from 'vitest';
import { CONTROL, runSluice, scratch } from './running.ts';

const file = scratch();
const TOKEN = 'a-token-with-enough-letters';

const print = (args: readonly string[], variables = {}) =>
  runSluice(['serve', '--print-config', ...args], variables);
const settingsOf = async (args: readonly string[], variables = {}) =>
  JSON.parse((await print([...args, '--json'], variables)).stdout).settings;

describe('sluice serve --print-config', () => {
  test('settings have the precedence flag, variable, file, default', async () => {
    const path = file('all.yaml', 'prefix: "file:"\npolicies: { a: 1/1s }\n');
    const config = ['--config', path];
    const variables = { SLUICE_PREFIX: 'variable:' };
    const ofFlag = await settingsOf([...config, '--prefix', 'flag:'], variables);
    expect(ofFlag.prefix).toEqual({ value: 'flag:', from: 'flag' });
    const ofVariable = await settingsOf(config, variables);
    expect(ofVariable.prefix).toEqual({ value: 'variable:', from: 'environment' });
    const ofFile = await settingsOf(config);
    expect(ofFile.prefix).toEqual({ value: 'file:', from: 'file' });
    expect((await settingsOf([])).prefix).toEqual({ value: 's:', from: 'default' });
  });

  test('serve --print-config prints each setting and the number of policies', async () => {
    const path = file('some.yaml', 'deadline: 20ms\npolicies: { a: 1/1s, b: 2/1s }\n');
    const { code, stdout, stderr } = await print(['--config', path, '--grpc', '127.0.0.1:0']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^listen +127\.0\.0\.1:8080 +default$/m);
    expect(stdout).toMatch(/^grpc +127\.0\.0\.1:0 +flag$/m);
    expect(stdout).toMatch(/^deadline +20 ms +file$/m);
    expect(stdout).toMatch(/^adminToken +- +default$/m);
    expect(stdout).toContain(`\n2 policies, 0 rules from 1 file:\n  ${path}\n`);
    expect(stdout).not.toMatch(CONTROL);
  });

  test('serve --print-config --json prints the files and the number of their entries', async () => {
    const path = file('json.yaml', 'policies: { a: 1/1s }\n');
    const other = file('other.yaml', 'domain: d\ndescriptors: []\n');
    const { code, stdout } = await print(['--config', path, other, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).config).toEqual({
      files: [path, other],
      policies: 1,
      rules: 0,
      domains: 1,
      overrides: 0,
      example: false,
    });
    expect(JSON.parse((await print(['--json'])).stdout).config.example).toBe(true);
  });

  test('serve --print-config prints no secret from a flag, a variable or a file', async () => {
    const inFile = file('secret.yaml', `adminToken: ${TOKEN}\npolicies: { a: 1/1s }\n`);
    const tokenFile = file('token', TOKEN);
    const store = 'redis://me:hunter2@127.0.0.1:1/0';
    const cases: [string[], Record<string, string>][] = [
      [['--admin-token', TOKEN, '--store', store], {}],
      [[], { SLUICE_ADMIN_TOKEN: TOKEN, SLUICE_STORE: store }],
      [['--config', inFile], {}],
      [['--admin-token-file', tokenFile], {}],
    ];
    for (const [args, variables] of cases) {
      for (const form of [[], ['--json']]) {
        const { code, stdout, stderr } = await print([...args, ...form], variables);
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        expect(stdout).not.toMatch(/hunter2|enough-letters/);
        expect(stdout).toContain('***');
      }
    }
    const wrong = await print(['--admin-token', 'hunter2', '--store', 'redsi://a:hunter2@b']);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('Expected --admin-token');
    expect(wrong.stdout + wrong.stderr).not.toContain('hunter2');
  });

  test('serve --print-config prints all problems and exits with 1', async () => {
    const path = file('bad.yaml', 'policies: { a: b }\n');
    const { code, stdout, stderr } = await print(['--config', path, '--drain', 'never']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/bad\.yaml:1:16: Expected .*\nerror: Expected --drain to be a duration/);
  });

  test('serve --print-config warns about a misspelt variable', async () => {
    const { code, stderr } = await print([], { SLUICE_STROE: 'memory' });
    expect(code).toBe(0);
    expect(stderr).toBe('warning: Expected SLUICE_STORE, got the variable SLUICE_STROE\n');
  });
});
