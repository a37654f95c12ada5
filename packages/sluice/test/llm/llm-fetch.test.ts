import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { llmFetch } from '../../src/llm/index.ts';
import {
  chatEvents,
  chatObject,
  chatUsage,
  EVENTS,
  JSON_TYPE,
  type ModelServer,
  messageEvents,
  responseEvents,
  startModelServer,
} from './model-server.ts';
import { chat, post, setUp, turns, until } from './setup.ts';

let server: ModelServer;
const chatUrl = () => `${server.url}/chat/completions`;
const messagesUrl = () => `${server.url}/messages`;

beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());
beforeEach(() => {
  server.bodies.length = 0;
  const usage = chatUsage({ input: 20, output: 30 }, 10);
  server.reply = () => ({ headers: JSON_TYPE, chunks: [chatObject('Hello', usage)] });
});

describe('reservation and settlement', () => {
  it('llmFetch reserves all limits in one check and settles the usage of a JSON body', async () => {
    const { call, used, settled } = setUp();
    const response = await call(chatUrl(), post(chat()));
    const bytes = JSON.stringify(chat()).length;
    // 2.5 micros for each byte of the body and 10 for each token of the cap.
    const reserved = { requests: 1, tokens: bytes + 500, money: Math.ceil(bytes * 2.5 + 5000) };
    expect(used()).toEqual({ ...reserved, slots: 1 });
    expect(await response.json()).toMatchObject({ object: 'chat.completion' });
    // 10 x 2.5 + 10 x 1.25 + 30 x 10
    expect(used()).toEqual({ requests: 1, tokens: 50, money: 338, slots: 0 });
    await until(() => settled.length > 0);
    expect(settled[0]).toMatchObject({
      ending: 'completed',
      isReported: true,
      reserved,
      charged: { requests: 1, tokens: 50, money: 338 },
      usage: { inputTokens: 10, cachedInputTokens: 10, cacheWriteTokens: 0, outputTokens: 30 },
    });
  });

  it('llmFetch settles the usage of the streams of all three APIs', async () => {
    const tokens = { input: 11, output: 7 };
    const streams = [
      ['chat/completions', chat({ stream: true }), chatEvents(['a', 'b'], tokens)],
      ['responses', { model: 'gpt-4o', input: 'Hi', stream: true }, responseEvents(['a'], tokens)],
      ['messages', { ...chat({ stream: true }), model: 'claude' }, messageEvents(['a'], tokens)],
    ] as const;
    for (const [path, body, chunks] of streams) {
      const { call, used } = setUp();
      server.reply = () => ({ headers: EVENTS, chunks });
      const response = await call(`${server.url}/${path}`, post(body));
      expect(used()).toMatchObject({ slots: 1 });
      expect(await response.text()).toBe(chunks.join(''));
      expect(used()).toMatchObject({ requests: 1, tokens: 18, slots: 0 });
    }
  });

  it('a chunk of a stream reaches the caller before the next chunk is sent', async () => {
    let next = (): void => {};
    const ready = new Promise<void>((resolve) => {
      next = resolve;
    });
    const chunks = chatEvents(['one', 'two'], { input: 1, output: 2 });
    const stream = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(new TextEncoder().encode(chunks[0]));
        await ready;
        controller.enqueue(new TextEncoder().encode(chunks.slice(1).join('')));
        controller.close();
      },
    });
    const { call } = setUp({ fetch: async () => new Response(stream) });
    const reader = (await call(chatUrl(), post(chat({ stream: true })))).body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(chunks[0]);
    next();
    expect((await reader.read()).done).toBe(false);
    expect((await reader.read()).done).toBe(true);
  });

  it('the response of llmFetch has the status, headers and URL of the original', async () => {
    const { call } = setUp();
    server.reply = () => ({ status: 201, headers: { 'x-request-id': 'r1' }, chunks: ['{}'] });
    const response = await call(chatUrl(), post(chat()));
    expect([response.status, response.url, response.headers.get('x-request-id')]).toEqual([
      201,
      chatUrl(),
      'r1',
    ]);
  });

  it('a call that generates no tokens is charged as a request only', async () => {
    const { call, used } = setUp();
    server.reply = () => ({ headers: JSON_TYPE, chunks: ['{"data":[]}'] });
    await (await call(`${server.url}/models`)).text();
    await (await call(`${server.url}/messages/count_tokens`, post(chat()))).text();
    expect(used()).toEqual({ requests: 2, tokens: 0, money: 0, slots: 0 });
  });

  it('llmFetch reads the body of a Request and of bytes', async () => {
    const { call, used } = setUp();
    const request = new Request(chatUrl(), post(chat({ max_tokens: 100 })));
    const first = await call(request);
    const bytes = JSON.stringify(chat({ max_tokens: 100 })).length;
    expect(used().tokens).toBe(bytes + 100);
    await first.text();
    const body = new TextEncoder().encode(JSON.stringify(chat({ max_tokens: 100 })));
    const second = await call(chatUrl(), { method: 'POST', body });
    expect(used().tokens).toBe(50 + bytes + 100);
    await second.text();
    expect(server.bodies).toEqual([chat({ max_tokens: 100 }), chat({ max_tokens: 100 })]);
  });

  it('embeddings are charged for their input', async () => {
    const { call, used } = setUp();
    const usage = { prompt_tokens: 8, total_tokens: 8 };
    server.reply = () => ({ chunks: [JSON.stringify({ data: [{ embedding: [0.1] }], usage })] });
    const body = { model: 'gpt-4o', input: ['Hello', 'world'] };
    const response = await call(`${server.url}/embeddings`, post(body));
    expect(used().tokens).toBe(JSON.stringify(body).length);
    await response.json();
    expect(used()).toMatchObject({ tokens: 8, money: 20 });
  });

  it('a key function of llmFetch receives the model and the headers', async () => {
    const limiter = createLimiter({ policies: { tokens: '100000/1h' } });
    const call = llmFetch(limiter, {
      tokens: { policy: 'tokens', key: ({ model, headers }) => [model, headers.get('x-user')!] },
    });
    const headers = { 'x-user': 'ada' };
    await (await call(chatUrl(), post(chat(), { headers }))).text();
    expect(limiter.inspectSync('tokens', ['gpt-4o', 'ada'])?.used).toBe(50);
  });
});

