/** Logs with costs, read by the four commands that replay logs. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CONTROL, runSluice, scratch } from './running.ts';
import { NOON_MS } from './traffic-logs.ts';

const file = scratch();

/** One request per second, alternately of a client with these costs and one of cost 1. */
const COSTS = ['40', '', '30', '40', '0', '120', '1.5', '20', 'many', '-3', '50'];
const rows = COSTS.flatMap((cost, at) => {
  const time = (second: number) => new Date(NOON_MS + 1000 * second).toISOString();
  return [`${time(2 * at)},198.51.100.7,/ask,${cost}`, `${time(2 * at + 1)},203.0.113.1,/,1`];
});
const table = file('costs.csv', ['time,client,path,tokens', ...rows, ''].join('\n'));
const json = file(
  'costs.jsonl',
  rows
    .map((row) => row.split(','))
    .map(([time, client, path, total]) =>
      JSON.stringify({
        time,
        client,
        path,
        usage: { total: /^\d+$/.test(total) ? +total : total },
      }),
    )
    .join('\n'),
);
const policy = file('tokens.yaml', 'policies:\n  tokens: 100/1m\n');
const COLUMN = ['--column', 'cost=tokens'];

const COMMANDS: readonly (readonly [string, ...string[]])[] = [
  ['plan', '--policy', policy],
  ['suggest', '--window', '10s'],
  ['compare', '--limit', '100/1m'],
  ['explain', '--limit', '100/1m', '--client', '198.51.100.7'],
];

const resultOf = async (...args: readonly string[]) => {
  const { stdout, stderr } = await runSluice([...args, '--json']);
  expect(stderr).toBe('');
  return JSON.parse(stdout);
};

