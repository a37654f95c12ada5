/** `sluice completion`: runs the scripts in their shells. */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { root, runSluice, scratch } from './running.ts';

const file = scratch();

/** Returns what bash offers for the last word of a line. */
function completed(script: string, ...words: readonly string[]): readonly string[] {
  const line = ['sluice', ...words];
  const quoted = line.map((word) => `'${word}'`).join(' ');
  const program = `source ${script}; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _sluice;
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const text = execFileSync('bash', ['--norc', '-c', program], { cwd: root, encoding: 'utf8' });
  return text.split('\n').filter((each) => each !== '');
}

describe('sluice completion', async () => {
  const { code, stdout, stderr } = await runSluice(['completion', 'bash']);
  const script = file('completion.bash', stdout);

  test('the bash completion offers all commands', () => {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const commands = readdirSync(`${root}packages/cli/src/commands`)
      .map((name) => name.replace('.ts', ''))
      .filter((name) => name !== 'print-config');
    const offered = completed(script, '');
    expect(offered).toEqual(expect.arrayContaining([...commands, 'completion', '--version', '-V']));
    expect(completed(script, 'pl')).toEqual(['plan']);
  });

  test('the bash completion offers options, their values and arguments', () => {
    expect(completed(script, 'plan', '--li')).toEqual(['--limit']);
    expect(completed(script, 'suggest', 'x.log', '--format', 'cl')).toEqual(['cloudfront']);
    expect(completed(script, 'generate', 'st')).toEqual(['steady']);
    expect(completed(script, 'completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(completed(script, 'validate', 'packa')).toEqual(expect.arrayContaining(['packages']));
    expect(completed(script, 'plan', '--policy', 'README')).toEqual(['README.md']);
    expect(completed(script, 'serve', '--adm')).toEqual(
      expect.arrayContaining(['--admin-token-file']),
    );
  });

  test.each(['zsh', 'fish'])(
    'the completion script for %s has options of sluice plan',
    async (shell) => {
      const other = await runSluice(['completion', shell]);
      expect(other.code).toBe(0);
      for (const name of ['max-denied-clients', 'lateness', 'pattern']) {
        expect(other.stdout).toContain(name);
      }
    },
  );

  test('sluice completion rejects another shell', async () => {
    const wrong = await runSluice(['completion', 'tcsh']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/^error: .*tcsh/);
  });
});
