/**
 * What is compared on Redis, each as its users set it up: a function from a key to the promise of
 * an answer. All of them go through the same client library with the same settings.
 */
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { RedisStore } from 'rate-limit-redis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';

/**
 * The client's own settings, except that it neither queues nor repeats commands, nor waits for a
 * silent server: a benchmark must not go on as if nothing had happened.
 */
export async function connect(port, settings = {}) {
  const safe = {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    socketTimeout: 30_000,
  };
  const client = new Redis({ host: '127.0.0.1', port, ...safe, ...settings });
  await once(client, 'ready');
  return client;
}

/** Whatever the store cannot decide throws, so that no decision is made up in its place. */
const GUARD = { onFailure: 'throw', deadlineMs: 5000 };

/** The deny cache answers without Redis, so it is off where Redis is what is compared. */
export function sluice(client, policies, { clock, ...options } = {}) {
  const store = redisStore(client, { ...GUARD, denyCache: false, ...options });
  const limiter = createLimiter({ policies, store, ...(clock && { clock }) });
  const [name] = Object.keys(policies);
  return (key, fields) => limiter.check(name, key, fields);
}

export function flexible(client, { limit, windowMs }) {
  const options = { storeClient: client, points: limit, duration: windowMs / 1000 };
  const limiter = new RateLimiterRedis(options);
  return (key, points) => limiter.consume(key, points);
}

export async function expressStore(client, { windowMs }) {
  const store = new RedisStore({ sendCommand: (...words) => client.call(...words) });
  await store.init({ windowMs });
  return (key) => store.increment(key);
}

/**
 * The log that everybody writes. It is the shortest of its kind: it takes no cost and does not say
 * when to come back, for which others read the oldest entry as well.
 */
const SORTED_SET_LOG = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then return { 0, 0 } end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], window)
return { 1, limit - count - 1 }`;

export function sortedSetLog(client, { limit, windowMs }) {
  client.defineCommand('sortedSetLog', { numberOfKeys: 1, lua: SORTED_SET_LOG });
  // Unique among processes and as short as can be, because the server keeps each of them.
  const own = process.pid.toString(36);
  let calls = 0;
  return (key) => client.sortedSetLog(`log:${key}`, windowMs, limit, `${own}.${calls++}`);
}