describe.each(COMMANDS)('sluice %s', (name, ...args) => {
  test(`sluice ${name} prints the source of the costs in at most 80 columns`, async () => {
    const page = join(dirname(table), `${name}.html`);
    const ended = await runSluice([name, table, ...args, ...COLUMN, '--report', page]);
    expect(ended.stderr).toBe('');
    expect(ended.stdout).not.toMatch(CONTROL);
    for (const line of ended.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(ended.stdout).toContain(`\n${' '.repeat(12)}costs from the column tokens\n`);
    expect(readFileSync(page, 'utf8')).toContain('Costs from the column');
  });

  test(`sluice ${name} shows lines with an invalid cost and the reason`, async () => {
    const { stdout } = await runSluice([name, table, ...args, ...COLUMN]);
    const text = stdout.replace(/\n {12}/g, ' ');
    expect(text).toMatch(/4 lines unreadable, such as line 10: \S+,0 4 of them with a cost/);
    expect(text).toContain('a cost that is not a positive integer, such as `0`');
    const { log } = await resultOf(name, table, ...args, ...COLUMN);
    expect(log).toMatchObject({
      unreadable: 4,
      costs: { columns: ['tokens'], read: 17, refused: 4, sample: '0' },
    });
  });

  test(`sluice ${name} reads costs of JSON lines by a path, with the same result`, async () => {
    const { log: ofTable, ...fromTable } = await resultOf(name, table, ...args, ...COLUMN);
    const { log, ...fromJson } = await resultOf(
      name,
      json,
      ...args,
      '--column',
      'cost=usage.total',
    );
    // The suggested policy file contains the name of the column.
    expect({ ...fromJson, policy: fromTable.policy }).toEqual({ policy: undefined, ...fromTable });
    expect(log.costs).toEqual({ ...ofTable.costs, columns: ['usage.total'] });
  });

  test(`sluice ${name} reports a requested cost column that no request has`, async () => {
    const named = await runSluice([name, table, ...args, '--column', 'cost=units']);
    expect(named.stdout).toContain('no request has a cost, so each costs 1\n');
    const { stdout } = await runSluice([name, table, ...args]);
    expect(stdout).not.toMatch(/\bcosts? /);
    const { log, ...plain } = await resultOf(name, table, ...args);
    expect(log).not.toHaveProperty('costs');
    const { log: _, ...same } = await resultOf(name, table, ...args, '--column', 'cost=units');
    expect(same).toEqual(plain);
  });
});

test.each([
  ['free.csv', 'tokens', COLUMN],
  ['usual.csv', 'cost', []],
])('the log %s without any valid cost is rejected with the reason', async (name, column, more) => {
  const free = file(
    name,
    `time,client,${column}\n${'2026-10-10T12:00:00Z,192.0.2.1,0.5\n'.repeat(3)}`,
  );
  const { code, stderr } = await runSluice(['compare', free, '--limit', '9/1m', ...more]);
  expect(code).toBe(2);
  expect(stderr.replace(/\s+/g, ' ')).toContain(
    'to have requests, got lines such as `2026-10-10T12:00:00Z,192.0.2.1,0.5`. ' +
      `Expected the cost in \`${column}\` to be a positive integer, got \`0.5\``,
  );
});

describe('sluice plan with costs', () => {
  test('plan sums the costs and counts requests with a cost above the limit', async () => {
    const { stdout } = await runSluice(['plan', table, '--policy', policy, ...COLUMN]);
    expect(stdout).toContain('total cost 312\n');
    // 40, 1, 30 and 20 are admitted.
    expect(stdout).toContain('denied      3 requests (16.7%)\n');
    expect(stdout).toContain('cost 210 (67.3%)\n');
    expect(stdout).toContain('1 request with a cost above a limit, always denied\n');
    expect(await resultOf('plan', table, '--policy', policy, ...COLUMN)).toMatchObject({
      costs: { requested: 312, denied: 210, requestsAboveLimit: 1 },
    });
  });

  test('in a plan, the cost of a rule replaces that of the log, also a cost of 1', async () => {
    const config = (tokens: string) =>
      file(
        'rules.yaml',
        `policies: { tokens: { limit: 100, window: 1m, costs: { ask: 50 } }, calls: 4/1m }
rules:
  - match: { path: /ask }
    limits: [{ policy: tokens${tokens} }, { policy: calls, cost: 1 }]
`,
      );
    const denied = async (tokens: string) => {
      const path = config(tokens);
      const { policies } = await resultOf('plan', table, '--policy', path, ...COLUMN);
      return policies.map((each: { denied: { requests: number } }) => each.denied.requests);
    };
    // When the last request arrives, four are admitted and the costs are used up.
    expect(await denied('')).toEqual([3, 1]);
    expect(await denied(', cost: 50')).toEqual([5, 0]);
    expect(await denied(', operation: ask')).toEqual([5, 0]);
    expect(await denied(', cost: 1')).toEqual([0, 3]);
  });

  test('a plan of the suggested policy denies as much as suggest predicted', async () => {
    const out = join(dirname(table), 'found.yaml');
    const args = ['suggest', table, '--window', '10s', ...COLUMN];
    const { windows, costs } = await resultOf(...args, '--out', out);
    const [{ proposed, limits }] = windows;
    expect(costs).toEqual({ requested: 312, highest: 120 });
    const effect = limits.find(({ limit }: { limit: number }) => limit === proposed);
    const plan = await resultOf('plan', table, '--policy', out, ...COLUMN);
    expect(plan.denied).toMatchObject({
      requests: effect.deniedRequests,
      clients: effect.clients,
    });
    expect(plan.costs.denied).toBe(effect.deniedCost);
    expect(readFileSync(out, 'utf8').replaceAll('\n# ', ' ')).toContain('from the column tokens;');
  });
});

test('compare also counts decisions by cost', async () => {
  const { stdout } = await runSluice(['compare', table, '--limit', '100/1m', ...COLUMN]);
  expect(stdout).toContain('in units of cost; total cost 312\n');
  expect(stdout).toContain('1 request with a cost above the limit, always denied\n');
  expect(stdout).toMatch(/^In units of cost:\nalgorithm .*\nsliding-log +102 +210 +0 +0 +0%$/m);
});

describe('sluice explain with costs', () => {
  const run = (...args: string[]) =>
    runSluice(['explain', table, '--client', '198.51.100.7', ...COLUMN, ...args]);

  test('explain sums the costs of the entries', async () => {
    const { stdout, code } = await run('--limit', '100/1m');
    expect(code).toBe(1);
    expect(stdout).toContain('cost        40\n');
    expect(stdout).toContain('comparison  71 + 40 = 111 > 100\n');
    expect(stdout).toContain('the height of a column is its cost\n');
  });

  test('explain states that a cost above the limit never fits', async () => {
    const { stdout, code } = await run('--limit', '100/1m', '--at', '2026-10-10T12:00:10Z');
    expect(code).toBe(1);
    expect(stdout).toContain('decision    denied; this cost never fits\n');
    expect(stdout).toContain('never: at most 100 fits\n');
  });
});
