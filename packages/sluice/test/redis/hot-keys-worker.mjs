/**
 * One of several processes that check the same few keys. Writes each decision to a file: number of
 * the key, time of the server, cost, whether it was admitted, remaining.
 */
import { writeFileSync } from 'node:fs';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients, clusterClients } from '../../../../tools/servers/clients.mjs';

const { url, nodes, prefix, policy, keys, decisions, inFlight, seed, file } = JSON.parse(
  process.argv[2],
);

// Long timeouts, so that no call fails on a busy machine.
const longTimeout = { socketTimeout: 30_000 };
const { client, close } = nodes
  ? await clusterClients.ioredis(nodes, longTimeout)
  : await clients.ioredis(url, longTimeout);
const store = redisStore(client, {
  prefix,
  onFailure: 'throw',
  deadlineMs: 30_000,
  // A cached denial is not a decision of the server.
  denyCache: false,
});
const limiter = createLimiter({ policies: { hot: policy }, store });

let state = seed;
const random = (below) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const rows = [];
let started = 0;
async function makeCalls() {
  while (started < decisions) {
    started++;
    const key = random(keys);
    const cost = 1 + random(10);
    const { allowed, atMs, remaining } = await limiter.check('hot', `key-${key}`, { cost });
    rows.push(key, atMs, cost, allowed ? 1 : 0, remaining);
  }
}
await Promise.all(Array.from({ length: inFlight }, makeCalls));
writeFileSync(file, Buffer.from(Float64Array.from(rows).buffer));
await close();
