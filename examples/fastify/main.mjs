/**
 * Fastify: a limit for all routes, a stricter limit for one route, and none for the health check.
 *
 *     npm run build && node examples/fastify/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * The sixth response is a 429 with Retry-After. /export is limited to two requests per minute,
 * /health is not limited.
 */
import { fastify } from 'fastify';
import { rateLimit } from 'sluice/fastify';

const app = fastify();

// Register the plugin before adding routes: the limit applies only to routes that are added later.
await app.register(rateLimit, { limit: 5, window: '10s' });

app.get('/', async () => ({ hello: 'world' }));

const twicePerMinute = { rateLimit: { name: 'export', limit: 2, window: '1m' } };
app.get('/export', { config: twicePerMinute }, async () => 'a,b,c\n');

app.get('/health', { config: { rateLimit: false } }, async () => 'ok');

const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' });
console.log(`Listening on ${address}`);
