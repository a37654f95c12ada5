/** `sluice init`: the written file is valid and has the answers. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runSluice, scratch } from './running.ts';
import { onTerminalOf } from './terminal.ts';

const folder = dirname(scratch()('present.yaml', 'policies: { a: 1/1s }\n'));
const VALID = /^1 file, [12] polic(?:y|ies), 1 rule, no problems\n$/;

async function written(name: string, ...flags: readonly string[]): Promise<string> {
  const path = join(folder, name);
  expect(await runSluice(['init', path, ...flags])).toMatchObject({ code: 0, stderr: '' });
  const { code, stdout, stderr } = await runSluice(['validate', path]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(VALID);
  return readFileSync(path, 'utf8');
}

describe('sluice init', () => {
  test('init writes a commented file without a warning, from defaults', async () => {
    const text = await written('default.yaml');
    expect(text).toMatch(/^# /);
    expect(text).toMatch(/ {2}perMinute:\n {4}limit: 100\n {4}window: 1m\n/);
    expect(text).toContain('key: address');
  });

  test('init writes the limit, key and mode of the flags', async () => {
    const text = await written('flags.yaml', '--limit', '20/s', '--key', 'x-api-key', '--shadow');
    expect(text).toMatch(/ {2}perSecond:\n {4}limit: 20\n {4}window: 1s\n/);
    expect(text).toContain('key: header:x-api-key | address');
    expect(text.match(/shadow: true/g)).toHaveLength(2);
  });

  test('init replaces an existing file only with --force', async () => {
    const path = join(folder, 'present.yaml');
    const before = readFileSync(path, 'utf8');
    const { code, stderr } = await runSluice(['init', path]);
    expect(code).toBe(2);
    expect(stderr).toBe(
      `error: \`${path}\` exists. Choose another name, or replace it with --force.\n`,
    );
    expect(readFileSync(path, 'utf8')).toBe(before);
    expect(await written('present.yaml', '--force')).not.toBe(before);
  });

  test.each([
    [['--limit', 'many'], /^error: Expected a limit such as 100\/1m, got `many`\n$/],
    [['--key', 'a b'], /^error: Expected `address` or the name of a header/],
  ])('init rejects %s', async (flags, message) => {
    const { code, stderr } = await runSluice(['init', join(folder, 'no.yaml'), ...flags]);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });

  test('init asks three questions on a terminal', async () => {
    const path = join(folder, 'asked.yaml');
    const shown = onTerminalOf(100, 30, ['init', path]);
    await shown.shows(/Limit of each client, such as 20\/s\? \[100\/1m\]/);
    shown.type('30/min\r');
    await shown.shows(/Client by address, or by which header\? \[address\]/);
    shown.type('\r');
    await shown.shows(/Only report, without denying\? \[no\]/);
    shown.type('yes\r');
    expect(await shown.code).toBe(0);
    const text = readFileSync(path, 'utf8');
    expect(text).toMatch(/limit: 30\n {4}window: 1m\n[^\n]+\n {4}shadow: true/);
  });
});
