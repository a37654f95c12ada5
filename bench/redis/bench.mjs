/** The Redis benchmark: speed, client CPU and server time under load, and memory. */
import { startRedis } from '../../tools/servers/redis.mjs';
import { takeTurns, withContenders } from '../harness.mjs';
import { bar, round } from '../report.mjs';
import { compare, loadRows } from './compare.mjs';
import { bytesPerUnit, SIZES } from './sizes.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);

const COUNTER = 'sluice sliding-counter';
const LOG = 'sluice sliding-log';
const BUCKET = 'sluice token-bucket';
const CACHED = 'sluice sliding-log, deny cache';
const FLEXIBLE = 'rate-limiter-flexible';
const FLEXIBLE_PIPELINED = 'rate-limiter-flexible, auto-pipelining';
const EXPRESS = 'rate-limit-redis';
const SORTED_SET = 'sorted-set log';
const INCR = 'bare INCR';
const INCR_PIPELINED = 'bare INCR, auto-pipelining';

const ROUNDS = 7;

/** Traffic of 1,000 users within their limits. */
const WITHIN = { keys: 1000, limit: 1_000_000_000, windowMs: 60_000, admits: 'all' };
/**
 * Traffic of four users at their limits. The window is longer than the benchmark, so no call is
 * admitted.
 */
const OVER = { keys: 4, limit: 1000, windowMs: 3_600_000, admits: 'none' };

/**
 * Loads and comparisons: measure, contender, peer and the required ratio, if any. The ratio is a
 * minimum for speed, and a maximum for client CPU, server time and server CPU.
 */
const LOADS = [
  {
    traffic: '256 in flight',
    options: { ...WITHIN, inFlight: 256 },
    operations: 100_000,
    needs: [
      ['speed', COUNTER, FLEXIBLE, 3],
      ['speed', COUNTER, INCR, 1],
      ['client', COUNTER, FLEXIBLE, 0.5],
      ['speed', COUNTER, EXPRESS],
      ['speed', COUNTER, FLEXIBLE_PIPELINED],
      ['speed', COUNTER, INCR_PIPELINED, 1.3],
      ['speed', LOG, SORTED_SET],
    ],
  },
  {
    traffic: '2,048 in flight',
    options: { ...WITHIN, inFlight: 2048 },
    operations: 100_000,
    needs: [
      ['speed', COUNTER, FLEXIBLE, 4],
      ['speed', COUNTER, INCR],
      ['speed', COUNTER, INCR_PIPELINED, 1.3],
      ['speed', COUNTER, FLEXIBLE_PIPELINED],
    ],
  },
  {
    traffic: '16 in flight',
    options: { ...WITHIN, inFlight: 16 },
    operations: 50_000,
    needs: [
      ['speed', COUNTER, FLEXIBLE],
      ['speed', COUNTER, INCR],
      ['server', COUNTER, FLEXIBLE],
    ],
  },
  {
    traffic: '1 in flight',
    options: { ...WITHIN, inFlight: 1 },
    operations: 5000,
    rounds: 15,
    needs: [
      ['speed', COUNTER, FLEXIBLE, 0.95],
      ['speed', LOG, FLEXIBLE, 0.85],
      ['speed', BUCKET, FLEXIBLE, 0.85],
      ['client', COUNTER, FLEXIBLE, 1.1],
      ['server', COUNTER, FLEXIBLE, 1.25],
      ['server', LOG, FLEXIBLE, 1.8],
      ['server', BUCKET, FLEXIBLE, 1.8],
      ['speed', COUNTER, INCR],
    ],
  },
  {
    // Like 50 processes with little traffic each: a batch never has commands of different clients.
    traffic: '50 clients, 1 in flight each',
    options: { ...WITHIN, inFlight: 50, clients: 50 },
    operations: 20_000,
    needs: [
      ['serverCpu', COUNTER, FLEXIBLE, 1.5],
      ['server', COUNTER, FLEXIBLE],
    ],
  },
  {
    traffic: '256 in flight, over the limit',
    options: { ...OVER, inFlight: 256 },
    operations: 100_000,
    needs: [
      ['speed', LOG, SORTED_SET, 2],
      ['server', LOG, SORTED_SET, 1],
      ['speed', LOG, FLEXIBLE],
      ['speed', CACHED, SORTED_SET],
    ],
  },
];

async function measureLoad(result, server, progress) {
  for (const { traffic, options, operations, needs, rounds = ROUNDS } of LOADS) {
    progress(`${traffic}: ${rounds} rounds`);
    await server.command('FLUSHALL');
    const names = [...new Set(needs.flatMap(([, name, peer]) => [name, peer]))];
    const all = { ...options, port: server.port };
    await withContenders(CONTENDERS, names, all, async (contenders) => {
      if (options.admits === 'none') {
        await Promise.all(contenders.map((contender) => contender.call('fill')));
      }
      // Warm up: V8 compiles the code, Redis loads the scripts, and the calls create the keys.
      for (const contender of contenders) await contender.call('run', operations);
      const turns = await takeTurns(contenders, rounds, operations);
      result.rows.push(...loadRows(turns, traffic));
      for (const need of needs) compare(result, turns, traffic, need);
    });
  }
}

async function measureSize(result, server, progress) {
  for (const size of SIZES) {
    const { name, unit, most } = size;
    progress(`bytes of ${name}`);
    const bytes = await bytesPerUnit(server.port, size);
    const measure = `bytes a ${unit}`;
    result.rows.push({ measure, contender: name, bytes: round(bytes) });
    if (most) result.bars.push(bar(`bytes a ${unit}, ${name}`, '<=', most, bytes));
  }
}

export async function redisBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  const server = await startRedis();
  try {
    const [, version] = (await server.command('INFO', 'server')).match(/redis_version:(\S+)/);
    progress(`redis-server ${version}`);
    await measureSize(result, server, progress);
    await measureLoad(result, server, progress);
  } finally {
    await server.stop();
  }
  return result;
}
