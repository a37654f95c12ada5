import { Redis } from 'ioredis';
import { it } from 'vitest';
import { memoryStore } from '/work/main/packages/sluice/src/stores/memory/memory-store.ts';
import { redisStore } from '/work/main/packages/sluice/src/stores/redis/redis-store.ts';
import { answersOf, traceFrom } from './redis/traces.ts';

it('diff', async () => {
  const r = new Redis({ port: 7791 });

  const store = redisStore(r, {
    onFailure: 'throw',
    deadlineMs: 5000,
    onWarning() {},
    prefix: 'd' + Date.now(),
  });
  const N = Number(process.env.N ?? 2000),
    from = Number(process.env.FROM ?? 0);
  let bad = 0;
  const t0 = Date.now();
  const one = async (seed: number) => {
    const trace = traceFrom(seed);
    const a = await answersOf(trace, memoryStore(), 'k' + seed).catch((e) => ['mem ' + e.stack]);
    const b = await answersOf(trace, store, 'k' + seed).catch((e) => ['red ' + e.stack]);
    const at = a.findIndex((x, i) => x !== b[i]);
    if (at >= 0 && bad++ < 3)
      console.log(
        'seed',
        seed,
        'step',
        at,
        JSON.stringify(trace.policies),
        JSON.stringify(trace.steps.slice(Math.max(0, at - 3), at + 1)),
        '\nmem',
        a[at],
        '\nred',
        b[at],
      );
  };
  for (let s = from; s < from + N; s += 500)
    await Promise.all(Array.from({ length: Math.min(500, from + N - s) }, (_, i) => one(s + i)));
  console.log('bad', bad, 'of', N, Date.now() - t0, 'ms');
  r.disconnect();
}, 3e6);
