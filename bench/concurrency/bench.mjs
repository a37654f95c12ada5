/**
 * The benchmark of concurrency limits: hand-over of slots between processes on Redis, jobs per
 * second in memory, and fairness between flows.
 */
import { startRedis } from '../../tools/servers/redis.mjs';
import { median, ratio, spread, takeTurns, timeRows, withContenders } from '../harness.mjs';
import { bar, round } from '../report.mjs';
import { countCommands, handOvers, jain, mostAtOnce } from './figures.mjs';

const HAND_OVER = new URL('hand-over-contenders.mjs', import.meta.url);
const MEMORY = new URL('memory-contenders.mjs', import.meta.url);

const OURS = 'sluice run';
const FLOWS = 'sluice run, flows';
const SEMAPHORE = 'redis-semaphore';
const BOTTLENECK = 'bottleneck';
const P_QUEUE = 'p-queue';

const PROCESSES = 4;
const WAITERS = 64;
const WORK_MS = 20;
const HAND_OVER_ROUNDS = 7;
const MEMORY_ROUNDS = 9;
const MEMORY_JOBS = 5000;

/** Runs all jobs of one contender: those of its processes wait for the same slots. */
async function runOnce(processes, server, slots, number) {
  await server.command('CONFIG', 'RESETSTAT');
  const all = await Promise.all(processes.map((each) => each.call('run', number)));
  const { sent, inScripts } = countCommands(await server.command('INFO', 'commandstats'));
  const jobs = all.flatMap((each) => each.jobs);
  if (mostAtOnce(jobs) > slots) {
    throw new Error(`Expected at most ${slots} jobs at once, got ${mostAtOnce(jobs)}`);
  }
  const allWaitMs = Math.max(...all.map(({ waitingMs }) => waitingMs));
  const takenMs = median(handOvers(jobs, slots, allWaitMs));
  return { takenMs, sent: sent / WAITERS, executed: (sent + inScripts) / WAITERS };
}

async function takeHandOverTurns(server, slots) {
  const names = [OURS, SEMAPHORE].flatMap((name) => Array.from({ length: PROCESSES }, () => name));
  const options = { port: server.port, slots, jobs: WAITERS / PROCESSES, workMs: WORK_MS };
  return withContenders(HAND_OVER, names, options, async (processes) => {
    const groups = [OURS, SEMAPHORE].map((own) => processes.filter(({ name }) => name === own));
    const turns = new Map(groups.map(([{ name }]) => [name, []]));
    // The first round warms up: it connects, loads scripts and compiles.
    for (let turn = 0; turn <= HAND_OVER_ROUNDS; turn++) {
      for (const group of turn % 2 === 0 ? groups : groups.toReversed()) {
        const figures = await runOnce(group, server, slots, turn);
        if (turn > 0) turns.get(group[0].name).push(figures);
      }
    }
    return turns;
  });
}

async function measureHandOver(result, server, slots, progress) {
  const measure = `hand-over, ${slots} ${slots === 1 ? 'slot' : 'slots'}`;
  progress(`${measure}: ${WAITERS} waiters in ${PROCESSES} processes`);
  const turns = await takeHandOverTurns(server, slots);
  const valuesOf = (name, field) => turns.get(name).map((figures) => figures[field]);
  for (const name of turns.keys()) {
    result.rows.push({
      ...{ measure, contender: name },
      ms: round(median(valuesOf(name, 'takenMs'))),
      'spread %': Math.round(100 * spread(valuesOf(name, 'takenMs'))),
      'commands/job': round(median(valuesOf(name, 'sent'))),
      'with those in scripts': round(median(valuesOf(name, 'executed'))),
    });
  }
  const compare = (label, field, most) => {
    const peers = valuesOf(SEMAPHORE, field);
    const value = median(valuesOf(OURS, field).map((own, turn) => own / peers[turn]));
    const name = `${label}, ${OURS} / ${SEMAPHORE}, ${measure}`;
    result.ratios[name] = round(value);
    if (most) result.bars.push(bar(name, '<=', most, value));
  };
  compare('time', 'takenMs', 0.5);
  compare('commands', 'sent', 0.25);
  compare('commands with those in scripts', 'executed');
}

async function measureMemory(result, progress) {
  progress(`memory: ${MEMORY_ROUNDS} rounds`);
  const names = [OURS, BOTTLENECK, P_QUEUE];
  await withContenders(MEMORY, names, {}, async (contenders) => {
    for (const contender of contenders) await contender.call('run', MEMORY_JOBS);
    const times = await takeTurns(contenders, MEMORY_ROUNDS, MEMORY_JOBS);
    for (const row of timeRows(times, { measure: 'memory, 1,000 jobs waiting' })) {
      result.rows.push({ ...row, 'jobs/s': Math.round(1e9 / row['ns/op']) });
    }
    for (const [peer, least] of [
      [BOTTLENECK, 2],
      [P_QUEUE, 1],
    ]) {
      const name = `jobs per second, ${OURS} / ${peer}`;
      result.ratios[name] = ratio(times, OURS, peer);
      result.bars.push(bar(name, '>=', least, result.ratios[name]));
    }
  });
}

async function measureFairness(result, progress) {
  progress('fairness: a flow with 10,000 waiters, nine with 10');
  await withContenders(MEMORY, [FLOWS, P_QUEUE], {}, async (contenders) => {
    for (const contender of contenders) {
      const shares = await contender.call('shares');
      const { name } = contender;
      result.rows.push({ measure: 'fairness', contender: name, 'Jain index': round(jain(shares)) });
      if (name === FLOWS) result.bars.push(bar(`Jain index, ${name}`, '>=', 0.98, jain(shares)));
    }
  });
}

export async function concurrencyBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  const server = await startRedis();
  try {
    for (const slots of [1, 4]) await measureHandOver(result, server, slots, progress);
  } finally {
    await server.stop();
  }
  await measureMemory(result, progress);
  await measureFairness(result, progress);
  return result;
}
