/** Many concurrent calls: the limits are never exceeded, and are used up. */
import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { type LlmFetchOptions, llmFetch } from '../../src/llm/index.ts';
import { chatEvents, chatObject, chatUsage } from './model-server.ts';
import { chat, post, setUp, turns } from './setup.ts';

const URL = 'http://model.test/v1/chat/completions';
const WINDOW_MS = 60_000;

/** A model that replies after a time by the clock. */
function slowModel(clock: ManualClock, replyOf: () => { text: string; afterMs: number }) {
  return async (): Promise<Response> => {
    const { text, afterMs } = replyOf();
    await new Promise<void>((resolve) => clock.schedule(afterMs, resolve));
    return new Response(text);
  };
}

const replyWith = (input: number, output: number): string =>
  chatObject('x', chatUsage({ input, output }));

function limited(limit: number, options: Omit<LlmFetchOptions<never>, 'tokens'>) {
  const clock = options.clock as ManualClock;
  const limiter = createLimiter({ policies: { tokens: { limit, window: WINDOW_MS } }, clock });
  const call = llmFetch(limiter, { ...options, tokens: { policy: 'tokens', key: 'k' } });
  return { limiter, call, used: () => limiter.inspectSync('tokens', 'k')?.used ?? 0 };
}

/** Runs until the clock has advanced by `forMs`. Calls `observe` at each step. */
async function run(clock: ManualClock, forMs: number, observe: () => void): Promise<void> {
  const endMs = clock.now() + forMs;
  while (clock.now() < endMs) {
    clock.advance(250);
    await turns(3);
    observe();
  }
}

/** Makes calls one after another until the clock reaches `endMs`. */
async function keepCalling(clock: ManualClock, endMs: number, call: () => Promise<Response>) {
  while (clock.now() < endMs) {
    const response = await call();
    await response.text();
    if (!response.ok) await new Promise<void>((resolve) => clock.schedule(250, resolve));
  }
}

