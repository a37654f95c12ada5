/**
 * The one harness of all benchmarks. Every contender lives in a process of its own, so that none
 * pays for another's garbage or compiled code, and the contenders take turns over several rounds,
 * so that a machine that is slow for a moment is slow for all of them. Ratios are taken round by
 * round between neighbours in time; what is reported is their median.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { round } from './report.mjs';

const WORKER = new URL('worker.mjs', import.meta.url);

/** A process that holds one contender and does what it is told, one thing at a time. */
export class Contender {
  constructor(module, name, options) {
    this.name = name;
    this.child = fork(WORKER, [module.href, name, JSON.stringify(options)], {
      execArgv: ['--expose-gc'],
    });
  }

  /** Calls a method of the contender in its process. */
  async call(method, ...parameters) {
    // Whichever comes first, the other is not listened for any longer.
    const heard = new AbortController();
    const { signal } = heard;
    this.child.send({ method, parameters });
    const [answer] = await Promise.race([
      once(this.child, 'message', { signal }),
      once(this.child, 'exit', { signal }).then(([code]) => {
        throw new Error(`the process of ${this.name} ended with code ${code}`);
      }),
    ]).finally(() => heard.abort());
    if (answer.error) throw new Error(`${this.name}: ${answer.error}`);
    return answer.value;
  }

  stop() {
    this.child.kill();
  }
}

/** Runs a task on contenders that are stopped afterwards, whatever happens. */
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

/** How far the rounds lie apart: (largest - smallest) / median. */
export const spread = (values) => (Math.max(...values) - Math.min(...values)) / median(values);

/** Lets contenders take turns; answers each one's nanoseconds an operation, round by round. */
export async function takeTurns(contenders, rounds, operations) {
  const times = new Map(contenders.map(({ name }) => [name, []]));
  for (let turn = 0; turn < rounds; turn++) {
    // Another one begins each time, so that nobody always runs after the same neighbour.
    const order = contenders.map((_, place) => contenders[(place + turn) % contenders.length]);
    for (const contender of order) {
      times.get(contender.name).push(await contender.call('run', operations));
    }
  }
  return times;
}

/** How many times as fast `name` is as `peer`: the median over the rounds. */
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
