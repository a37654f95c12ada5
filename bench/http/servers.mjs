/**
 * The servers under load: of each framework one bare, one with sluice as it comes, one with the
 * limiter that most people use there, and one with a middleware that does nothing, which shows
 * what a framework itself takes for having one at all; and for Hono, where that is a tenth, one
 * with sluice in front of the whole app. The peers send the fields of a standard
 * draft, as sluice does, in the cheapest form that they have: where they can, the same two fields.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';

const HOST = '127.0.0.1';
const ANSWER = { hello: 'world' };

/** What a server offers the benchmark, once it listens. */
function underLoad(server) {
  const { port } = server.address();
  return {
    port: () => port,

    /** Microseconds of processor time that this process has used so far. */
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
    response.json(ANSWER);
  });
  const server = createServer(app).listen(0, HOST);
  await once(server, 'listening');
  return underLoad(server);
}

async function fastify(plugin, options) {
  const { default: newApp } = await import('fastify');
  const app = newApp();
  if (plugin) await app.register(plugin, options);
  app.get('/', async () => ANSWER);
  await app.listen({ port: 0, host: HOST });
  return underLoad(app.server);
}

async function hono(middleware, inFront = (handler) => handler) {
  const { Hono } = await import('hono');
  const { serve } = await import('@hono/node-server');
  const app = new Hono();
  if (middleware) app.use(middleware);
  app.get('/', (context) => context.json(ANSWER));
  const server = serve({ fetch: inFront(app.fetch), port: 0, hostname: HOST });
  await once(server, 'listening');
  return underLoad(server);
}

export const contenders = {
  'express, bare': () => express(),

  'express, empty middleware': () => express((_request, _response, next) => next()),

  'express, sluice': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/express');
    return express(rateLimit({ limit, window: windowMs }));
  },

  'express, express-rate-limit': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('express-rate-limit');
    const fields = { standardHeaders: 'draft-7', legacyHeaders: false };
    return express(rateLimit({ limit, windowMs, ...fields }));
  },

  'fastify, bare': () => fastify(),

  'fastify, empty middleware': () => {
    const plugin = async (app) => {
      app.addHook('onRequest', (_request, _reply, done) => done());
    };
    // Without this the hook would hold inside the plugin only, where there is no route.
    return fastify(Object.assign(plugin, { [Symbol.for('skip-override')]: true }));
  },

  'fastify, sluice': async ({ limit, windowMs }) => {
    const { rateLimit } = await import('sluice/fastify');
    return fastify(rateLimit, { limit, window: windowMs });
  },

  'fastify, @fastify/rate-limit': async ({ limit, windowMs }) => {
    const { default: rateLimit } = await import('@fastify/rate-limit');
    return fastify(rateLimit, { max: limit, timeWindow: windowMs, enableDraftSpec: true });
  },

  'hono, bare': () => hono(),

  'hono, empty middleware': () => hono((_, next) => next()),

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
