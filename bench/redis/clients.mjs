/**
 * The limiters on Redis, each with its usual setup. The functions return a function that takes a
 * key and returns the promise of a result. All limiters use the same client library with the same
 * settings.
 */
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { RedisStore } from 'rate-limit-redis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';

/**
 * Connects a client with default settings, except that it does not queue or resend commands and
 * closes the connection if the server does not respond for 30 s. So a failure ends the benchmark.
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

/** If Redis does not reply, a check rejects, so that no fallback is measured. */
const GUARD = { onFailure: 'throw', deadlineMs: 5000 };

/**
 * Returns a function that checks a key with Sluice. By default, the deny cache is off, because it
 * would avoid calls to Redis.
 */
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
  const store = new RedisStore({ sendCommand: (...args) => client.call(...args) });
  await store.init({ windowMs });
  return (key) => store.increment(key);
}

/**
 * The usual sliding log in a sorted set, in its shortest form: without costs and without a retry
 * time. For a retry time, other implementations also read the oldest entry.
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
  // A prefix that is unique among processes. It is short, because the server stores each member.
  const own = process.pid.toString(36);
  let calls = 0;
  return (key) => client.sortedSetLog(`log:${key}`, windowMs, limit, `${own}.${calls++}`);
}
