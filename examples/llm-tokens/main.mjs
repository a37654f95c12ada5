/**
 * Language model tokens: 10,000 per minute for each API key. The cost of a call is known only after
 * the call, so the server reserves an estimate first and settles the actual cost afterwards.
 *
 *     npm run build && node examples/llm-tokens/main.mjs
 *     curl -i http://127.0.0.1:3000/ask -H 'x-api-key: ada' \
 *       -H 'content-type: application/json' -d '{ "prompt": "What is a sluice?" }'
 *
 * The RateLimit header of a response counts the estimate of this call, and the actual cost of
 * earlier calls. Concurrent calls cannot exceed the limit, because each has reserved its estimate.
 * A failed call is refunded; send "fail": true to try it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { rateLimit } from 'sluice/express';

const TOKENS_PER_MINUTE = 10_000;
const MAX_ANSWER_TOKENS = 4000;
const keys = new Set(['ada', 'grace']);

/** Estimates four characters per token. */
const tokensIn = (text) => Math.ceil(text.length / 4);

/** Returns the maximum cost of a call: the prompt and the longest possible answer. */
const estimate = ({ prompt }) => tokensIn(prompt) + MAX_ANSWER_TOKENS;

/** A fake model. Fails if `fail` is set. */
async function model({ prompt, fail }) {
  await sleep(100);
  if (fail) throw Object.assign(new Error('The model is unavailable.'), { status: 502 });
  const text = `You asked: ${prompt}`;
  return { text, tokens: tokensIn(prompt) + tokensIn(text) };
}

const app = express();
app.use(express.json());

function checkRequest(request, response, next) {
  const { body } = request;
  const reject = (status, error) => response.status(status).json({ error });
  // Authenticate first: otherwise a client could invent keys, and would have a budget for each.
  if (!keys.has(request.get('x-api-key'))) reject(401, 'No such key.');
  else if (typeof body?.prompt !== 'string') reject(400, 'Expected a prompt.');
  // A cost above the limit would never be admitted.
  else if (estimate(body) > TOKENS_PER_MINUTE) reject(413, 'The prompt is too long.');
  else next();
}

/** Limits how many keys an address can try. */
const limitAddress = rateLimit({ name: 'address', limit: 120, window: '1m', headers: 'none' });

const limitTokens = rateLimit({
  name: 'tokens',
  limit: TOKENS_PER_MINUTE,
  window: '1m',
  key: { header: 'x-api-key', authenticated: true },
  cost: (request) => estimate(request.body),
  // If `tokens` is undefined, the estimate stays charged, for example if the client disconnects
  // early.
  settle: ({ request, status }) => (status >= 400 ? 0 : request.tokens),
});

app.post('/ask', limitAddress, checkRequest, limitTokens, async (request, response) => {
  const { text, tokens } = await model(request.body);
  request.tokens = tokens;
  response.json({ text, reserved: request.rateLimit.decision.cost, used: tokens });
});

// Express treats a function with four parameters as the error handler.
app.use((error, _request, response, _next) => {
  response.status(error.status ?? 500).json({ error: error.message });
});

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