/** Deterministic numbers from 0 to 1. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

describe('parallel calls', () => {
  it('concurrent calls that reserve upper bounds never exceed the limit of a window', async () => {
    const clock = new ManualClock(1_745_000_100_000);
    const random = randomNumbers(7);
    const spent: { atMs: number; tokens: number }[] = [];
    const model = slowModel(clock, () => {
      const output = 1 + Math.floor(random() * 200);
      spent.push({ atMs: clock.now(), tokens: 20 + output });
      return { text: replyWith(20, output), afterMs: Math.floor(random() * 20_000) };
    });
    const { call, used } = limited(5000, { clock, fetch: model, maxWaitMs: 20_000 });
    const body = chat({ max_tokens: 200 });
    const endMs = clock.now() + 3 * WINDOW_MS;
    const callers = Array.from({ length: 40 }, () =>
      keepCalling(clock, endMs, () => call(URL, post(body))),
    );
    await run(clock, 4 * WINDOW_MS, () => expect(used()).toBeLessThanOrEqual(5000));
    await Promise.all(callers);
    expect(spent.length).toBeGreaterThan(100);
    // Brute force: the tokens of the calls that were sent in each window.
    for (const { atMs } of spent) {
      const inWindow = spent.filter((each) => each.atMs > atMs - WINDOW_MS && each.atMs <= atMs);
      expect(inWindow.reduce((sum, each) => sum + each.tokens, 0)).toBeLessThanOrEqual(5000);
    }
  });

  it('with estimates of four times the usage, at most 5 % of the limit stay unused', async () => {
    const clock = new ManualClock(1_745_000_100_000);
    const limit = 20_000;
    let tokens = 0;
    // Estimated are 400 tokens, used are 100.
    const model = slowModel(clock, () => {
      tokens += 100;
      return { text: replyWith(20, 80), afterMs: 2000 };
    });
    const estimate = () => ({ inputTokens: 80, outputTokens: 320 });
    const { call, used } = limited(limit, { clock, fetch: model, maxWaitMs: 90_000, estimate });
    const endMs = clock.now() + 4 * WINDOW_MS;
    const callers = Array.from({ length: 50 }, () =>
      keepCalling(clock, endMs, () => call(URL, post(chat()))),
    );
    await run(clock, 4 * WINDOW_MS, () => expect(used()).toBeLessThanOrEqual(limit));
    const share = tokens / (4 * limit);
    expect(share).toBeGreaterThanOrEqual(0.95);
    expect(share).toBeLessThanOrEqual(1);
    await run(clock, 2 * WINDOW_MS, () => {});
    await Promise.all(callers);
  });

  it('estimates that are too low exceed the limit by exactly their error', async () => {
    const actual = [150, 90, 400, 101, 100, 250, 130, 100, 100, 999];
    const clock = new ManualClock(1_745_000_100_000);
    const replies = [...actual];
    const model = slowModel(clock, () => ({
      text: replyWith(10, replies.shift()! - 10),
      afterMs: 1000,
    }));
    const estimate = () => ({ inputTokens: 10, outputTokens: 90 });
    const { call, used } = limited(1000, { clock, fetch: model, estimate });
    const calls = actual.map(async () => (await call(URL, post(chat()))).text());
    await turns();
    expect(used()).toBe(1000);
    expect((await call(URL, post(chat()))).status).toBe(429);
    clock.advance(1000);
    await Promise.all(calls);
    await turns();
    const error = actual.reduce((sum, tokens) => sum + tokens - 100, 0);
    expect(used() - 1000).toBe(error);
    // The debt is paid before the next call is admitted.
    expect((await call(URL, post(chat()))).status).toBe(429);
  });
});

describe('charging while a response is streamed', () => {
  function streaming(estimated: number, limits = {}) {
    const words: ReadableStreamDefaultController<Uint8Array>[] = [];
    const setup = setUp(
      {
        estimate: () => ({ inputTokens: 10, outputTokens: estimated }),
        fetch: async () =>
          new Response(new ReadableStream({ start: (controller) => void words.push(controller) })),
      },
      limits,
    );
    const send = (text: string) => words[0].enqueue(new TextEncoder().encode(text));
    return { ...setup, send, end: () => words[0].close() };
  }
  const word = (letters: number): string => chatEvents(['a'.repeat(letters)])[1];
  const last = (output: number): string => chatEvents([], { input: 10, output }).slice(2).join('');

  it('output above the estimate is charged in steps before the response ends', async () => {
    const { call, used, send, end, settled } = streaming(50);
    const reader = (
      await call(URL, post(chat({ stream: true, max_tokens: 1000 })))
    ).body!.getReader();
    expect(used().tokens).toBe(60);
    const seen = [];
    for (let count = 0; count < 10; count++) {
      send(word(100));
      await reader.read();
      await turns(2);
      seen.push(used().tokens);
    }
    // 25 tokens per chunk are estimated; a step is at least 64.
    expect(seen).toEqual([60, 60, 124, 124, 188, 188, 188, 252, 252, 316]);
    send(last(260));
    end();
    while (!(await reader.read()).done);
    await turns();
    expect(used()).toMatchObject({ tokens: 270, slots: 0 });
    expect(settled.length).toBe(1);
  });

  it('output above the estimate is charged past the limit', async () => {
    const { call, used, send, end, limiter } = streaming(50, { tokens: 100 });
    const reader = (
      await call(URL, post(chat({ stream: true, max_tokens: 1000 })))
    ).body!.getReader();
    send(word(800));
    await reader.read();
    await turns(2);
    expect(used().tokens).toBe(210);
    expect((await limiter.peek('tokens', 'k', { cost: 1 })).allowed).toBe(false);
    send(last(200));
    end();
    while (!(await reader.read()).done);
    await turns();
    expect(used().tokens).toBe(210);
  });

  it('charges above the cap of the body are made only for reported usage', async () => {
    const { call, used, send, end } = streaming(50);
    const reader = (
      await call(URL, post(chat({ stream: true, max_tokens: 60 })))
    ).body!.getReader();
    send(word(10_000));
    await reader.read();
    await turns(2);
    expect(used().tokens).toBe(70);
    send(last(65));
    end();
    while (!(await reader.read()).done);
    await turns();
    expect(used().tokens).toBe(75);
  });

  it('output of a call that outlasts the window is charged when it is generated', async () => {
    const { call, used, send, clock } = streaming(50);
    const reader = (
      await call(URL, post(chat({ stream: true, max_tokens: 1000 })))
    ).body!.getReader();
    // The window of an hour has passed.
    for (let minutes = 0; minutes < 61; minutes++) {
      clock.advance(60_000);
      send(word(1));
      await reader.read();
    }
    expect(used().tokens).toBe(0);
    send(word(400));
    await reader.read();
    await turns(2);
    expect(used().tokens).toBe(66);
  });
});
