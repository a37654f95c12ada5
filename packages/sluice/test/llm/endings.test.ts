/** Every ending of a call settles the call once, and releases its tokens and slots. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  chatEvents,
  chatObject,
  chatUsage,
  EVENTS,
  type ModelServer,
  messageEvents,
  responseEvents,
  startModelServer,
} from './model-server.ts';
import { chat, post, setUp, turns, until } from './setup.ts';

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());

const WORDS = ['Grüße ', 'aus ', '東京 ', '😀 ', 'und ', 'Bern'];
const TOKENS = { input: 9, output: WORDS.length };
const CAP = 500;

const streams = {
  'chat/completions': [chat({ stream: true }), chatEvents(WORDS, TOKENS)],
  responses: [
    { model: 'gpt-4o', input: 'Hello', stream: true, max_output_tokens: CAP },
    responseEvents(WORDS, TOKENS),
  ],
  messages: [chat({ stream: true, model: 'claude' }), messageEvents(WORDS, TOKENS)],
} as const;

/** Reads until the end. Returns the bytes that arrived. */
async function read(response: Response): Promise<number> {
  const reader = response.body!.getReader();
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return bytes;
      bytes += value.length;
    }
  } catch {
    return bytes;
  }
}

type Setup = ReturnType<typeof setUp>;

/** Expects one settlement, with the charges that the limiter has, and no slot. */
async function expectSettled({ settled, used }: Setup): Promise<Setup['settled'][0]> {
  await until(() => settled.length > 0);
  await turns();
  expect(settled.length).toBe(1);
  const { charged } = settled[0];
  expect(used()).toEqual({ ...charged, slots: 0 });
  return settled[0];
}

describe.each(Object.entries(streams))('%s', (path, [body, chunks]) => {
  const inputBound = JSON.stringify(body).length;
  /** The words whose events are in the first `bytes` of the body. */
  const wordsIn = (bytes: number): readonly string[] =>
    WORDS.filter((word) => {
      const last = chunks.findIndex((chunk) => chunk.includes(JSON.stringify(word)));
      return Buffer.byteLength(chunks.slice(0, last + 1).join('')) <= bytes;
    });

  for (let cutAfter = 0; cutAfter <= chunks.length; cutAfter++) {
    it(`a stream of ${path} that is cut after chunk ${cutAfter} is settled once`, async () => {
      const setup = setUp();
      server.reply = () => ({ headers: EVENTS, chunks, cutAfter });
      const response = await setup.call(`${server.url}/${path}`, post(body)).catch(() => undefined);
      const bytes = response === undefined ? 0 : await read(response);
      const { usage, ending, isReported } = await expectSettled(setup);
      if (bytes === 0) expect(setup.used()).toMatchObject({ requests: 1, tokens: 0, money: 0 });
      else {
        expect(usage.outputTokens).toBeGreaterThanOrEqual(wordsIn(bytes).length);
        expect(usage.outputTokens).toBeLessThanOrEqual(CAP);
        expect(usage.inputTokens + usage.cacheWriteTokens).toBeLessThanOrEqual(inputBound);
      }
      // The last chunk may get lost with the connection.
      if (isReported) expect(usage).toMatchObject({ inputTokens: 9, outputTokens: WORDS.length });
      if (cutAfter < chunks.length) expect(ending).toMatch(/^(?:cut|failed)$/);
    });
  }

  it.each(chunks.map((_, count) => count))(
    `a stream of ${path} that the caller cancels after %i reads is settled once`,
    async (count) => {
      const setup = setUp();
      server.reply = () => ({ headers: EVENTS, chunks, neverEnds: true });
      const response = await setup.call(`${server.url}/${path}`, post(body));
      const reader = response.body!.getReader();
      for (let reads = 0; reads < count; reads++) await reader.read();
      await reader.cancel();
      const { ending, usage } = await expectSettled(setup);
      expect(ending).toBe('cancelled');
      expect(usage.outputTokens).toBeLessThanOrEqual(CAP);
      if (count === 0) expect(setup.used().tokens).toBe(inputBound);
    },
  );

  it(`a stream of ${path} that is aborted while it is read is settled once`, async () => {
    const setup = setUp();
    const controller = new AbortController();
    server.reply = () => ({ headers: EVENTS, chunks: chunks.slice(0, 4), neverEnds: true });
    const init = post(body, { signal: controller.signal });
    const response = await setup.call(`${server.url}/${path}`, init);
    const reader = response.body!.getReader();
    await reader.read();
    const pending = reader.read().then(() => reader.read().then(() => reader.read()));
    controller.abort();
    await expect(pending).rejects.toThrow('aborted');
    expect((await expectSettled(setup)).ending).toBe('cancelled');
  });
});

