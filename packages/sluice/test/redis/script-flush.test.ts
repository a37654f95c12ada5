/** Redis may delete its scripts at any time. The store sends them again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { connect, isFull, newPrefix, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();

const DECISIONS = isFull ? 100_000 : 2000;
const AT_ONCE = 20;
const EVERY_MS = 10;

const policies = {
  log: '1000000/1h',
  fixed: { limit: 1_000_000, window: '100d', algorithm: 'fixed-window' },
} as const;

it(`${DECISIONS} decisions are exact while the scripts are flushed repeatedly`, async () => {
  const flusher = await connect(world.server.port);
  let flushes = 0;
  let isOver = false;
  const flushing = (async () => {
    for (; !isOver; await sleep(EVERY_MS)) {
      await flusher.script('FLUSH', 'SYNC');
      flushes++;
    }
  })();

  let resent = 0;
  const send: Send = (args, key) => {
    if (args[0] === 'EVAL') resent++;
    return world.send(args, key);
  };
  const store = redisStore(send, { prefix: newPrefix(), onFailure: 'throw', deadlineMs: 10_000 });
  const limiter = createLimiter({ policies, store });
  const charged = { single: 0, joint: 0, refunded: 0 };
  for (let done = 0; done < DECISIONS; done += AT_ONCE) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, async (_, place) => {
        const isJoint = place % 4 === 0;
        const decision = isJoint
          ? await limiter.check([
              { policy: 'log', key: 'a' },
              { policy: 'fixed', key: 'a' },
            ])
          : await limiter.check('log', 'a');
        expect(decision.allowed).toBe(true);
        charged[isJoint ? 'joint' : 'single']++;
        if (place === 1) charged.refunded += await limiter.refund(decision.receipt!);
      }),
    );
    // Without a pause, the short form would end after few flushes.
    if (!isFull) await sleep(2);
  }
  isOver = true;
  await flushing;
  flusher.disconnect();

  const { single, joint, refunded } = charged;
  expect(refunded).toBe(DECISIONS / AT_ONCE);
  expect((await limiter.inspect('log', 'a'))!.used).toBe(single + joint - refunded);
  expect((await limiter.inspect('fixed', 'a'))!.used).toBe(joint);
  // Asserts that flushes had an effect.
  expect(resent).toBeGreaterThan(5);
  if (isFull)
    console.log(`script flush: ${DECISIONS} decisions, ${flushes} flushes, ${resent} scripts sent`);
});
