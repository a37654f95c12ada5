/**
 * Semaphores on Redis. Each starts jobs that all wait for the same slots, and returns when each of
 * them ran, by the clock that all processes of a machine share.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Mutex, Semaphore } from 'redis-semaphore';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { connect } from '../redis/clients.mjs';

const LEASE_MS = 30_000;

const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

/** `call` runs a job when it has a slot. */
function jobsOf(call, { jobs, workMs }) {
  return {
    async run(round) {
      const ran = [];
      const job = async () => {
        const startMs = nowMs();
        await sleep(workMs);
        ran.push({ startMs, endMs: nowMs() });
      };
      const all = Array.from({ length: jobs }, () => call(`round-${round}`, job));
      const waitingMs = nowMs();
      await Promise.all(all);
      return { jobs: ran, waitingMs };
    },
  };
}

export const contenders = {
  'sluice run': async (options) => {
    const client = await connect(options.port);
    const store = redisStore(client, { onFailure: 'throw', deadlineMs: 5000, onWarning() {} });
    const policies = { jobs: { concurrency: options.slots, lease: LEASE_MS } };
    const limiter = createLimiter({ policies, store });
    return jobsOf((key, job) => limiter.run('jobs', key, job), options);
  },

  /** With its default settings: each waiter tries again every 10 ms. */
  'redis-semaphore': async (options) => {
    const { port, slots } = options;
    const client = await connect(port);
    const settings = { lockTimeout: LEASE_MS, acquireTimeout: 60_000 };
    const open = (key) =>
      slots === 1 ? new Mutex(client, key, settings) : new Semaphore(client, key, slots, settings);
    return jobsOf(async (key, job) => {
      const lock = open(key);
      await lock.acquire();
      try {
        await job();
      } finally {
        await lock.release();
      }
    }, options);
  },
};
