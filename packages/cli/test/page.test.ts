/**
 * Runs the commands of docs/cli.md in order, in one folder, against the example service, and
 * compares their output with the page. `SLUICE_WRITE_PAGES=1` writes the output into the page.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandIn, Process, root, type Serving, scratch, serving } from './running.ts';

const path = `${root}docs/cli.md`;
const page = readFileSync(path, 'utf8');
const BLOCKS = /```sh\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/g;

const folder = dirname(scratch()('nothing', ''));
const command = commandIn(folder);
let service: Serving;
beforeAll(async () => {
  service = await serving();
});
afterAll(async () => {
  await service?.stop();
});

async function printedBy(commands: string): Promise<string> {
  const variables = { ...command, SLUICE_URL: service.url };
  const { stdout } = await new Process('bash', ['-c', `exec 2>&1\n${commands}`], variables, folder)
    .ended;
  const { port } = new URL(service.url);
  return stdout
    .replaceAll(`127.0.0.1:${port}`, '127.0.0.1:8080')
    .replaceAll(`127.0.0.1:${Number(port) + 1}`, '127.0.0.1:8081');
}

/** Replaces what differs between runs: times, rates and a warning of a busy machine. */
const withoutTimes = (text: string): string =>
  text
    .replace(/\d+(?:\.\d)? (?:m?s|min)(?=[ ,.]|$|\n)/g, '# s')
    .replace(/\d+ h(?: \d+ min)?|1 d(?: \d+ h)?/g, '# h')
    .replace(/[·▁▂▃▄▅▆▇█]{60}/g, '(bars)')
    .replace(/AfterMs":\d+/g, 'AfterMs":#')
    .replace(/(?<=atMs":)\d+/g, '#')
    .replace(/(?<=[;:] ?t=|retry-after: )\d+/g, '#')
    .replace(/\d\d:\d\d:\d\d(?= UTC)/g, '#')
    .replace(/Sending fell behind.*\n/g, '')
    .replace(/, \d+ per second/g, ', # per second')
    .replace(/ +/g, ' ');

test('the commands in docs/cli.md print the output that the page shows', async () => {
  const found = [...page.matchAll(BLOCKS)];
  expect(found.length).toBeGreaterThan(8);
  const printed: string[] = [];
  for (const [, commands] of found) printed.push(await printedBy(commands));
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
    expect(withoutTimes(printed[at]), commands).toBe(withoutTimes(shown));
  }
});

test('docs/cli.md has sections for demo, serve, validate, generate and client commands', () => {
  const clients = ['check', 'peek', 'reset', 'inspect', 'top'];
  for (const name of ['demo', 'serve', 'validate', ...clients, 'generate']) {
    expect(page).toContain(`\n## sluice ${name}\n`);
  }
});
