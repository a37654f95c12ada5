import { fastify } from 'fastify';
import { type FastifyRateLimit, rateLimit } from 'sluice/fastify';

const app = fastify();
await app.register(rateLimit, {
  limit: 100,
  window: '1m',
  keyGenerator: (request) => request.headers['x-user']?.toString(),
  handler: async (request, reply, { decision }) => {
    reply.header('x-path', request.url);
    return { retry: decision?.retryAfterMs };
  },
});
app.register(rateLimit, { global: false });

const login: FastifyRateLimit = { limit: 5, window: '1 m'.replace(' ', '') as '1m' };
app.post('/login', { config: { rateLimit: login } }, async (request) => request.rateLimit?.limit);
app.get(
  '/inline',
  { config: { rateLimit: { limit: 5, key: (request) => request.ip } } },
  (request) => {
    return { remaining: request.rateLimit?.remaining };
  },
);
app.get('/health', { config: { rateLimit: false } }, async () => 'ok');
