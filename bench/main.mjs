/**
 * Side-by-side benchmarks: `npm run bench -- NAME [--json]`
 *
 * Prints the measurements, the ratios and whether each required bound is met. With --json, prints
 * one JSON document. Exits with 1 if a bound is not met.
 */
import { parseArgs } from 'node:util';
import { concurrencyBench } from './concurrency/bench.mjs';
import { dashboardBench } from './dashboard/bench.mjs';
import { httpBench } from './http/bench.mjs';
import { leasesBench } from './leases/bench.mjs';
import { llmBench } from './llm/bench.mjs';
import { memoryBench } from './memory/bench.mjs';
import { redisBench } from './redis/bench.mjs';
import { report } from './report.mjs';
import { serviceBench } from './service/bench.mjs';
import { trafficBench } from './traffic/bench.mjs';

const benches = {
  ...{ memory: memoryBench, redis: redisBench, http: httpBench, service: serviceBench },
  ...{ traffic: trafficBench, dashboard: dashboardBench, llm: llmBench },
  ...{ concurrency: concurrencyBench, leases: leasesBench },
};

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const [name] = positionals;
if (positionals.length !== 1 || !Object.hasOwn(benches, name)) {
  console.error(`usage: npm run bench -- ${Object.keys(benches).join('|')} [--json]`);
  process.exit(2);
}
const progress = (line) => console.error(line);
const result = await benches[name](progress);
process.exitCode = report(name, result, values.json);
