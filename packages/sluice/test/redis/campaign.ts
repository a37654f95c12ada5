/** What the tests of failures share: how long they are, and how they reach their server. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { Redis, type RedisOptions } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import type { Send } from '../../src/stores/redis/index.ts';

/** `SLUICE_CAMPAIGN=full` is the long form, which also holds the figures to what they must be. */
export const isFull = process.env.SLUICE_CAMPAIGN === 'full';

const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;

export function needRedis(): void {
  beforeAll(() => void execFileSync(ensureServices, ['redis']), 300_000);
}

/** As the documents say a client should be set up for a limiter. */
export const CLIENT_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // Quicker than by default, so that tests need not wait for the client.
  retryStrategy: (attempt: number) => Math.min(attempt * 20, 200),
} satisfies RedisOptions;

/** A client that is connected. Its errors are also told to whoever sent the command. */
export async function connect(port: number): Promise<Redis> {
  const client = new Redis({ host: '127.0.0.1', port, ...CLIENT_OPTIONS });
  client.on('error', () => {});
  await once(client, 'ready');
  return client;
}

export const sendBy =
  (client: Redis): Send =>
  ([command, ...args]) =>
    client.call(command, args);

/** A server for all tests of a file, and a client for it; both are there once the tests run. */
export function useRedis(): { server: RedisServer; client: Redis; send: Send } {
  const world = {} as { server: RedisServer; client: Redis; send: Send };
  needRedis();
  beforeAll(async () => {
    world.server = await startRedis();
    world.client = await connect(world.server.port);
    world.send = sendBy(world.client);
  });
  afterAll(async () => {
    world.client?.disconnect();
    await world.server?.stop();
  });
  return world;
}

/** Nothing is told twice: the tests that are about warnings look at them themselves. */
export const silent = { onWarning: (): void => {} };

let prefixes = 0;

/** A prefix that no other test of this process has. */
export const newPrefix = (): string => `t${++prefixes}:`;
