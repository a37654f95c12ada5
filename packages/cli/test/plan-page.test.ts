/**
 * Runs the commands of docs/choosing-a-limit.md in order, in one folder, and compares their output
 * with the page. `SLUICE_WRITE_PAGES=1` writes the output into the page.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { commandIn, Process, root, scratch } from './running.ts';

const path = `${root}docs/choosing-a-limit.md`;
const page = readFileSync(path, 'utf8');
const BLOCKS = /```sh\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/g;
const folder = dirname(scratch()('nothing', ''));
const command = commandIn(folder);

async function printedBy(commands: string): Promise<string> {
  const args = ['-c', `exec 2>&1\n${commands}`];
  return (await new Process('bash', args, command, folder).ended).stdout;
}

test('the commands in docs/choosing-a-limit.md print the output of the page', async () => {
  const found = [...page.matchAll(BLOCKS)];
  expect(found.length).toBeGreaterThan(8);
  const printed: string[] = [];
  for (const [, commands] of found) printed.push(await printedBy(commands));
  for (const line of printed.join('').split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  if (process.env.SLUICE_WRITE_PAGES) {
    let at = 0;
    const written = page.replace(
      BLOCKS,
      (_, commands) => `\`\`\`sh\n${commands}\`\`\`\n\n\`\`\`text\n${printed[at++]}\`\`\``,
    );
    writeFileSync(path, written);
    return;
  }
  for (const [at, [, commands, shown]] of found.entries()) {
    expect(printed[at], commands).toBe(shown);
  }
});

test.each(['suggest', 'plan', 'compare', 'explain'])(
  'docs/choosing-a-limit.md has a section for sluice %s',
  (name) => {
    expect(page).toContain(`\n## sluice ${name}\n`);
  },
);
