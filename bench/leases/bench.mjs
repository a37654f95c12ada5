/**
 * The benchmark of leases: several processes check one hot key.
 *
 *   within the limit   as fast as they can; every call is admitted
 *   at the limit       as fast as they can; most calls are denied
 *   even load, one of 16 has all the load   at a fixed rate, half of the limit above it
 *
 * At full speed there are four processes: more than two processors can run, but few enough that V8
 * compiles the code of each in the first round. The processes share the processors with Redis.
 */
import { setPriority } from 'node:os';
import { machineMs, windowsOver } from '../../tools/admissions.mjs';
import { startRedis } from '../../tools/servers/redis.mjs';
import { median, spread, withContenders } from '../harness.mjs';
import { serverCpu } from '../redis/load.mjs';
import { bar, round } from '../report.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);

const LEASED = 'sluice, leased';
const UNLEASED = 'sluice, unleased';
const CACHED = 'sluice, unleased, deny cache';
const FLEXIBLE = 'rate-limiter-flexible';
const BATCHER = 'local batcher';

const LIMIT = 50_000;
const NO_LIMIT = 1_000_000_000;
const WINDOW_MS = 1000;
const PROCESSES_AT_FULL_SPEED = 4;
const PROCESSES_AT_A_RATE = 16;
/** Calls of each process in one turn of its event loop, at most. */
const CALLERS = 64;
const ROUNDS = 5;
const ROUND_MS = 2000;
const RATE_MS = 20_000;
/** In the first windows the limit is unused, and leases are adapted to the load. */
const WARM_UP_MS = 5000;
/** Before that, the calls are a quarter of the limit, until V8 has compiled the code of all. */
const COMPILE_MS = 15_000;
/** Processes begin together, this long after the command. */
const START_MS = 300;

/** The commands that the contenders send, in the names of INFO. */
const COMMANDS = {
  [LEASED]: ['eval', 'evalsha'],
  [UNLEASED]: ['eval', 'evalsha'],
  [CACHED]: ['eval', 'evalsha'],
  [FLEXIBLE]: ['eval', 'evalsha'],
  [BATCHER]: ['incrby', 'pexpire'],
};

const sumOf = (results, field) => results.reduce((sum, result) => sum + result[field], 0);

async function commandsOf(server, names) {
  let sum = 0;
  for (const [, name, calls] of (await server.command('INFO', 'commandstats')).matchAll(
    /^cmdstat_([^:]+):calls=(\d+)/gm,
  )) {
    if (names.includes(name)) sum += Number(calls);
  }
  return sum;
}

/** Runs the load on processes of one contender. Returns the figures of all processes together. */
async function run(server, processes, method, forMs, loadOf) {
  await server.command('CONFIG', 'RESETSTAT');
  const before = serverCpu(await server.command('INFO', 'cpu'));
  const startMs = Math.ceil(machineMs() + START_MS);
  const endMs = startMs + forMs;
  const results = await Promise.all(
    processes.map((each, number) => each.call(method, { ...loadOf(number), startMs, endMs })),
  );
  const cpuUs = serverCpu(await server.command('INFO', 'cpu')) - before;
  const commands = await commandsOf(server, COMMANDS[processes[0].name]);
  const decisions = sumOf(results, 'decisions');
  const log = results.flatMap((result) => result.log);
  const { most, over } = windowsOver(log, WINDOW_MS - 1, LIMIT);
  return {
    'decisions/s': decisions / (forMs / 1000),
    'admitted/s': sumOf(results, 'admitted') / (forMs / 1000),
    'decisions/command': decisions / Math.max(commands, 1),
    'client CPU us': sumOf(results, 'cpuUs') / decisions,
    'server CPU us': cpuUs / decisions,
    'fullest window %': (100 * most) / LIMIT,
    'windows over': over,
    unexplained: sumOf(results, 'unexplained'),
    failed: sumOf(results, 'failed'),
    log,
    startMs,
    endMs,
  };
}

const COLUMNS = [
  ...['decisions/s', 'admitted/s', 'decisions/command', 'client CPU us', 'server CPU us'],
  ...['fullest window %', 'windows over'],
];

function rowOf(measure, contender, rounds) {
  const figures = COLUMNS.map((column) => {
    const values = rounds.map((each) => each[column]);
    return [column, round(column.includes('window') ? Math.max(...values) : median(values))];
  });
  const percent = Math.round(100 * spread(rounds.map((each) => each['decisions/s'])));
  return { measure, contender, ...Object.fromEntries(figures), 'spread %': percent };
}

const ratioOf = (turns, field, name, peer) =>
  round(median(turns.get(name).map((each, turn) => each[field] / turns.get(peer)[turn][field])));

/** Loads at full speed, and the ratios of decisions per second that are required, if any. */
const FULL_SPEED = [
  {
    measure: 'within the limit',
    limit: NO_LIMIT,
    names: [LEASED, UNLEASED, FLEXIBLE],
    needs: [
      [UNLEASED, 10],
      [FLEXIBLE, 30],
    ],
  },
  {
    measure: 'at the limit',
    limit: LIMIT,
    names: [LEASED, UNLEASED, CACHED, FLEXIBLE, BATCHER],
    needs: [[UNLEASED, 10], [CACHED], [FLEXIBLE, 30]],
  },
];

