/**
 * The benchmark of token limits: 8 processes make calls of unknown cost against one limit on Redis.
 * Counts the windows with more tokens than the limit, which no other figure makes up for.
 *
 * The windows of Sluice slide: one ends with each call. Those of rate-limiter-flexible are its own
 * fixed windows.
 */
import { startRedis } from '../../tools/servers/redis.mjs';
import { withContenders } from '../harness.mjs';
import { bar } from '../report.mjs';
import { fixedSums, slidingSums, windowFigures } from './windows.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);
const BOUNDS = 'sluice/llm';
const AVERAGES = 'sluice/llm, estimates of the average';
const FLEXIBLE = 'rate-limiter-flexible, penalty after the call';

const PROCESSES = 8;
const WINDOW_MS = 5000;
const LOAD = { limit: 20_000, windowMs: WINDOW_MS, callers: 8, maxTokens: 400 };
/** The last window starts with the end of the run, so whole windows are measured. */
const RUN_MS = 5 * WINDOW_MS;

async function measure(name, server, number) {
  const options = { ...LOAD, port: server.port, key: `model-${number}` };
  const names = Array.from({ length: PROCESSES }, () => name);
  return withContenders(CONTENDERS, names, { ...options, seed: 7 + number }, async (processes) => {
    const all = await Promise.all(processes.map((each) => each.call('run', RUN_MS)));
    const calls = all.flat();
    const sums = name === FLEXIBLE ? fixedSums(calls) : slidingSums(calls, WINDOW_MS);
    return windowFigures(calls, sums, { ...LOAD, elapsedMs: RUN_MS });
  });
}

export async function llmBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  const server = await startRedis();
  try {
    for (const [number, name] of [BOUNDS, AVERAGES, FLEXIBLE].entries()) {
      progress(`${name}: ${PROCESSES} processes for ${RUN_MS / 1000} s`);
      const figures = await measure(name, server, number);
      result.rows.push({ contender: name, ...figures });
      const need = (what, relation, bound) =>
        result.bars.push(bar(`${what}, ${name}`, relation, bound, figures[what]));
      if (name === BOUNDS) {
        need('windows over %', '<=', 0);
        need('use %', '>=', 90);
      }
      // Shows that this load exceeds a limit that is charged after the call.
      if (name === FLEXIBLE) need('windows over %', '>=', 1);
    }
  } finally {
    await server.stop();
  }
  return result;
}
