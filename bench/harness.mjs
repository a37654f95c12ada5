/**
 * Runs the contenders of all benchmarks: the implementations that a benchmark compares. Each
 * contender has its own process, so that contenders share no garbage and no compiled code. They run
 * alternately in several rounds, so that a slow phase of the machine affects all contenders. Ratios
 * are computed for each round, and their median is reported.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { round } from './report.mjs';

const WORKER = new URL('worker.mjs', import.meta.url);

/** The process of a contender. Executes one command at a time. */
export class Contender {
  constructor(module, name, options) {
    this.name = name;
    this.child = fork(WORKER, [module.href, name, JSON.stringify(options)], {
      execArgv: ['--expose-gc'],
    });
  }

  /** Calls a method of the contender in its process. */
  async call(method, ...parameters) {
    // When either event arrives, the signal removes the listener of the other event.
    const settled = new AbortController();
    const { signal } = settled;
    this.child.send({ method, parameters });
    const [reply] = await Promise.race([
      once(this.child, 'message', { signal }),
      once(this.child, 'exit', { signal }).then(([code]) => {
        throw new Error(`the process of ${this.name} ended with code ${code}`);
      }),
    ]).finally(() => settled.abort());
    if (reply.error) throw new Error(`${this.name}: ${reply.error}`);
    return reply.value;
  }

  stop() {
    this.child.kill();
  }
}

/** Starts contenders and runs a task with them. Stops them afterwards, also after an error. */
export async function withContenders(module, names, options, task) {
  const contenders = names.map((name) => new Contender(module, name, options));
  try {
    return await task(contenders);
  } finally {
    for (const contender of contenders) contender.stop();
  }
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >>> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Returns the spread of the rounds: (largest - smallest) / median. */
export const spread = (values) => (Math.max(...values) - Math.min(...values)) / median(values);

/**
 * Runs each contender once per round. Returns the results of `run` by contender name, in the order
 * of the rounds. A result is a number of nanoseconds per operation, or an object with several
 * costs.
 */
export async function takeTurns(contenders, rounds, operations) {
  const times = new Map(contenders.map(({ name }) => [name, []]));
  for (let turn = 0; turn < rounds; turn++) {
    // Rotate the order, so that each contender runs first equally often.
    const order = contenders.map((_, place) => contenders[(place + turn) % contenders.length]);
    for (const contender of order) {
      times.get(contender.name).push(await contender.call('run', operations));
    }
  }
  return times;
}

/** Returns the speed of `name` divided by the speed of `peer`: the median over the rounds. */
export function ratio(times, name, peer) {
  const own = times.get(name);
  return round(median(times.get(peer).map((time, turn) => time / own[turn])));
}

export function timeRows(times, extra) {
  return [...times].map(([contender, values]) => ({
    ...extra,
    contender,
    'ns/op': round(median(values)),
    'spread %': Math.round(100 * spread(values)),
  }));
}