describe('misbehaving servers', () => {
  const bound = JSON.stringify(chat()).length + 500;
  const streamBound = JSON.stringify(chat({ stream: true })).length + 500;

  it.each([
    ['a body that is not JSON', { chunks: ['<html>Bad gateway</html>'] }],
    ['an object without usage', { chunks: [chatObject('Hello')] }],
    ['an empty body', { chunks: [] }],
    [
      'a usage with huge numbers',
      { chunks: [chatObject('x', chatUsage({ input: 1e15, output: 1 }))] },
    ],
    ['a usage with negative numbers', { chunks: [chatObject('x', { prompt_tokens: -5 })] }],
  ])('a call whose response is %s is charged the bound', async (_, reply) => {
    const { call, used } = setUp();
    server.reply = () => reply;
    await (await call(chatUrl(), post(chat()))).text();
    expect(used()).toMatchObject({ requests: 1, tokens: bound, slots: 0 });
  });

  it('a stream without usage is charged the input bound and the bytes of the text', async () => {
    const { call, used } = setUp();
    const words = ['Hello', ' world'];
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(words) });
    await (await call(chatUrl(), post(chat({ stream: true })))).text();
    const events = chatEvents(words).length;
    expect(used().tokens).toBe(streamBound - 500 + 'Hello world'.length + events);
  });

  it('a stream without usage is charged the bound if the model hides reasoning', async () => {
    const { call, used } = setUp();
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(['Hello']) });
    const body = chat({ stream: true, reasoning_effort: 'high' });
    await (await call(chatUrl(), post(body))).text();
    expect(used().tokens).toBe(JSON.stringify(body).length + 500);
  });

  it('usage is read from a compressed body and from events with another content type', async () => {
    const { call, used } = setUp();
    const chunks = chatEvents(['a'], { input: 5, output: 6 });
    server.reply = () => ({ headers: JSON_TYPE, chunks, isCompressed: true });
    await (await call(chatUrl(), post(chat({ stream: true })))).text();
    expect(used()).toMatchObject({ tokens: 11, slots: 0 });
    server.reply = () => ({ headers: { 'Content-Type': 'text/plain' }, chunks });
    await (await call(chatUrl(), post(chat({ stream: true })))).text();
    expect(used()).toMatchObject({ tokens: 22, slots: 0 });
  });

  it.each([400, 401, 404, 429, 500, 503, 529])(
    'tokens and money of a response with status %i are refunded, the request is not',
    async (status) => {
      const { call, used, settled } = setUp();
      server.reply = () => ({
        status,
        chunks: [chatObject('x', chatUsage({ input: 5, output: 5 }))],
      });
      const response = await call(chatUrl(), post(chat()));
      expect(response.status).toBe(status);
      expect(used()).toEqual({ requests: 1, tokens: 0, money: 0, slots: 0 });
      await until(() => settled.length === 1);
      expect(settled[0].ending).toBe('rejected');
    },
  );

  it('a call that was not sent is refunded, including the request', async () => {
    const { call, used } = setUp();
    const closed = await startModelServer();
    await closed.close();
    const refused = call(`${closed.url}/chat/completions`, post(chat()));
    await expect(refused).rejects.toThrow('fetch failed');
    expect(used()).toEqual({ requests: 0, tokens: 0, money: 0, slots: 0 });
  });

  it('a call that loses the connection before the response is charged as a request', async () => {
    const { call, used } = setUp({
      fetch: async () => {
        const cause = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
        throw new TypeError('fetch failed', { cause });
      },
    });
    await expect(call(chatUrl(), post(chat()))).rejects.toThrow('fetch failed');
    expect(used()).toEqual({ requests: 1, tokens: 0, money: 0, slots: 0 });
  });
});

