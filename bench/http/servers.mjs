/**
 * The servers under load: for each framework the bare app, the app with Sluice, and the app with
 * the most used limiter of the framework. For Hono, also Sluice in front of the app. The other
 * limiters send rate-limit headers of the IETF draft version that takes them the least time.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';

const HOST = '127.0.0.1';
const BODY = { hello: 'world' };

/** Returns the methods that the benchmark calls on a server. */
function underLoad(server) {
  const { port } = server.address();
  return {
    port: () => port,

    /** Returns the CPU time of this process so far, in microseconds. */
    cpu() {
      const { user, system } = process.cpuUsage();
      return user + system;
    },
  };
}

async function express(middleware) {
  const { default: newApp } = await import('express');
  const app = newApp();
  if (middleware) app.use(middleware);
  app.get('/', (_, response) => {
    response.json(BODY);
  });
  const server = createServer(app).listen(0, HOST);
  await once(server, 'listening');
  return underLoad(server);
}

async function fastify(plugin, options) {
  const { default: newApp } = await import('fastify');
  const app = newApp();
  if (plugin) await app.register(plugin, options);
  app.get('/', async () => BODY);
  await app.listen({ port: 0, host: HOST });
  return underLoad(app.server);
}

async function hono(middleware, inFront = (handler) => handler) {
  const { Hono } = await import('hono');
  const { serve } = await import('@hono/node-server');
  const app = new Hono();
  if (middleware) app.use(middleware);
  app.get('/', (context) => context.json(BODY));
  const server = serve({ fetch: inFront(app.fetch), port: 0, hostname: HOST });
  await once(server, 'listening');
  return underLoad(server);
}

export const contenders = {
  'express, bare': () => express(),

  'express, sluice': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/express');
    return express(rateLimit({ limit, window: windowMs }));
  },

  'express, express-rate-limit': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('express-rate-limit');
    const headers = { standardHeaders: 'draft-7', legacyHeaders: false };
    return express(rateLimit({ limit, windowMs, ...headers }));
  },

  'fastify, bare': () => fastify(),

  'fastify, sluice': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/fastify');
    return fastify(rateLimit, { limit, window: windowMs });
  },

  'fastify, @fastify/rate-limit': async ({ limit, windowMs }) => {
    const { default: rateLimit } = await import('@fastify/rate-limit');
    return fastify(rateLimit, { max: limit, timeWindow: windowMs, enableDraftSpec: true });
  },

  'hono, bare': () => hono(),

  'hono, sluice': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/hono');
    return hono(rateLimit({ limit, window: windowMs }));
  },

  'hono, sluice in front': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/fetch');
    return hono(undefined, rateLimit({ limit, window: windowMs }));
  },

  'hono, hono-rate-limiter': async ({ limit, windowMs }) => {
    const { rateLimiter } = await import('hono-rate-limiter');
    const { getConnInfo } = await import('@hono/node-server/conninfo');
    const keyGenerator = (context) => getConnInfo(context).remote.address ?? '';
    return hono(rateLimiter({ limit, windowMs, standardHeaders: 'draft-7', keyGenerator }));
  },
};
