/**
 * Hono: five requests per ten seconds for each client, on Node.js, Deno, Bun or Workers.
 *
 *     npm run build && node examples/hono/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * The sixth response is a 429 with Retry-After. /export is limited to two requests per minute,
 * /health is not limited.
 */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { rateLimit } from 'sluice/hono';

const app = new Hono();

// Routes that are added before the limit are not limited.
app.get('/health', (context) => context.text('ok'));

app.use(rateLimit({ limit: 5, window: '10s' }));

app.get('/', (context) =>
  context.json({ hello: 'world', remaining: context.get('rateLimit').remaining }),
);

app.use('/export', rateLimit({ name: 'export', limit: 2, window: '1m' }));
app.get('/export', (context) => context.text('a,b,c\n'));

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (address) => {
  console.log(`Listening on http://127.0.0.1:${address.port}`);
});