describe('denials', () => {
  const small = { tokens: 700 };

  it('a denied call gets a 429 in the shape of OpenAI and is not sent', async () => {
    const { call, used } = setUp({}, small);
    await call(chatUrl(), post(chat()));
    const before = used();
    const response = await call(chatUrl(), post(chat()));
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('3600');
    expect(response.headers.get('retry-after-ms')).toBe('3600000');
    // SDKs would retry after a second instead of an hour.
    expect(response.headers.get('x-should-retry')).toBe('false');
    expect(await response.json()).toEqual({
      error: {
        message: 'The call exceeds the limit of tokens. Retry after 3600000 ms.',
        type: 'rate_limit_error',
        param: null,
        code: 'rate_limit_exceeded',
        problem: {
          type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
          title: 'Quota Exceeded',
          status: 429,
          detail: 'The call exceeds the limit of tokens. Retry after 3600000 ms.',
          'violated-policies': ['tokens'],
          'retry-after-ms': 3_600_000,
        },
      },
    });
    expect(used()).toEqual(before);
    expect(server.bodies.length).toBe(1);
  });

  it('a denied call gets a 429 in the shape of Anthropic', async () => {
    const { call } = setUp({}, small);
    const body = { ...chat(), model: 'claude' };
    await call(messagesUrl(), post(body));
    const response = await call(messagesUrl(), post(body));
    expect(await response.json()).toMatchObject({
      type: 'error',
      error: { type: 'rate_limit_error', message: expect.stringContaining('tokens') },
    });
  });

  it("a denied call throws ERR_RATE_LIMITED if onDenied is 'throw'", async () => {
    const { call } = setUp({ onDenied: 'throw' }, small);
    await call(chatUrl(), post(chat()));
    await expect(call(chatUrl(), post(chat()))).rejects.toMatchObject({
      code: 'ERR_RATE_LIMITED',
      retryAfterMs: 3_600_000,
    });
  });

  it('a call waits up to maxWaitMs for the settlement of another call', async () => {
    const { call, clock } = setUp({ maxWaitMs: 5000 }, small);
    const first = await call(chatUrl(), post(chat()));
    const waiting = call(chatUrl(), post(chat()));
    await first.text();
    expect((await waiting).status).toBe(200);
    const late = call(chatUrl(), post(chat()));
    await turns();
    clock.advance(5000);
    expect((await late).status).toBe(429);
    expect(server.bodies.length).toBe(2);
  });

  it('a call with more tokens than the limit gets a 413', async () => {
    const { call, used } = setUp({}, { tokens: 100 });
    const response = await call(chatUrl(), post(chat()));
    expect([response.status, response.headers.get('x-should-retry')]).toEqual([413, 'false']);
    expect(await response.json()).toMatchObject({
      error: { code: 'request_too_large', problem: { code: 'ERR_COST_ABOVE_LIMIT' } },
    });
    expect(used().requests).toBe(0);
  });

  it('a call without an output cap gets a 400, or throws ERR_UNBOUNDED_CALL', async () => {
    const body = { ...chat(), model: 'claude', max_tokens: undefined };
    const response = await setUp().call(chatUrl(), post(body));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringContaining('`maxOutputTokens` of `claude`') },
    });
    const throwing = setUp({ onDenied: 'throw' }).call(chatUrl(), post(body));
    await expect(throwing).rejects.toMatchObject({ code: 'ERR_UNBOUNDED_CALL' });
    expect(server.bodies).toEqual([]);
  });

  it('a call of a model without a price gets a 400, or throws ERR_UNKNOWN_PRICE', async () => {
    const body = chat({ model: 'gpt-4o-mini' });
    expect((await setUp().call(chatUrl(), post(body))).status).toBe(400);
    const throwing = setUp({ onDenied: 'throw' }).call(chatUrl(), post(body));
    await expect(throwing).rejects.toMatchObject({ code: 'ERR_UNKNOWN_PRICE' });
  });

  it('a call that is aborted while it waits rejects and charges nothing', async () => {
    const { call, used } = setUp({ maxWaitMs: 60_000 }, { inFlight: 1 });
    const first = await call(chatUrl(), post(chat()));
    const controller = new AbortController();
    const waiting = call(chatUrl(), post(chat(), { signal: controller.signal }));
    controller.abort(new Error('stopped'));
    await expect(waiting).rejects.toThrow('stopped');
    await first.text();
    expect(used()).toMatchObject({ requests: 1, slots: 0 });
  });
});

