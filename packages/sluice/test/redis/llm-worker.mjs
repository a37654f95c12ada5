/**
 * One of several processes that call a fake model through `llmFetch` with one limit of tokens.
 * Sends each admitted call: the time of its admission by the server, and the tokens that it used.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'sluice';
import { llmFetch } from 'sluice/llm';
import { redisStore } from 'sluice/redis';
import { clients } from '../../../../tools/servers/clients.mjs';

const URL = 'http://model.test/v1/chat/completions';
const INPUT_TOKENS = 20;

const settings = JSON.parse(process.argv[2]);
const { url, prefix, policy, calls, inFlight, maxTokens, estimate, maxWaitMs, seed } = settings;

const { client, close } = await clients.ioredis(url, { socketTimeout: 60_000 });
const store = redisStore(client, {
  ...{ prefix, onFailure: 'throw', deadlineMs: 60_000, denyCache: false, onWarning() {} },
  // In the long form, each process makes more calls at the same time than the default allows.
  maxInFlight: 20_000,
});
const limiter = createLimiter({ policies: { tokens: policy }, store });

let state = seed;
const random = (below) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

/** The call that the running code belongs to. */
const current = new AsyncLocalStorage();
limiter.onDecision(({ atMs }) => {
  current.getStore().atMs = atMs;
});

/** With `isHeld`, the model replies to no call before the test sends a message. */
const replies = settings.isHeld ? once(process, 'message') : undefined;
let reserved = 0;
let denied = 0;
let settled = 0;

/** With `isHeld`, reports when each call has either been sent to the model or been denied. */
function reportWhenHeld() {
  if (settings.isHeld && reserved + denied === calls) process.send('held');
}

async function model() {
  const call = current.getStore();
  reserved++;
  reportWhenHeld();
  await (replies ?? sleep(random(5)));
  const output = 1 + random(settings.mostOutput);
  call.tokens = INPUT_TOKENS + output;
  const usage = { prompt_tokens: INPUT_TOKENS, completion_tokens: output };
  return Response.json({ choices: [], usage });
}

const limited = llmFetch(limiter, {
  ...{ tokens: { policy: 'tokens', key: 'all' }, maxWaitMs, fetch: model },
  ...(estimate && { estimate: () => estimate }),
  onSettled: () => void settled++,
});
const body = JSON.stringify({ model: 'm', messages: [], max_tokens: maxTokens });

// Ends with the test, also if that fails.
process.once('disconnect', () => process.exit());

const made = [];
let started = 0;
async function makeCalls() {
  while (started < calls) {
    started++;
    const call = {};
    await current.run(call, async () => {
      const response = await limited(URL, { method: 'POST', body });
      await response.text();
      if (response.ok) made.push([call.atMs, call.tokens]);
      else {
        denied++;
        reportWhenHeld();
      }
    });
  }
}

await Promise.all(Array.from({ length: inFlight }, makeCalls));
// A call is settled after its body was read.
while (settled < made.length) await sleep(5);
process.send({ made, denied, settled }, () => process.disconnect());
await close();
