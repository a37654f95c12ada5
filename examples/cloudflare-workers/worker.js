/**
 * A Cloudflare Worker. The sixth request within 10 s gets a 429 with Retry-After.
 *
 * With REDIS_HTTP_URL and REDIS_HTTP_TOKEN, the counters are in a Redis that is available over
 * HTTP. Without these variables, each isolate has its own counters, and Cloudflare runs many
 * isolates.
 */
import { rateLimit } from 'sluice/fetch';
import { redisStore } from 'sluice/redis';

const respond = () => Response.json({ hello: 'world' });

const limit = {
  name: 'api',
  limit: 5,
  window: '10s',
  // Cloudflare overwrites this header, so clients cannot forge it.
  address: (request) => request.headers.get('cf-connecting-ip') ?? undefined,
};

/** Returns a function that sends a command to Redis over HTTP. */
function sendTo({ REDIS_HTTP_URL, REDIS_HTTP_TOKEN }) {
  return async (args) => {
    const headers = { authorization: `Bearer ${REDIS_HTTP_TOKEN}` };
    const body = JSON.stringify(args);
    const response = await fetch(REDIS_HTTP_URL, { method: 'POST', headers, body });
    const { result, error } = await response.json();
    if (error !== undefined) throw new Error(error);
    return result;
  };
}

let inMemory;

/**
 * Returns the handler with the limit. Called for a request, not at the top level of the module: the
 * limiter needs random numbers, which Workers allow only in requests.
 */
function handlerFor(env) {
  if (env.REDIS_HTTP_URL === undefined) {
    inMemory ??= rateLimit(limit)(respond);
    return inMemory;
  }
  // Create a store for each request: a Worker must not use a connection that another request
  // opened.
  return rateLimit({ ...limit, store: redisStore(sendTo(env), { deadlineMs: 1000 }) })(respond);
}

export default {
  fetch: (request, env, context) => handlerFor(env)(request, env, context),
};
