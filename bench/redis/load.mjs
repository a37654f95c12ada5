/** Load on a limiter that uses Redis: keeps calls in flight and measures client and server. */
import { setTimeout as sleep } from 'node:timers/promises';

/** User ids of nine digits: 14 characters in all. */
export const keyOf = (number) => `user:${100_000_000 + number}`;

/**
 * Keeps `count` calls in flight and returns how many were admitted. A rejection that is not an
 * error is a denial. Rejects with the first error.
 */
export async function keepInFlight(count, operations, call, isAdmitted) {
  let begun = 0;
  let admitted = 0;
  const loop = async () => {
    while (begun < operations) {
      begun++;
      try {
        if (isAdmitted(await call())) admitted++;
      } catch (denial) {
        if (denial instanceof Error) throw denial;
      }
    }
  };
  await Promise.all(Array.from({ length: count }, loop));
  return admitted;
}

/**
 * Returns the microseconds that these commands took, from INFO. The time of a script includes the
 * commands it calls, which INFO also lists: pass only commands that clients send.
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

/** Returns the methods of a contender that calls Redis with this client. */
export function underLoad(client, call, isAdmitted, options, commands = SCRIPTS) {
  const { inFlight, keys, limit, admits } = options;
  let calls = 0;
  const next = () => call(keyOf(calls++ % keys));
  return {
    /**
     * Uses up the limit of every key. Each call of a key is in another millisecond, because a log
     * may keep the calls of one millisecond as one entry.
     */
    async fill() {
      for (let turn = 0; turn < limit; turn++) {
        const admitted = await keepInFlight(keys, keys, next, isAdmitted);
        if (admitted !== keys) throw new Error(`${keys - admitted} were denied below the limit`);
        await sleep(2);
      }
    },

    /** Returns the time, client CPU and server time of one operation, in nanoseconds. */
    async run(operations) {
      await client.config('RESETSTAT');
      const before = serverCpu(await client.info('cpu'));
      const cpu = process.cpuUsage();
      const start = process.hrtime.bigint();
      const admitted = await keepInFlight(inFlight, operations, next, isAdmitted);
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
      };
    },
  };
}
