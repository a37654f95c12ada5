/**
 * One of several processes that call `run` on the same few keys. Each run ends in one of the given
 * ways, or with the process, which the test kills. The process ends after a number of admissions.
 *
 * Each event is one synchronous write, so that none is lost if the process is killed: kind, number
 * of the key, fence, time in ms, remaining. An admission has the time of the server. An end has the
 * time before its release was sent.
 */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients } from '../../../../tools/servers/clients.mjs';

const KINDS = ['admitted', 'return', 'throw', 'abort', 'cut', 'lost'];
/** Delay before the next call after the store failed. */
const RETRY_MS = 20;

const { url, prefix, policy, keys, runs, inFlight, workMs, seed, ways, file } = JSON.parse(
  process.argv[2],
);

// A long timeout, so that no call fails on a busy machine.
const { client, close } = await clients.ioredis(url, { socketTimeout: 30_000 }).catch(() => {
  // The test cut the connection before it was ready. It starts another process.
  process.exit();
});
const store = redisStore(client, {
  ...{ prefix, onFailure: 'throw', deadlineMs: 30_000, onWarning() {} },
});
const limiter = createLimiter({ policies: { jobs: policy }, store });

let state = seed;
const random = (below) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const log = openSync(file, 'a');
const record = (kind, key, fence, atMs, remaining = 0) => {
  const numbers = Float64Array.of(KINDS.indexOf(kind), key, fence, atMs, remaining);
  writeSync(log, new Uint8Array(numbers.buffer));
};

/** The runs that a lost connection ends. */
const running = new Set();
client.on('close', () => {
  for (const controller of running) controller.abort('cut');
});

let admitted = 0;

/** Works until a random time, or until the run is aborted. Returns how the run ends. */
async function work(signal, way, abort) {
  const controller = new AbortController();
  running.add(controller);
  const either = AbortSignal.any([signal, controller.signal]);
  try {
    await sleep(random(workMs), undefined, { signal: either });
    if (way !== 'abort') return way;
    abort();
  } catch {
    if (controller.signal.aborted) return controller.signal.reason;
  } finally {
    running.delete(controller);
  }
  return signal.reason?.code === 'ERR_LEASE_LOST' ? 'lost' : 'abort';
}

async function makeRun() {
  const key = random(keys);
  const way = ways[random(ways.length)];
  const controller = new AbortController();
  await limiter.run('jobs', `key-${key}`, { signal: controller.signal }, async (context) => {
    const { fence, decision, signal } = context;
    record('admitted', key, fence, decision.atMs, decision.remaining);
    admitted++;
    const ending = await work(signal, way, () => controller.abort('abort'));
    record(ending, key, fence, Date.now());
    if (ending !== 'return') throw new Error(ending);
  });
}

async function keepRunning() {
  while (admitted < runs) {
    try {
      await makeRun();
    } catch ({ message }) {
      if (!KINDS.includes(message)) await sleep(RETRY_MS);
    }
  }
}

await Promise.all(Array.from({ length: inFlight }, keepRunning));
await limiter.close();
await close();
process.exit();
