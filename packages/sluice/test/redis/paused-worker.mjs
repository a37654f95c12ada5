/**
 * A process that the test may pause. With `isHolder`, it holds a slot until the run is aborted, and
 * does other work meanwhile, by `run` and `acquire`. Otherwise it takes the same slot repeatedly,
 * for a short time. Sends each event with its time, by the clock of the machine.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients } from '../../../../tools/servers/clients.mjs';

const OTHER_LOOPS = 4;
const SHORT_MS = 5;

const { url, prefix, key, lease, isHolder } = JSON.parse(process.argv[2]);
// Long timeouts, so that a pause does not end the connection.
const { client } = await clients.ioredis(url, { socketTimeout: 60_000 });
const store = redisStore(client, {
  ...{ prefix, onFailure: 'throw', deadlineMs: 60_000, onWarning() {} },
});
const policies = {
  jobs: { concurrency: 1, lease },
  others: { concurrency: 1000, lease: '1h' },
  rate: { limit: 1_000_000, window: '1s', algorithm: 'sliding-counter' },
};
const limiter = createLimiter({ policies, store });

const emit = (what, { fence, decidedMs } = {}) => {
  process.send({ what, fence, decidedMs, atMs: Number(process.hrtime.bigint()) / 1e6 });
};

async function hold() {
  for (;;) {
    await limiter
      .run('jobs', key, async ({ signal, fence }) => {
        emit('started', { fence });
        // At once, because other work may start before the code that awaits the event.
        signal.addEventListener('abort', () => emit(signal.reason.code, { fence }));
        await once(signal, 'abort');
      })
      // The hold ended before the function was called.
      .catch(({ code }) => emit(code));
  }
}

async function doOtherWork() {
  for (;;) {
    await limiter.run('others', key, ({ decision }) =>
      emit('other run', { decidedMs: decision.atMs }),
    );
    const { atMs } = await limiter.acquire('rate', key);
    emit('other acquire', { decidedMs: atMs });
    await sleep(1);
  }
}

async function compete() {
  for (;;) {
    await limiter.run('jobs', key, async ({ fence }) => {
      emit('started', { fence });
      await sleep(SHORT_MS);
    });
    await sleep(3 * SHORT_MS);
  }
}

process.once('disconnect', () => process.exit());
if (isHolder) for (let loop = 0; loop < OTHER_LOOPS; loop++) doOtherWork();
await (isHolder ? hold() : compete());
