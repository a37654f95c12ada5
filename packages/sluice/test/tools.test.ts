/** Runs the commands of package.json. Needs a build, which `npm test` makes. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, describe, expect, it } from 'vitest';

const root = new URL('../../../', import.meta.url).pathname;
const vectors = 'packages/sluice/test/vectors/decisions.json';
const folder = mkdtempSync(`${tmpdir()}/sluice-tools-`);
afterAll(() => rmSync(folder, { recursive: true }));

function run(tool: string, ...parameters: string[]) {
  const options = { cwd: root, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync('node', [`tools/${tool}`, ...parameters], options);
  return { status, stdout, stderr };
}

describe('conformance', () => {
  it('conformance passes on the vectors and prints the number of cases', () => {
    const { status, stdout } = run('conformance.mjs', '--store', 'memory', vectors);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '160 passed, 0 failed\n' });
  });

  it('conformance prints the first differences and fails', () => {
    const file = JSON.parse(readFileSync(root + vectors, 'utf8'));
    file.cases[1].steps[2].expect.remaining += 1;
    const path = `${folder}/wrong.json`;
    writeFileSync(path, JSON.stringify(file));
    const { status, stdout } = run('conformance.mjs', path);
    expect(status).toBe(1);
    expect(stdout).toContain(`${file.cases[1].name}, step 2\n  expected {`);
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('159 passed, 1 failed');
  });

  it.each([
    [[], 'Expected at least one vector file'],
    [
      ['--store', 'paper', vectors],
      'Expected --store to be memory or redis://HOST:PORT, got paper',
    ],
    [
      ['--store', 'redis://127.0.0.1:1', '--client', 'x', vectors],
      'Expected --client to be all or',
    ],
    [['--client', 'ioredis', vectors], 'Expected --client only with a store in Redis'],
    [['--store', 'redis://127.0.0.1:1', vectors], 'ioredis cannot reach redis://127.0.0.1:1'],
    [['--sotre', 'memory', vectors], "Unknown option '--sotre'"],
    [[`${folder}/none.json`], 'no such file'],
    [['README.md'], 'README.md: '],
  ])('conformance rejects %j with a message', (parameters, message) => {
    const { status, stderr } = run('conformance.mjs', ...parameters);
    expect(status).toBe(2);
    expect(stderr).toContain(message);
  });
});

describe('event-loop', () => {
  const short = ['--operations', '4000', '--waiters', '1000', '--entries', '500'];

  it('event-loop measures each library, with the expected outcome of every waiter', () => {
    const library = ['--library', 'packages/sluice/dist/index.js'];
    const { status, stdout } = run(
      'event-loop.mjs',
      ...short,
      '--window',
      '700',
      '--json',
      ...library,
    );
    expect(status).toBe(0);
    const results = JSON.parse(stdout);
    expect(results).toHaveLength(3);
    const [ours, floor, other] = results;
    expect(floor.library).toContain('event-loop-floor.mjs');
    expect(floor.ended).toEqual({ served: 1000 });
    for (const { ended, durations } of [ours, other]) {
      const { served, denied, ...rejected } = ended;
      // On a slow machine some waiters are served before their deadline.
      expect(served).toBeGreaterThanOrEqual(400);
      expect(served + denied).toBe(600);
      expect(rejected).toEqual({ aborted: 200, 'The limiter was closed': 200 });
      const rows = new Map(durations.map((row: { name: string }) => [row.name, row]));
      expect(rows.get('acquire')).toMatchObject({ count: 1000 });
      const { p99Ms, p9999Ms, maxMs } = rows.get('event loop') as Record<string, number>;
      expect(p99Ms).toBeGreaterThan(0);
      expect(p9999Ms).toBeGreaterThanOrEqual(p99Ms);
      expect(maxMs).toBeGreaterThanOrEqual(p9999Ms);
    }
  });

  it('event-loop prints a table', () => {
    const few = ['--operations', '400', '--waiters', '100', '--entries', '50', '--window', '100'];
    const { status, stdout } = run('event-loop.mjs', ...few);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ {2}event loop +\d+ +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{3}$/m);
  });

  it('event-loop rejects an unknown option', () => {
    const { status, stderr } = run('event-loop.mjs', '--waitres', '1');
    expect(status).not.toBe(0);
    expect(stderr).toContain("Unknown option '--waitres'");
  });
});

it('package.json has all commands in README.md', () => {
  const readme = readFileSync(`${root}README.md`, 'utf8');
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const [, service] =
    /<!-- service command -->\n```sh\nnpm install && npm (\w+)\n/.exec(readme) ?? [];
  const [, demo] = /<!-- demo command -->\n```sh\nnpm run (\w+)\n/.exec(readme) ?? [];
  const [, test] = /<!-- test command -->\n```sh\nnpm install && npm (\w+)\n/.exec(readme) ?? [];
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining([service, demo, test]));
});
