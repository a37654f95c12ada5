/** Limits that several processes share on Redis: here several limiters with own connections. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { type LlmFetchOptions, llmFetch } from '../../src/llm/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { chatObject, chatUsage } from './model-server.ts';
import { chat, post } from './setup.ts';

let server: RedisServer;
const clients: Redis[] = [];
beforeAll(async () => {
  server = await startRedis();
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await server.stop();
});

const POLICIES = { requests: '100/1h', tokens: { limit: 5000, window: '1h' } } as const;

function connected(key: string, options: Omit<LlmFetchOptions<typeof POLICIES>, 'tokens'>) {
  const client = new Redis(server.url);
  clients.push(client);
  const store = redisStore(client, { deadlineMs: 5000, onFailure: 'throw', onWarning() {} });
  const limiter = createLimiter({ policies: POLICIES, store });
  const call = llmFetch(limiter, {
    requests: { policy: 'requests', key },
    tokens: { policy: 'tokens', key },
    ...options,
  });
  const used = async () => (await limiter.inspect('tokens', key))?.used ?? 0;
  return { call, used, limiter };
}

const URL = 'http://model.test/v1/chat/completions';

it('calls of four limiters on Redis reserve at most the limit and are settled', async () => {
  const model = async () => {
    await sleep(20);
    return new Response(chatObject('x', chatUsage({ input: 20, output: 80 })));
  };
  const all = Array.from({ length: 4 }, () => connected('bounds', { fetch: model }));
  const statuses = await Promise.all(
    Array.from({ length: 40 }, async (_, number) => {
      const response = await all[number % all.length].call(URL, post(chat()));
      expect(await all[0].used()).toBeLessThanOrEqual(5000);
      await response.text();
      return response.status;
    }),
  );
  const sent = statuses.filter((status) => status === 200).length;
  // 8 reservations of 582 tokens fit at the same time.
  expect(sent).toBeGreaterThanOrEqual(8);
  await expect.poll(all[0].used).toBe(100 * sent);
  expect((await all[0].limiter.peek('requests', 'bounds')).remaining).toBe(100 - sent);
});

it('usage above the estimate is charged past the limit on Redis', async () => {
  const model = async () => new Response(chatObject('x', chatUsage({ input: 1000, output: 3000 })));
  const estimate = () => ({ inputTokens: 100, outputTokens: 100 });
  const { call, used } = connected('debts', { fetch: model, estimate });
  await Promise.all(Array.from({ length: 2 }, async () => (await call(URL, post(chat()))).text()));
  await expect.poll(used).toBe(8000);
  expect((await call(URL, post(chat()))).status).toBe(429);
});
