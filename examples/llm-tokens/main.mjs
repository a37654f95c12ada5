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

const TOKENS_A_MINUTE = 10_000;
const MAX_ANSWER_TOKENS = 4000;
const keys = new Set(['ada', 'grace']);

/** About four characters are a token. */
const tokensIn = (text) => Math.ceil(text.length / 4);

/** The most that a call can cost: the prompt, and an answer as long as answers get. */
const estimate = ({ prompt }) => tokensIn(prompt) + MAX_ANSWER_TOKENS;

/** A model that is slow, says little, and fails when it is told to. */
async function model({ prompt, fail }) {
  await sleep(100);
  if (fail) throw Object.assign(new Error('The model is tired.'), { status: 502 });
  const text = `You asked: ${prompt}`;
  return { text, tokens: tokensIn(prompt) + tokensIn(text) };
}

const app = express();
app.use(express.json());

function checkRequest(request, response, next) {
  const { body } = request;
  const refuse = (status, error) => response.status(status).json({ error });
  // Authenticate first: a client that makes up keys would have a budget for each of them.
  if (!keys.has(request.get('x-api-key'))) refuse(401, 'No such key.');
  else if (typeof body?.prompt !== 'string') refuse(400, 'Expected a prompt.');
  // What is more than a whole budget will not pass later either.
  else if (estimate(body) > TOKENS_A_MINUTE) refuse(413, 'The prompt is too long.');
  else next();
}

/** Bounds how many keys an address can try, whatever keys it sends. */
const limitAddress = rateLimit({ name: 'address', limit: 120, window: '1m', headers: 'none' });

const limitTokens = rateLimit({
  name: 'tokens',
  limit: TOKENS_A_MINUTE,
  window: '1m',
  key: { header: 'x-api-key' },
  cost: (request) => estimate(request.body),
  // Without a number the estimate stays: who hangs up before the model is done pays for it.
  settle: ({ request, status }) => (status >= 400 ? 0 : request.tokens),
});

app.post('/ask', limitAddress, checkRequest, limitTokens, async (request, response) => {
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
