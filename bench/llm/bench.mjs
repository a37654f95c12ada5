/**
 * The benchmark of token limits: 8 processes make calls of unknown cost against one limit on Redis.
 * Counts the windows with more tokens than the limit. For Sluice with its default estimates, there
 * must be none.
 *
 * For Sluice, the windows are sliding: each call is the end of a window. For rate-limiter-flexible,
 * the windows are the fixed windows of its counters.
 */
import { startRedis } from '../../tools/servers/redis.mjs';
import { withContenders } from '../harness.mjs';
import { bar } from '../report.mjs';
import { fixedSums, slidingSums, windowFigures } from './windows.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);
const SLUICE = 'sluice/llm';
const SLUICE_AVERAGES = 'sluice/llm, estimates of the average';
const FLEXIBLE = 'rate-limiter-flexible, penalty after the call';

const PROCESSES = 8;
const WINDOW_MS = 5000;
const LOAD = { limit: 20_000, windowMs: WINDOW_MS, callers: 8, maxTokens: 400 };
/**
 * A multiple of the window, so that the limit of the run is a multiple of the limit of a window.
 */
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
    for (const [number, name] of [SLUICE, SLUICE_AVERAGES, FLEXIBLE].entries()) {
      progress(`${name}: ${PROCESSES} processes for ${RUN_MS / 1000} s`);
      const figures = await measure(name, server, number);
      result.rows.push({ contender: name, ...figures });
      const need = (what, relation, bound) =>
        result.bars.push(bar(`${what}, ${name}`, relation, bound, figures[what]));
      if (name === SLUICE) {
        need('windows over %', '<=', 0);
        need('use %', '>=', 95);
      }
      // Ensure that the load is sufficient: a limiter that charges the output only after the call
      // must exceed the limit.
      if (name === FLEXIBLE) need('windows over %', '>=', 1);
    }
  } finally {
    await server.stop();
  }
  return result;
}
