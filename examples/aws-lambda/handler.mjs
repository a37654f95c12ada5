/**
 * A Lambda function behind an HTTP API of API Gateway (payload format 2.0).
 *
 * The sixth request of a client within 10 s gets a 429 with Retry-After. Lambda runs many instances
 * of a function. Set REDIS_URL, so that they share the counters in Redis; otherwise each instance
 * has its own.
 */
import { Redis } from 'ioredis';
import { createLimiter, memoryStore } from 'sluice';
import { redisStore } from 'sluice/redis';

const policies = { perClient: '5/10s' };

/** Opens the connection once per instance, not once per request. */
function openStore(url) {
  if (url === undefined) return memoryStore();
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    socketTimeout: 5000,
  });
  // Without a listener, an error would end the process. While Redis is unreachable, a local limit
  // decides; see `onFailure`.
  client.on('error', () => {});
  return redisStore(client);
}

const limiter = createLimiter({ policies, store: openStore(process.env.REDIS_URL) });

/**
 * Returns the key: the user that a JWT authorizer has verified, otherwise the client address. API
 * Gateway sets `sourceIp`; clients can forge x-forwarded-for.
 */
function keyOf({ requestContext }) {
  const user = requestContext.authorizer?.jwt?.claims?.sub;
  return user === undefined ? ['address', requestContext.http.sourceIp] : ['user', user];
}

const json = (statusCode, body, headers = {}) => ({
  statusCode,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

export async function handler(event) {
  const { allowed, remaining, retryAfterMs } = await limiter.check('perClient', keyOf(event));
  if (allowed) return json(200, { hello: 'world', remaining });
  const seconds = Math.ceil(retryAfterMs / 1000);
  return json(429, { error: 'Too many requests', retryAfterMs }, { 'retry-after': `${seconds}` });
}
