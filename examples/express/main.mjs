/**
 * Express: five requests per ten seconds for each client, and a stricter limit on one route.
 *
 *     npm run build && node examples/express/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * Every response has RateLimit headers. The sixth response is a 429 with Retry-After, and its body
 * contains problem details. /health is not limited; /export is limited to two requests per minute.
 */
import express from 'express';
import { rateLimit } from 'sluice/express';

const app = express();

// Routes that are added before the limit are not limited.
app.get('/health', (_request, response) => response.send('ok'));

app.use(rateLimit({ limit: 5, window: '10s' }));

app.get('/', (request, response) => {
  response.json({ hello: 'world', remaining: request.rateLimit.remaining });
});

const exports = rateLimit({ name: 'export', limit: 2, window: '1m' });
app.get('/export', exports, (_request, response) => response.send('a,b,c\n'));

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
