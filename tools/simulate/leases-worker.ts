/** Runs simulations of leases in a child process, and sends the results to its parent. */
import type { Mutation } from './lease-model.ts';
import { type RunResult, simulateLeases } from './leases.ts';

/** Results are sent in groups, which takes less time than one message for each. */
const GROUP = 100;

interface Parameters {
  readonly from: number;
  /** The seed after the last one. */
  readonly until: number;
  readonly step: number;
  readonly mutation?: Mutation;
}

const { from, until, step, mutation }: Parameters = JSON.parse(process.argv[2]);
let results: RunResult[] = [];
for (let seed = from; seed < until; seed += step) {
  results.push(await simulateLeases(seed, { mutation }));
  if (results.length < GROUP) continue;
  process.send!(results);
  results = [];
}
process.send!(results, () => process.disconnect());