async function atFullSpeed(result, server, { measure, limit, names, needs }, progress) {
  const groups = names.map((name) => Array(PROCESSES_AT_FULL_SPEED).fill(name));
  const options = { port: server.port, limit, windowMs: WINDOW_MS };
  await server.command('FLUSHALL');
  const turns = new Map(names.map((name) => [name, []]));
  await withContenders(CONTENDERS, groups.flat(), options, async (all) => {
    for (let turn = -1; turn < ROUNDS; turn++) {
      progress(`${measure}: ${turn < 0 ? 'warm-up' : `round ${turn + 1} of ${ROUNDS}`}`);
      for (const name of names) {
        const processes = all.filter((each) => each.name === name);
        const load = () => ({ callers: CALLERS });
        const figures = await run(server, processes, 'atFullSpeed', ROUND_MS, load);
        if (turn >= 0) turns.get(name).push(figures);
      }
    }
  });
  for (const [name, rounds] of turns) {
    const {
      'fullest window %': fullest,
      'windows over': over,
      ...row
    } = rowOf(measure, name, rounds);
    const windows = { 'fullest window %': fullest, 'windows over': over };
    result.rows.push({ ...row, ...(limit === LIMIT && windows) });
  }
  for (const [peer, need] of needs) {
    const label = `decisions/s, ${LEASED} / ${peer}, ${measure}`;
    result.ratios[label] = ratioOf(turns, 'decisions/s', LEASED, peer);
    if (need) result.bars.push(bar(label, '>=', need, result.ratios[label]));
  }
  const perCommand = median(turns.get(LEASED).map((each) => each['decisions/command']));
  result.bars.push(bar(`decisions/command, ${LEASED}, ${measure}`, '>=', 50, perCommand));
  if (limit === LIMIT) addWindows(result, turns, measure);
}

function addWindows(result, turns, measure) {
  const over = (name) => sumOf(turns.get(name), 'windows over');
  for (const name of [LEASED, UNLEASED, CACHED]) {
    result.bars.push(bar(`windows over, ${name}, ${measure}`, '<=', 0, over(name)));
  }
  // Shows that this load exceeds the limit if processes count locally.
  result.bars.push(bar(`windows over, ${BATCHER}, ${measure}`, '>=', 1, over(BATCHER)));
}

/** Loads at a rate, and the part of the limit that has to be used, in percent. */
const RATES = [
  { measure: 'even load', perSecond: () => (1.5 * LIMIT) / PROCESSES_AT_A_RATE, need: 97 },
  {
    measure: 'one of 16 has all the load',
    perSecond: (number) => (number === 0 ? 1.5 * LIMIT : 0),
    need: 90,
  },
];

/** Returns the part of the limit that was admitted after the warm-up, in percent. */
function usedPercent({ log, startMs, endMs }) {
  let units = 0;
  for (let at = 0; at < log.length; at += 3) {
    if (log[at] >= startMs + WARM_UP_MS && log[at + 1] <= endMs) units += log[at + 2];
  }
  return (100 * units) / ((LIMIT * (endMs - startMs - WARM_UP_MS)) / WINDOW_MS);
}

async function atRate(result, server, processes, { measure, perSecond, need }, progress) {
  progress(`${measure}: ${(COMPILE_MS + RATE_MS) / 1000} s`);
  const slowly = () => ({ perSecond: LIMIT / 4 / PROCESSES_AT_A_RATE });
  await run(server, processes, 'atRate', COMPILE_MS, slowly);
  const load = (number) => ({ perSecond: perSecond(number) });
  const figures = await run(server, processes, 'atRate', RATE_MS, load);
  const used = usedPercent(figures);
  const { 'spread %': _, ...row } = rowOf(measure, LEASED, [figures]);
  result.rows.push({ ...row, 'used %': round(used), failed: figures.failed });
  const name = `${LEASED}, ${measure}`;
  result.bars.push(
    bar(`used %, ${name}`, '>=', need, used),
    bar(`windows over, ${name}`, '<=', 0, figures['windows over']),
    bar(`denials that fitted, ${name}`, '<=', 0, figures.unexplained),
  );
}

/**
 * Lets Redis run before the processes of the benchmark, as if it had its own processor. Otherwise
 * 16 busy processes leave it a small part of two processors. Needs the rights of root.
 */
function prefer({ pid }, progress) {
  try {
    setPriority(pid, -10);
  } catch {
    progress('no rights to raise the priority of Redis: replies are slow');
  }
}

export async function leasesBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  const server = await startRedis();
  try {
    prefer(server, progress);
    for (const load of FULL_SPEED) await atFullSpeed(result, server, load, progress);
    await server.command('FLUSHALL');
    const options = { port: server.port, limit: LIMIT, windowMs: WINDOW_MS };
    const names = Array(PROCESSES_AT_A_RATE).fill(LEASED);
    await withContenders(CONTENDERS, names, options, async (processes) => {
      for (const load of RATES) await atRate(result, server, processes, load, progress);
    });
  } finally {
    await server.stop();
  }
  return result;
}
