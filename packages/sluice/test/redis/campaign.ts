/** Shared by the tests of failures: short or long form, servers and clients. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { Redis, type RedisOptions } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { type ClientName, clients } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import type { Send } from '../../src/stores/redis/index.ts';
import type { VectorFile } from '../../src/testing/index.ts';

/** `SLUICE_CAMPAIGN=full` selects the long form, which also asserts times and memory. */
export const isFull = process.env.SLUICE_CAMPAIGN === 'full';

const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;

export function needRedis(): void {
  beforeAll(() => void execFileSync(ensureServices, ['redis']), 300_000);
}

/** The client options that docs/redis.md recommends. */
export const CLIENT_OPTIONS = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // Faster than the default, to shorten the tests.
  retryStrategy: (attempt: number) => Math.min(attempt * 20, 200),
} satisfies RedisOptions;

/** Returns a connected client. Its errors also reject the commands, so events are ignored. */
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

/** Starts a server and a client before all tests of a file. */
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

/**
 * Returns the vectors that a client runs. All do in the long form. In the short one, each client
 * runs an equal share, since no vector depends on the client.
 */
export function vectorsOf(client: ClientName, all: VectorFile): VectorFile {
  if (isFull) return all;
  const names = Object.keys(clients);
  const own = names.indexOf(client);
  return { ...all, cases: all.cases.filter((_, number) => number % names.length === own) };
}

/** Ignores warnings. The tests of warnings have their own listeners. */
export const silent = { onWarning: (): void => {} };

let prefixes = 0;

/** Returns a prefix that no other test of this process uses. */
export const newPrefix = (): string => `t${++prefixes}:`;