describe('calls without a complete response', () => {
  const url = () => `${server.url}/chat/completions`;
  const bound = JSON.stringify(chat()).length + CAP;

  it('a call whose JSON body is cut is charged the bound', async () => {
    const text = chatObject('Hello', chatUsage(TOKENS));
    for (const chunks of [[''], [text.slice(0, 60), text.slice(60)]]) {
      const setup = setUp();
      server.reply = () => ({ chunks, cutAfter: 1 });
      await read(await setup.call(url(), post(chat())));
      await expectSettled(setup);
      expect(setup.used().tokens).toBe(bound);
    }
  });

  it('a call aborted before the response is charged the bound if it has no stream', async () => {
    for (const isStream of [false, true]) {
      const setup = setUp();
      const controller = new AbortController();
      server.reply = () => ({ ready: new Promise(() => {}) });
      const body = chat(isStream ? { stream: true } : {});
      const received = server.bodies.length;
      const call = setup.call(url(), post(body, { signal: controller.signal }));
      await until(() => server.bodies.length > received);
      controller.abort();
      await expect(call).rejects.toThrow('aborted');
      expect((await expectSettled(setup)).ending).toBe('aborted');
      const input = JSON.stringify(body).length;
      expect(setup.used()).toMatchObject({ requests: 1, tokens: isStream ? input : bound });
    }
  });

  it('a response that is never read is settled after the idle timeout', async () => {
    const setup = setUp({ idleTimeoutMs: 60_000 });
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS), neverEnds: true });
    const body = chat({ stream: true });
    const response = await setup.call(url(), post(body));
    setup.clock.advance(59_999);
    await turns();
    expect(setup.settled).toEqual([]);
    setup.clock.advance(1);
    expect((await expectSettled(setup)).ending).toBe('abandoned');
    expect(setup.used().tokens).toBe(JSON.stringify(body).length + CAP);
    await expect(response.text()).rejects.toThrow('idle');
  });

  it('each chunk that is read restarts the idle timeout', async () => {
    const chunks = chatEvents(WORDS, TOKENS);
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        const chunk = chunks.shift();
        if (chunk === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(chunk));
      },
    });
    const { call, clock, settled } = setUp({
      idleTimeoutMs: 60_000,
      fetch: async () => new Response(source),
    });
    const reader = (await call(url(), post(chat({ stream: true })))).body!.getReader();
    while (!(await reader.read()).done) clock.advance(50_000);
    await until(() => settled.length === 1);
    expect(settled[0].ending).toBe('completed');
  });

  it('a response that is never read is settled when it is garbage collected', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const setup = setUp();
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS), neverEnds: true });
    // In functions of their own, so that no variable refers to a response.
    const drop = async () => void (await setup.call(url(), post(chat({ stream: true }))));
    const dropAfterRead = async () => {
      const response = await setup.call(url(), post(chat({ stream: true })));
      await response.body!.getReader().read();
    };
    await drop();
    await dropAfterRead();
    expect(setup.used().slots).toBe(2);
    await until(() => {
      collect();
      return setup.settled.length === 2;
    });
    expect(setup.settled.map(({ ending }) => ending)).toEqual(['abandoned', 'abandoned']);
    expect(setup.used().slots).toBe(0);
    await turns();
    expect(setup.settled.length).toBe(2);
  });

  it('a response whose body still has a reader is not settled by garbage collection', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const setup = setUp();
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS, TOKENS) });
    const readerOf = async () =>
      (await setup.call(url(), post(chat({ stream: true })))).body!.getReader();
    const reader = await readerOf();
    for (let round = 0; round < 5; round++) {
      collect();
      await turns();
    }
    expect(setup.settled).toEqual([]);
    while (!(await reader.read()).done);
    expect((await expectSettled(setup)).ending).toBe('completed');
  });

  it('clones of a response are settled once', async () => {
    const setup = setUp();
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS, TOKENS) });
    const response = await setup.call(url(), post(chat({ stream: true })));
    const copy = response.clone();
    expect(await response.text()).toBe(await copy.text());
    expect((await expectSettled(setup)).usage.outputTokens).toBe(TOKENS.output);
  });
});

describe('slots', () => {
  const url = () => `${server.url}/chat/completions`;

  it('the slot of a call is renewed and held until the stream ends', async () => {
    const { call, clock, limiter, used } = setUp({}, { inFlight: 1 });
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS, TOKENS) });
    const response = await call(url(), post(chat({ stream: true })));
    for (let renewals = 0; renewals < 20; renewals++) {
      clock.advance(10_000);
      await turns(2);
      expect(used().slots).toBe(1);
      expect((await call(url(), post(chat()))).status).toBe(429);
    }
    await response.text();
    await until(() => used().slots === 0);
    expect(limiter.peekSync('inFlight', 'k').remaining).toBe(1);
    clock.advance(60_000);
    await turns();
    expect(used().slots).toBe(0);
  });

  it('a call takes a new slot if its lease ended while the process was paused', async () => {
    const { call, clock, used } = setUp({}, { inFlight: 1 });
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS, TOKENS) });
    const response = await call(url(), post(chat({ stream: true })));
    clock.set(clock.now() + 31_000);
    expect(used().slots).toBe(0);
    clock.advance(10_000);
    await turns();
    expect(used().slots).toBe(1);
    await response.text();
    await until(() => used().slots === 0);
  });

  it('a call whose slot expired does not release the slot of another call', async () => {
    const { call, clock, limiter, used } = setUp({}, { inFlight: 1 });
    server.reply = () => ({ headers: EVENTS, chunks: chatEvents(WORDS, TOKENS) });
    const response = await call(url(), post(chat({ stream: true })));
    clock.set(clock.now() + 31_000);
    expect(limiter.checkSync('inFlight', 'k').allowed).toBe(true);
    clock.advance(1000);
    await response.text();
    await turns();
    expect(used().slots).toBe(1);
  });
});
