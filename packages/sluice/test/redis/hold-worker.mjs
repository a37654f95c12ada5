/**
 * A process that takes a hold. With `release`, it releases the hold when it receives a message, and
 * disconnects the client but does not close the store, whose subscription must not keep it alive.
 */
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients } from '../../../../tools/servers/clients.mjs';

const { url, prefix, policy, key, release } = JSON.parse(process.argv[2]);
const { client, close } = await clients.ioredis(url);
const store = redisStore(client, { prefix, onFailure: 'throw', deadlineMs: 10_000 });
store.onRelease(() => {});
const limiter = createLimiter({ policies: { jobs: policy }, store });
const { receipt } = await limiter.check('jobs', key);
process.send('held');
process.once('message', async () => {
  if (release) await limiter.release(receipt);
  await close();
  process.disconnect();
});
