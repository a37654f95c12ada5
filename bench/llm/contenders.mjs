/**
 * Limiters of tokens. The `run` method of a contender keeps calls to a fake model in flight. It
 * resolves to the admitted calls, with the time of their admission by the clock of the limiter.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createLimiter } from 'sluice';
import { llmFetch } from 'sluice/llm';
import { redisStore } from 'sluice/redis';
import { connect } from '../redis/clients.mjs';

const URL = 'http://model.test/v1/chat/completions';
const INPUT_TOKENS = 20;
/** After a denial by a limiter without a queue, a caller tries again after this time. */
const RETRY_MS = 20;

/**
 * Returns a generator of numbers from 0 to 1. The same seed gives the same numbers, and each
 * process has its own seed.
 */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

/**
 * Returns a fake model. Its replies take 20 to 60 ms and have up to half of `maxTokens` tokens, on
 * average a quarter.
 */
function modelOf({ maxTokens, seed }) {
  const random = randomNumbers(seed);
  return () => ({
    delayMs: 20 + 40 * random(),
    output: 1 + Math.floor((random() * maxTokens) / 2),
  });
}

/** Calls `call` in `callers` concurrent loops for `forMs`. */
async function keepCalling(callers, forMs, call) {
  const endMs = performance.now() + forMs;
  const loop = async () => {
    while (performance.now() < endMs) await call(endMs - performance.now());
  };
  await Promise.all(Array.from({ length: callers }, loop));
}

async function ours(options, estimate) {
  const { port, limit, windowMs, callers, maxTokens } = options;
  const client = await connect(port);
  const store = redisStore(client, { onFailure: 'throw', deadlineMs: 5000, onWarning() {} });
  const policies = { tokens: { limit, window: windowMs } };
  const limiter = createLimiter({ policies, store });
  const model = modelOf(options);
  const current = new AsyncLocalStorage();
  let admitted = [];
  /**
   * The limiter, with an `acquire` that also records the time of the admission by the clock of
   * Redis.
   */
  const observed = Object.create(limiter, {
    acquire: {
      async value(...args) {
        const decision = await limiter.acquire(...args);
        current.getStore().atMs = decision.atMs;
        return decision;
      },
    },
    ...Object.fromEntries(
      ['peek', 'check', 'settle', 'refund'].map((name) => [
        name,
        { value: (...args) => limiter[name](...args) },
      ]),
    ),
  });
  const limited = llmFetch(observed, {
    tokens: { policy: 'tokens', key: options.key },
    maxWaitMs: 3 * windowMs,
    estimate,
    async fetch() {
      const { delayMs, output } = model();
      admitted.push({ atMs: current.getStore().atMs, tokens: INPUT_TOKENS + output });
      await sleep(delayMs);
      const usage = { prompt_tokens: INPUT_TOKENS, completion_tokens: output };
      return Response.json({ choices: [], usage });
    },
  });
  const body = JSON.stringify({ model: 'm', messages: [], max_tokens: maxTokens });
  return {
    async run(forMs) {
      admitted = [];
      await keepCalling(callers, forMs, (leftMs) =>
        current.run({}, async () => {
          const signal = AbortSignal.timeout(Math.max(Math.floor(leftMs), 1));
          const init = { method: 'POST', body };
          // At the end of the run, stop waiting for calls that are queued or in flight. The pause
          // below gives the calls in flight time to complete.
          const response = await Promise.race([limited(URL, init), aborted(signal)]);
          await response?.text();
        }),
      );
      await sleep(200);
      return admitted;
    },
  };
}

const aborted = (signal) =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });

export const contenders = {
  'sluice/llm': (options) => ours(options),

  'sluice/llm, estimates of the average': (options) =>
    ours(options, () => ({
      inputTokens: INPUT_TOKENS,
      outputTokens: Math.ceil(options.maxTokens / 4),
    })),

  /** Consumes the input before a call, and adds the output after it as a penalty. */
  'rate-limiter-flexible, penalty after the call': async (options) => {
    const { port, limit, windowMs, callers, key } = options;
    const client = await connect(port);
    const limiter = new RateLimiterRedis({
      ...{ storeClient: client, points: limit, duration: windowMs / 1000 },
    });
    const model = modelOf(options);
    return {
      async run(forMs) {
        const admitted = [];
        await keepCalling(callers, forMs, async () => {
          let result;
          try {
            result = await limiter.consume(key, INPUT_TOKENS);
          } catch (denial) {
            if (denial instanceof Error) throw denial;
            await sleep(RETRY_MS);
            return;
          }
          const { delayMs, output } = model();
          const atMs = Date.now();
          // The end of a window identifies it. Rounding removes differences between the clocks.
          const window = Math.round((atMs + result.msBeforeNext) / (windowMs / 4));
          admitted.push({ atMs, window, tokens: INPUT_TOKENS + output });
          await sleep(delayMs);
          await limiter.penalty(key, output);
        });
        return admitted;
      },
    };
  },
};
