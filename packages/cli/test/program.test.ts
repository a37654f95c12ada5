import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CONTROL, onTerminal, root, runSluice } from './running.ts';

const COMMANDS = [
  ...['demo', 'serve', 'validate', 'check', 'peek', 'reset', 'inspect', 'top', 'generate'],
  ...['plan', 'suggest', 'compare', 'explain'],
];

describe('sluice', () => {
  test('sluice --version prints the version of the package', async () => {
    const { version } = JSON.parse(readFileSync(`${root}packages/cli/package.json`, 'utf8'));
    expect(await runSluice(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  test.each([[['help']], [['--help']], [['-h']]])('sluice %j lists the commands', async (args) => {
    const { code, stdout, stderr } = await runSluice(args);
    expect(code).toBe(0);
    expect(stderr).toBe('');
    for (const name of COMMANDS) {
      expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
    }
    expect(stdout).toMatch(/Exit codes:\n {2}0 .*\n {2}1 .*\n {2}2 .*\n/);
    expect(stdout).not.toMatch(CONTROL);
  });

  test('without a command, help is printed and the exit code is 2', async () => {
    const { code, stdout, stderr } = await runSluice([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Usage: sluice');
  });

  test.each(COMMANDS)('sluice %s --help prints the usage and the exit codes', async (name) => {
    const { code, stdout } = await runSluice([name, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain(`Usage: sluice ${name}`);
    expect(stdout).toContain('Exit codes:');
    if (name === 'check') expect((await runSluice(['help', name])).stdout).toBe(stdout);
  });

  test.each([
    ['serv', 'serve'],
    ['chekc', 'check'],
    ['valdate', 'validate'],
    ['inspekt', 'inspect'],
  ])('the unknown command %s is rejected and %s is suggested', async (word, meant) => {
    const { code, stdout, stderr } = await runSluice([word]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`unknown command '${word}'`);
    expect(stderr).toContain(`Did you mean ${meant}?`);
    expect(await runSluice(['help', word])).toEqual({ code, stdout, stderr });
  });

  test('a missing argument prints the usage of the command', async () => {
    const { code, stderr } = await runSluice(['check', 'perMinute']);
    expect(code).toBe(2);
    expect(stderr).toBe(
      "error: missing required argument 'key'\nUsage: sluice check [options] <policy> <key>\n",
    );
  });

  test.each([
    [['serve', '--listne', '1'], "unknown option '--listne'"],
    [['serve', '--listen'], 'argument missing'],
    [['serve', 'limits.yaml'], 'too many arguments'],
    [['check', 'a'], "missing required argument 'key'"],
    [['check', 'a', 'b', 'c'], 'too many arguments'],
    [['check', 'a', 'b', '--cost', '0'], 'Expected an integer of at least 1'],
    [['check', 'a', 'b', '--cost', '1.5'], 'Expected an integer'],
    [['check', 'a', 'b', '--cost', '1', '--operation', 'x'], 'cannot be used with'],
    [['peek', 'a', 'b', '--cost', '-1'], 'Expected an integer of at least 0'],
    [['reset', 'a', 'b', '--token', 'x', '--token-file', 'y'], 'cannot be used with'],
    [['validate'], 'Expected at least one file'],
  ])('sluice %j prints the usage error and exits with 2', async (args, message) => {
    const { code, stdout, stderr } = await runSluice(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});

test('the value of a misspelt flag is not printed, as it may be a secret', async () => {
  const { code, stderr } = await runSluice(['serve', '--admin-tokn=hunter2']);
  expect(code).toBe(2);
  expect(stderr).toContain("unknown option '--admin-tokn'");
  expect(stderr).not.toContain('hunter2');
});

describe('colours of error messages', () => {
  const wrong = ['check', 'a', 'b', '--url', 'nowhere'];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a colour begins with one.
  const coloured = /\u001b\[31merror:\u001b\[0m/;

  test('sluice prints errors in colour on a terminal', async () => {
    expect((await onTerminal(wrong).ended).stdout).toMatch(coloured);
  });

  test('NO_COLOR disables colours, even if FORCE_COLOR is set', async () => {
    const { stdout } = await onTerminal(wrong, { NO_COLOR: '1', FORCE_COLOR: '1' }).ended;
    expect(stdout).toContain('error:');
    expect(stdout.replaceAll('\r', '')).not.toMatch(CONTROL);
  });

  test('without a terminal, only FORCE_COLOR enables colours', async () => {
    expect((await runSluice(wrong)).stderr).not.toMatch(CONTROL);
    expect((await runSluice(wrong, { FORCE_COLOR: '0' })).stderr).not.toMatch(CONTROL);
    expect((await runSluice(wrong, { FORCE_COLOR: '1' })).stderr).toMatch(coloured);
    expect((await runSluice(wrong, { FORCE_COLOR: '1', NO_COLOR: '1' })).stderr).not.toMatch(
      CONTROL,
    );
  });
});
