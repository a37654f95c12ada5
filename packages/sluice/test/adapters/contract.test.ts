import { afterAll, beforeAll, describe, it } from 'vitest';
import { clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { memoryStore } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { adapterContract } from '../../src/testing/index.ts';
import { adapters } from './servers.ts';

let server: RedisServer;
let open: OpenClient;
let opened = 0;

beforeAll(async () => {
  server = await startRedis();
  open = await clients.ioredis(server.url);
});
afterAll(async () => {
  await open.close();
  await server.stop();
});

const stores = {
  memory: () => memoryStore(),
  redis: () =>
    redisStore(open.client, { prefix: `a${opened++}:`, onFailure: 'throw', deadlineMs: 10_000 }),
};

describe.each(Object.entries(adapters))('%s', (adapterName, adapter) => {
  describe.each(Object.entries(stores))('over %s', (storeName, openStore) => {
    for (const { name, run } of adapterContract) {
      it(`${adapterName} over ${storeName}: ${name}`, () => run(adapter, openStore));
    }
  });
});
