/**
 * Runs simulations. All that happens in a run follows from its seed.
 *
 *     npm run simulate -- leases SEED                         simulates one run
 *     npm run simulate -- leases --seeds 100000 [--from 1]    simulates many, in two processes
 *
 * `--mutate grant` simulates a wrong rule of the store, which must exceed the limit.
 *
 * Prints the seed and the faults of each failure, and at the end how often each fault occurred.
 * Exits with 1 if a window exceeds its limit, if the store counts too few units, or if a fault
 * occurred in less than 10 % of many runs.
 */
import { fork } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { rolldown } from 'rolldown';

const ROOT = join(import.meta.dirname, '../..');
const PROCESSES = 2;
/** The smallest part of the runs in which each fault must occur. */
const MIN_OCCURRENCE = 0.1;
/** With fewer runs, the parts depend too much on chance. */
const MANY = 1000;
const MAX_PRINTED = 10;
const PROGRESS_EVERY = 10_000;

const USAGE = 'Usage: npm run simulate -- leases SEED | leases --seeds COUNT [--from SEED]';

/** Bundles the simulation, because Node.js 20 does not run TypeScript. Returns the folder. */
async function bundleOf(name) {
  const dir = join(ROOT, '.cache', `simulate-${process.pid}`);
  const input = { worker: join(import.meta.dirname, `${name}-worker.ts`) };
  const bundle = await rolldown({ cwd: ROOT, input, platform: 'node', logLevel: 'silent' });
  await bundle.write({ dir, format: 'esm' });
  await bundle.close();
  return dir;
}

/** Sums of the results of many runs. */
class Summary {
  #startedMs = performance.now();
  #totals = {};
  #occurred = {};
  runs = 0;
  failed = 0;

  add(result) {
    this.runs++;
    for (const [name, value] of Object.entries(result)) {
      if (typeof value !== 'number' || name === 'seed') continue;
      this.#totals[name] = (this.#totals[name] ?? 0) + value;
    }
    for (const [fault, count] of Object.entries(result.faults)) {
      this.#occurred[fault] = (this.#occurred[fault] ?? 0) + Number(count > 0);
    }
    const isFailure = result.exceeded.length > 0 || result.uncounted > 0;
    if (isFailure && this.failed++ < MAX_PRINTED) printRun(result);
    if (this.runs % PROGRESS_EVERY === 0) this.#print();
  }

  /** The faults that occurred in too few runs. */
  get rare() {
    const entries = Object.entries(this.#occurred);
    return entries.filter(([, runs]) => runs < MIN_OCCURRENCE * this.runs).map(([name]) => name);
  }

  #print() {
    const seconds = ((performance.now() - this.#startedMs) / 1000).toFixed(0);
    console.log(`${this.runs} runs, ${this.failed} failed, ${seconds} s`);
  }

  printAll() {
    this.#print();
    for (const [name, total] of Object.entries(this.#totals)) console.log(`  ${name}: ${total}`);
    console.log('part of the runs in which each fault occurred:');
    for (const [fault, runs] of Object.entries(this.#occurred)) {
      console.log(`  ${fault.padEnd(20)} ${((100 * runs) / this.runs).toFixed(1).padStart(5)} %`);
    }
  }
}

function printRun({ seed, setting, exceeded, faults, ...counts }) {
  const occurred = Object.entries(faults).filter(([, count]) => count > 0);
  console.log(`seed ${seed}: ${setting}`);
  for (const each of exceeded.slice(0, MAX_PRINTED)) {
    console.log(`  ${each.units} units of ${each.limit} in the window until ${each.untilMs}`);
  }
  console.log(`  ${exceeded.length} windows exceeded the limit`, counts);
  console.log(
    `  faults: ${occurred.map(([name, count]) => `${name} ${count}`).join(', ') || 'none'}`,
  );
}

/** Runs every `step`-th seed in a process. */
function runSeeds(folder, parameters, onResult) {
  return new Promise((resolve, reject) => {
    const child = fork(join(folder, 'worker.js'), [JSON.stringify(parameters)]);
    child.on('message', (results) => results.forEach(onResult));
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit code ${code}`))));
  });
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seeds: { type: 'string' },
      from: { type: 'string', default: '1' },
      mutate: { type: 'string' },
    },
  });
  const [name, seed = values.from] = positionals;
  const [from, count] = [Number(seed), Number(values.seeds ?? 1)];
  const isValid = name === 'leases' && Number.isInteger(from) && Number.isInteger(count);
  if (!isValid || !['grant', undefined].includes(values.mutate)) {
    console.error(USAGE);
    return 2;
  }
  const folder = await bundleOf(name);
  const summary = new Summary();
  try {
    const processes = Math.min(PROCESSES, count);
    const parameters = { until: from + count, step: processes, mutation: values.mutate };
    const run = (place) =>
      runSeeds(folder, { ...parameters, from: from + place }, (result) => {
        summary.add(result);
        if (values.seeds === undefined && summary.failed === 0) printRun(result);
      });
    await Promise.all(Array.from({ length: processes }, (_, place) => run(place)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  if (values.seeds !== undefined) summary.printAll();
  const rare = count >= MANY ? summary.rare : [];
  if (rare.length > 0) console.log(`too rare: ${rare.join(', ')}`);
  return summary.failed > 0 || rare.length > 0 ? 1 : 0;
}

process.exitCode = await main();
