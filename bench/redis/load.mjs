/** Load on a limiter that asks a server: calls in flight, and what they cost on both sides. */
import { setTimeout as sleep } from 'node:timers/promises';

/** User ids of nine digits: 14 characters in all. */
export const keyOf = (number) => `user:${100_000_000 + number}`;

/**
 * Keeps `count` calls in flight, by as many loops that each await one; answers how many were
 * admitted. A denial may come as a rejection; an error is no denial, and ends it all.
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
 * Microseconds that these commands took, out of INFO. A script's own time has the time of all that
 * it calls in it, and those stand there once more: so only what a client sends may be named.
 */
export function commandTime(info, commands) {
  let sum = 0;
  for (const [, name, time] of info.matchAll(/^cmdstat_([^:]+):.*\busec=(\d+)/gm)) {
    if (commands.includes(name)) sum += Number(time);
  }
  return sum;
}

/** Microseconds of processor time that the server has used since its start, out of INFO. */
export function serverCpu(info) {
  const seconds = [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)];
  return 1e6 * seconds.reduce((sum, [, each]) => sum + Number(each), 0);
}

const SCRIPTS = ['eval', 'evalsha'];

/** The methods of a contender whose calls go to Redis by this client. */
export function underLoad(client, call, isAdmitted, options, commands = SCRIPTS) {
  const { inFlight, keys, limit, admits } = options;
  let calls = 0;
  const next = () => call(keyOf(calls++ % keys));
  return {
    /**
     * Uses every key's limit up. The server is given a new millisecond for each call of a key,
     * because a log may keep what came in the same millisecond as one entry.
     */
    async fill() {
      for (let turn = 0; turn < limit; turn++) {
        const admitted = await keepInFlight(keys, keys, next, isAdmitted);
        if (admitted !== keys) throw new Error(`${keys - admitted} were denied below the limit`);
        await sleep(2);
      }
    },

    /** Answers what one operation takes in time and costs here and there, in nanoseconds. */
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
