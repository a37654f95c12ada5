/**
 * A hostile client in its own process. Fills a log, sends `{ type: 'ready' }`, and attacks
 * from the message `'go'` to the message `'stop'`, then sends the number of its calls.
 */
import { once } from 'node:events';
import { createLimiter, ManualClock } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients } from '../../../../tools/servers/clients.mjs';

const { url, prefix, entries } = JSON.parse(process.argv[2]);
const { client, close } = await clients.ioredis(url);
const clock = new ManualClock(1_745_000_100_000);
const store = redisStore(client, {
  prefix,
  onFailure: 'throw',
  deadlineMs: 60_000,
  onWarning() {},
});
const huge = { limit: entries, window: '1h' };
const limiter = createLimiter({ policies: { huge, bad: '10/1m' }, store, clock });

let state = 3;
const random = (below) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const receipts = [];
for (let made = 0; made < entries; made += 500) {
  const some = Array.from({ length: 500 }, () => {
    clock.advance(1);
    return limiter.check('huge', 'a');
  });
  for (const { receipt } of await Promise.all(some)) receipts.push(receipt);
}
await client.set(`${prefix}{text}badL1m`, 'not a log');
await client.hset(`${prefix}{hash}badL1m`, 'h', 'h'.repeat(200));

const ignored = () => {};
const attacks = [
  () => limiter.refund(receipts[random(entries)]),
  () => limiter.refund(receipts[random(200)]),
  () => limiter.settle(receipts[random(entries)], 3),
  () => limiter.check('huge', 'a', { cost: 1 + random(entries) }),
  () => limiter.check('huge', 'b', { id: `${random(1e9)}`.padEnd(900, 'x') }),
  () => limiter.inspect('huge', 'a'),
  () => limiter.check('bad', 'text').catch(ignored),
  () => limiter.check('bad', 'hash').catch(ignored),
];

process.send({ type: 'ready' });
await once(process, 'message');
let isStopped = false;
process.once('message', () => {
  isStopped = true;
});
let done = 0;
while (!isStopped) {
  // Several calls in one turn are sent in one batch.
  await Promise.all(Array.from({ length: 4 }, () => attacks[random(attacks.length)]()));
  clock.advance(random(3));
  done += 4;
  await new Promise((resolve) => setTimeout(resolve, 1));
}
process.send({ type: 'done', attacks: done });
await close();
process.disconnect();
