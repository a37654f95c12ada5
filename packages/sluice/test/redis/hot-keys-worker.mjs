/**
 * One of several processes that hammer at the same few keys. Writes what it was told to a file: for
 * each decision the key's number, the server's time, the cost, whether it passed, what remained.
 */
import { writeFileSync } from 'node:fs';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients, clusterClients } from '../../../../tools/servers/clients.mjs';

const { url, nodes, prefix, policy, keys, decisions, inFlight, seed, file } = JSON.parse(
  process.argv[2],
);

// No call may fail here, however busy the machine is.
const patient = { socketTimeout: 30_000 };
const { client, close } = nodes
  ? await clusterClients.ioredis(nodes, patient)
  : await clients.ioredis(url, patient);
const store = redisStore(client, {
  prefix,
  onFailure: 'throw',
  deadlineMs: 30_000,
  // A repeated denial is true, but not a decision of the server.
  denyCache: false,
});
const limiter = createLimiter({ policies: { hot: policy }, store });

let state = seed;
const random = (below) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const rows = [];
let asked = 0;
async function hammer() {
  while (asked < decisions) {
    asked++;
    const key = random(keys);
    const cost = 1 + random(10);
    const { allowed, atMs, remaining } = await limiter.check('hot', `key-${key}`, { cost });
    rows.push(key, atMs, cost, allowed ? 1 : 0, remaining);
  }
}
await Promise.all(Array.from({ length: inFlight }, hammer));
writeFileSync(file, Buffer.from(Float64Array.from(rows).buffer));
await close();
