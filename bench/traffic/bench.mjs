/**
 * Benchmark of `sluice plan`: replays a log of one day with a million clients through two policies.
 * The peer is an awk program that only counts the lines of each client. For a shorter run, set
 * BENCH_TRAFFIC_LINES to a smaller number of log lines.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { median, spread } from '../harness.mjs';
import { bar, round } from '../report.mjs';
import { writeLog } from './log.mjs';

const LINES = Number(process.env.BENCH_TRAFFIC_LINES ?? 5_000_000);
const CLIENTS = LINES / 5;
const SEED = 7;
const ROUNDS = 3;

/** Minimum speed relative to awk, and maximum memory. */
const MIN_OF_AWK = 0.25;
const MAX_MB = 400;

/** Both policies count every request. The second stores all clients for the whole day. */
const POLICIES = 'policies:\n  perMinute: 60/1m\n  perDay: 5000/1d\n';
/** Policies for `--against`. Their limits differ, so that the two replays cannot share counters. */
const TODAY = 'policies:\n  perMinute: 100/1m\n  perDay: 4000/1d\n';

const PLAN = new URL('plan.mjs', import.meta.url).pathname;
const PLANNED = 'sluice plan, two policies';
const AGAINST = 'the same, --against two others';
const COUNTED = "awk '{c[$1]++}'";

const run = promisify(execFile);

/** Resolves to the elapsed time and the CPU time of a command, in seconds. */
async function measureCommand(command, args) {
  const script = 'TIMEFORMAT="%R %U %S"; time "$@" > /dev/null';
  const { stderr } = await run('bash', ['-c', script, 'bash', command, ...args]);
  const [real, user, system] = stderr.trim().split(/\s+/).slice(-3).map(Number);
  return { real, cpu: user + system };
}

async function measure(folder, progress) {
  const names = ['access.log', 'policies.yaml', 'today.yaml', 'memory'];
  const [log, policies, today, memory] = names.map((name) => join(folder, name));
  progress(`writing a log of ${LINES} lines, ${CLIENTS} clients`);
  await writeLog(log, { lines: LINES, clients: CLIENTS, seed: SEED });
  await writeFile(policies, POLICIES);
  await writeFile(today, TODAY);
  const turns = { [PLANNED]: [], [AGAINST]: [], [COUNTED]: [] };
  const bytes = { [PLANNED]: [], [AGAINST]: [] };
  for (let turn = 1; turn <= ROUNDS; turn++) {
    progress(`round ${turn} of ${ROUNDS}`);
    turns[COUNTED].push(await measureCommand('awk', ['{c[$1]++}', log]));
    const args = [PLAN, memory, 'plan', log, '--policy', policies, '--json'];
    for (const [name, more] of [
      [PLANNED, []],
      [AGAINST, ['--against', today]],
    ]) {
      turns[name].push(await measureCommand(process.execPath, [...args, ...more]));
      bytes[name].push(1024 * Number(await readFile(memory, 'utf8')));
    }
  }
  return { turns, bytes };
}

const rowOf = (contender, turns) => ({
  contender,
  'lines/s': Math.round(LINES / median(turns.map(({ real }) => real))),
  'cpu us/line': round((1e6 * median(turns.map(({ cpu }) => cpu))) / LINES),
  'spread %': Math.round(100 * spread(turns.map(({ real }) => real))),
});

export async function trafficBench(progress) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  try {
    const { turns, bytes } = await measure(folder, progress);
    const ratio = (of) => median(turns[COUNTED].map((awk, at) => of(awk) / of(turns[PLANNED][at])));
    const speed = ratio(({ real }) => real);
    const megabytes = (name) => round(Math.max(...bytes[name]) / 1e6);
    const rows = Object.entries(turns).map(([name, each]) => rowOf(name, each));
    return {
      rows: rows.map((row) =>
        row.contender in bytes ? { ...row, MB: megabytes(row.contender) } : row,
      ),
      ratios: {
        'lines/s of plan / of awk': round(speed),
        'processor time of awk / of plan': round(ratio(({ cpu }) => cpu)),
      },
      bars: [
        bar('lines/s of plan / of awk', '>=', MIN_OF_AWK, speed),
        bar(`MB of plan with ${CLIENTS} clients`, '<=', MAX_MB, megabytes(PLANNED)),
        bar('MB of the same, --against two others', '<=', MAX_MB, megabytes(AGAINST)),
      ],
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
