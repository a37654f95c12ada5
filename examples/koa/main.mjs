/**
 * Koa: five requests per ten seconds for each client.
 *
 *     npm run build && node examples/koa/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * The sixth response is a 429 with Retry-After. /health is not limited.
 */
import Koa from 'koa';
import { rateLimit } from 'sluice/koa';

const app = new Koa();

app.use(rateLimit({ limit: 5, window: '10s', skip: (context) => context.path === '/health' }));

app.use((context) => {
  // Skipped requests have no decision.
  context.body = { hello: 'world', remaining: context.state.rateLimit?.remaining };
});

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
