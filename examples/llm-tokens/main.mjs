/**
 * Tokens of a language model: 10,000 a minute for each API key. What a call costs is known only
 * afterwards, so an estimate is reserved before it and made the real number when it is over.
 *
 *     npm run build && node examples/llm-tokens/main.mjs
 *     curl -i http://127.0.0.1:3000/ask -H 'x-api-key: ada' \
 *       -H 'content-type: application/json' -d '{ "prompt": "What is a sluice?" }'
 *
 * RateLimit in the answer says what is left while the estimate counts, and in the next answer it is
 * the real number. Calls that run at the same time cannot overspend, because all have reserved.
 * A call that fails (say so with "fail": true) gets everything back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { rateLimit } from 'sluice/express';

const MOST_ANSWER_TOKENS = 4000;
const keys = new Set(['ada', 'grace']);

/** About four characters are a token. */
const tokensIn = (text) => Math.ceil(text.length / 4);

/** A model that is slow, says little, and fails when it is told to. */
async function model({ prompt, fail }) {
  await sleep(100);
  if (fail) throw Object.assign(new Error('The model is tired.'), { status: 502 });
  const text = `You asked: ${prompt}`;
  return { text, tokens: tokensIn(prompt) + tokensIn(text) };
}

const app = express();
app.use(express.json());

// Only keys that exist are counted, or whoever makes them up would have a budget each.
app.use((request, response, next) => {
  if (!keys.has(request.get('x-api-key'))) response.status(401).json({ error: 'No such key.' });
  else if (typeof request.body?.prompt !== 'string') response.status(400).json({ error: 'Ask.' });
  else next();
});

const limitTokens = rateLimit({
  name: 'tokens',
  limit: 10_000,
  window: '1m',
  key: { header: 'x-api-key' },
  cost: (request) => tokensIn(request.body.prompt) + MOST_ANSWER_TOKENS,
  // Without a number the estimate stays: who hangs up before the model is done pays for it.
  settle: ({ request, status }) => (status >= 400 ? 0 : request.tokens),
});

app.post('/ask', limitTokens, async (request, response) => {
  const { text, tokens } = await model(request.body);
  request.tokens = tokens;
  response.json({ text, reserved: request.rateLimit.decision.cost, used: tokens });
});

// Express takes a function with four parameters for the one that answers errors.
app.use((error, _request, response, _next) => {
  response.status(error.status ?? 500).json({ error: error.message });
});

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
