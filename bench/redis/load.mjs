/** Load generator for limiters on Redis. Measures the costs for the client and for the server. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Returns a key of 14 characters: `user:` and nine digits. */
export const keyOf = (number) => `user:${100_000_000 + number}`;

/**
 * Makes `operations` calls in `count` loops, with one call in flight in each loop. Passes the
 * number of the loop to `call`. Resolves to the number of admitted calls. A rejection that is not
 * an `Error` is a denial; the first `Error` rejects the returned promise.
 */
export async function keepInFlight(count, operations, call, isAdmitted) {
  let begun = 0;
  let admitted = 0;
  const loop = async (_, number) => {
    while (begun < operations) {
      begun++;
      try {
        if (isAdmitted(await call(number))) admitted++;
      } catch (denial) {
        if (denial instanceof Error) throw denial;
      }
    }
  };
  await Promise.all(Array.from({ length: count }, loop));
  return admitted;
}

/**
 * Returns the microseconds that the server spent in `commands`, from INFO. They must be commands
 * that clients send. INFO also lists the commands that scripts call, but the time of a script
 * already includes them.
 */
export function commandTime(info, commands) {
  let sum = 0;
  for (const [, name, time] of info.matchAll(/^cmdstat_([^:]+):.*\busec=(\d+)/gm)) {
    if (commands.includes(name)) sum += Number(time);
  }
  return sum;
}

/** Returns the microseconds of CPU time that the server has used since its start, from INFO. */
export function serverCpu(info) {
  const seconds = [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)];
  return 1e6 * seconds.reduce((sum, [, each]) => sum + Number(each), 0);
}

const SCRIPTS = ['eval', 'evalsha'];

function percentilesOf(durations) {
  if (durations.length === 0) return {};
  const sorted = durations.sort((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) };
}

/** Returns a percentile of ascending numbers. */
export const percentile = (sorted, part) => sorted[Math.floor(part * (sorted.length - 1))];

/**
 * Returns the methods of a contender that calls Redis. `call` is a function, or a list with a
 * function for each client. `client` reads the statistics of the server.
 */
export function underLoad(client, call, isAdmitted, options, commands = SCRIPTS) {
  const { inFlight, keys, limit, admits } = options;
  const own = [call].flat();
  let calls = 0;
  const next = (loop) => own[loop % own.length](keyOf(calls++ % keys));
  /** The duration of each call in nanoseconds, if one call is in flight at a time. */
  let durations = [];
  const timed = async (loop) => {
    const start = process.hrtime.bigint();
    const result = await next(loop);
    durations.push(Number(process.hrtime.bigint() - start));
    return result;
  };
  return {
    /**
     * Uses up the limit of every key. Two calls of a key are never in the same millisecond, because
     * a log may store such calls as one entry.
     */
    async fill() {
      for (let turn = 0; turn < limit; turn++) {
        const admitted = await keepInFlight(keys, keys, next, isAdmitted);
        if (admitted !== keys) throw new Error(`${keys - admitted} were denied below the limit`);
        await sleep(2);
      }
    },

    /** Returns the elapsed time and the costs of one operation, in nanoseconds. */
    async run(operations) {
      await client.config('RESETSTAT');
      const before = serverCpu(await client.info('cpu'));
      const cpu = process.cpuUsage();
      const start = process.hrtime.bigint();
      durations = [];
      const work = inFlight === 1 ? timed : next;
      const admitted = await keepInFlight(inFlight, operations, work, isAdmitted);
      const elapsed = Number(process.hrtime.bigint() - start);
      const { user, system } = process.cpuUsage(cpu);
      const info = await client.info('commandstats', 'cpu');
      const expected = admits === 'all' ? operations : 0;
      if (admitted !== expected) throw new Error(`admitted ${admitted} instead of ${expected}`);
      return {
        time: elapsed / operations,
        client: (1e3 * (user + system)) / operations,
        server: (1e3 * commandTime(info, commands)) / operations,
        serverCpu: (1e3 * (serverCpu(info) - before)) / operations,
        ...percentilesOf(durations),
      };
    },
  };
}
