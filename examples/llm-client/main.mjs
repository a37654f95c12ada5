/**
 * A program that calls a language model within its limits: 3 calls at the same time, 4,000 tokens
 * per minute and 1 dollar per day. The calls are streamed. `limited` has the interface of `fetch`,
 * so you can also pass it to an SDK: `new OpenAI({ fetch: limited })`.
 *
 *     npm run build && node examples/llm-client/main.mjs
 *     MODEL_URL=https://api.openai.com/v1 OPENAI_API_KEY=... node examples/llm-client/main.mjs
 *
 * Each call reserves the most tokens that it can use, and settles its actual usage when its stream
 * ends. In total, the 12 calls reserve more than 4,000 tokens but use fewer, so all of them are
 * sent within seconds. Without MODEL_URL, a fake model in this process responds.
 */
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'sluice';
import { llmFetch } from 'sluice/llm';

const MODEL = 'gpt-4o-mini';
const MICROS_PER_DOLLAR = 1_000_000;
const QUESTIONS = Array.from({ length: 12 }, (_, number) => `What is ${number} times ${number}?`);

/** Responds with a stream of words, and then the usage. */
async function fakeModel(request, response) {
  const chunks = await request.toArray();
  const { messages } = JSON.parse(Buffer.concat(chunks).toString());
  const [, number] = /(\d+) times/.exec(messages[0].content);
  const words = `${number} times ${number} is ${number * number}.`.split(/(?<= )/);
  const send = (data) => response.write(`data: ${JSON.stringify(data)}\n\n`);
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for (const content of words) {
    send({ choices: [{ index: 0, delta: { content } }] });
    await sleep(5);
  }
  send({ choices: [], usage: { prompt_tokens: 14, completion_tokens: words.length } });
  response.end('data: [DONE]\n\n');
}

async function startFakeModel() {
  const server = createServer(fakeModel);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  server.unref();
  return `http://127.0.0.1:${server.address().port}/v1`;
}

const limiter = createLimiter({
  policies: {
    tokens: '4000/1m',
    budget: { limit: MICROS_PER_DOLLAR, window: '1d' },
    inFlight: { concurrency: 3 },
  },
});

let reserved = 0;
const limited = llmFetch(limiter, {
  tokens: { policy: 'tokens', key: MODEL },
  money: { policy: 'budget', key: 'example' },
  slot: { policy: 'inFlight', key: MODEL },
  models: { [MODEL]: { input: 0.15, output: 0.6, cachedInput: 0.075 } },
  maxWaitMs: 90_000,
  onSettled: (settlement) => {
    reserved += settlement.reserved.tokens;
  },
});

/** Returns the text of a stream of chat completions. */
async function textOf(response) {
  let text = '';
  for (const line of (await response.text()).split('\n')) {
    if (!line.startsWith('data: {')) continue;
    text += JSON.parse(line.slice('data: '.length)).choices[0]?.delta.content ?? '';
  }
  return text;
}

const url = process.env.MODEL_URL || (await startFakeModel());

async function ask(question) {
  const response = await limited(`${url}/chat/completions`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${process.env.OPENAI_API_KEY ?? ''}`,
    },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content: question }],
      max_tokens: 500,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return textOf(response);
}

for (const answer of await Promise.all(QUESTIONS.map(ask))) console.log(answer);

const used = 4000 - (await limiter.peek('tokens', MODEL)).remaining;
const micros = MICROS_PER_DOLLAR - (await limiter.peek('budget', 'example')).remaining;
console.log(`Reserved ${reserved} tokens, used ${used}, for ${micros / MICROS_PER_DOLLAR} dollars`);