describe('options', () => {
  const limiter = createLimiter({ policies: { tokens: '1000/1m' } });
  const tokens = { policy: 'tokens', key: 'k' } as const;

  it.each([
    ['no limit', {}, 'a limit, one of: requests tokens'],
    ['a limit without a key', { tokens: { policy: 'tokens' } }, '`tokens` to have a policy and'],
    ['an unknown option', { tokens, modles: {} }, 'Unknown option `modles`'],
    ['a negative price', { tokens, models: { m: { input: -1, output: 1 } } }, '`input` of m'],
    ['one price of two', { tokens, models: { m: { input: 1 } } }, '`input` and `output` of m'],
    ['a cap of 0', { tokens, models: { m: { maxOutputTokens: 0 } } }, '`maxOutputTokens` of m'],
    ['a wrong onDenied', { tokens, onDenied: 'ignore' }, "'respond' or 'throw'"],
    ['a negative wait', { tokens, maxWaitMs: -1 }, '`maxWaitMs` to be a number >= 0'],
    ['an idle timeout of 0', { tokens, idleTimeoutMs: 0 }, '`idleTimeoutMs`'],
    ['an estimate that is no function', { tokens, estimate: 5 }, '`estimate` to be a function'],
  ])('llmFetch throws for %s', (_, options, message) => {
    expect(() => llmFetch(limiter, options as never)).toThrow(message);
  });

  it('llmFetch with an unknown policy rejects the call', async () => {
    const call = llmFetch(limiter, { tokens: { policy: 'tokns' as 'tokens', key: 'k' } });
    await expect(call(chatUrl(), post(chat()))).rejects.toMatchObject({
      code: 'ERR_UNKNOWN_POLICY',
    });
  });

  it('an error in onSettled does not affect the call', async () => {
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
    const { call, used } = setUp({
      onSettled: () => {
        throw new Error('broken callback');
      },
    });
    expect((await call(chatUrl(), post(chat()))).status).toBe(200);
    expect(used().slots).toBe(1);
    const response = await call(chatUrl(), post(chat()));
    await response.text();
    expect(await warned).toMatchObject({ code: 'WARN_CALLBACK' });
  });
});
