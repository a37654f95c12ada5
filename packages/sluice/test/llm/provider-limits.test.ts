/** Limits that the provider reports in headers, and the waits that they cause. */
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../src/index.ts';
import { providerReport } from '../../src/llm/provider-headers.ts';
import { ProviderLimits } from '../../src/llm/provider-limits.ts';
import { chatObject, chatUsage } from './model-server.ts';
import { chat, post, setUp, turns } from './setup.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const MAX = 600_000;
const URL = 'http://model.test/v1/chat/completions';

const report = (headers: Record<string, string>) => providerReport(new Headers(headers), NOW, MAX);

describe('providerReport', () => {
  it('providerReport reads the headers of OpenAI', () => {
    const headers = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-tokens': '6m0s',
    };
    expect(report(headers).limits).toEqual([
      { unit: 'requests', limit: 60, remaining: 59, resetAfterMs: 1000 },
      { unit: 'tokens', limit: 150_000, remaining: 149_984, resetAfterMs: 360_000 },
    ]);
    const short = { ...headers, 'x-ratelimit-reset-requests': '20ms' };
    expect(report(short).limits[0].resetAfterMs).toBe(20);
  });

  it('providerReport reads the headers of Anthropic', () => {
    const headers = {
      'anthropic-ratelimit-requests-limit': '50',
      'anthropic-ratelimit-requests-remaining': '49',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:02Z',
      'anthropic-ratelimit-input-tokens-remaining': '1000',
      'anthropic-ratelimit-input-tokens-reset': '2026-01-01T01:00:30+01:00',
      'anthropic-ratelimit-output-tokens-remaining': '0',
      'anthropic-ratelimit-output-tokens-reset': '2025-12-31T23:59:59Z',
    };
    expect(report(headers).limits).toEqual([
      { unit: 'requests', limit: 50, remaining: 49, resetAfterMs: 2000 },
      { unit: 'inputTokens', remaining: 1000, resetAfterMs: 30_000 },
      { unit: 'outputTokens', remaining: 0, resetAfterMs: 0 },
    ]);
  });

  it('providerReport prefers retry-after-ms to retry-after, and reads dates', () => {
    expect(report({ 'retry-after': '20' }).retryAfterMs).toBe(20_000);
    expect(report({ 'retry-after': '20', 'retry-after-ms': '1500.5' }).retryAfterMs).toBe(1501);
    const date = 'Thu, 01 Jan 2026 00:00:05 GMT';
    expect(report({ 'retry-after': date }).retryAfterMs).toBe(5000);
  });

  it.each([
    [{ 'retry-after': '-5' }],
    [{ 'retry-after': 'soon' }],
    [{ 'retry-after-ms': 'NaN' }],
    [{ 'x-ratelimit-remaining-tokens': '-1', 'x-ratelimit-reset-tokens': '1s' }],
    [{ 'x-ratelimit-remaining-tokens': '5' }],
    [{ 'x-ratelimit-remaining-tokens': '5', 'x-ratelimit-reset-tokens': 'never' }],
    [{ 'anthropic-ratelimit-tokens-remaining': '5', 'anthropic-ratelimit-tokens-reset': '5' }],
    [{ 'anthropic-ratelimit-tokens-remaining': `${'9'.repeat(30)}` }],
  ])('providerReport ignores the invalid headers %j', (headers) => {
    expect(report(headers as Record<string, string>)).toEqual({ limits: [] });
  });

  it('providerReport caps waits at the maximum', () => {
    const headers = {
      'retry-after': '99999999999',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '900d',
    };
    expect(report(headers)).toMatchObject({ retryAfterMs: MAX, limits: [{ resetAfterMs: MAX }] });
  });
});

describe('ProviderLimits', () => {
  const needs = (tokens: number) => ({ requests: 1, tokens, inputTokens: 0, outputTokens: 0 });
  const responding = (headers: Record<string, string>, status = 200) =>
    new Response('{}', { status, headers });

  function account() {
    const clock = new ManualClock(NOW);
    return { clock, account: new ProviderLimits(clock, MAX).account('a') };
  }
  const headers = {
    'x-ratelimit-limit-tokens': '1000',
    'x-ratelimit-remaining-tokens': '400',
    'x-ratelimit-reset-tokens': '60s',
  };

  it('waitMs is the time until the limit that the provider reported has refilled enough', () => {
    const { clock, account: provider } = account();
    provider.sent(needs(1))(responding(headers));
    expect(provider.waitMs(needs(400))).toBe(0);
    // 600 tokens refill in 60 s.
    expect(provider.waitMs(needs(500))).toBe(10_000);
    expect(provider.waitMs(needs(5000))).toBe(60_000);
    clock.advance(10_000);
    expect(provider.waitMs(needs(500))).toBe(0);
    clock.advance(50_000);
    expect(provider.waitMs(needs(5000))).toBe(0);
  });

  it('ProviderLimits subtracts calls without a response from the reported remaining', () => {
    const { account: provider } = account();
    provider.sent(needs(1))(responding(headers));
    const done = provider.sent(needs(300));
    expect(provider.waitMs(needs(100))).toBe(0);
    expect(provider.waitMs(needs(101))).toBeGreaterThan(0);
    done();
    done();
    expect(provider.waitMs(needs(400))).toBe(0);
  });

  it('a response 200 with Retry-After delays no calls', () => {
    const { account: provider } = account();
    provider.sent(needs(1))(responding({ 'retry-after': '30' }));
    expect(provider.waitMs(needs(1))).toBe(0);
  });

  it('ProviderLimits evicts the least recently used of 10,000 accounts', () => {
    const limits = new ProviderLimits(new ManualClock(NOW), MAX);
    const hold = (name: string) =>
      limits.account(name).sent(needs(1))(responding({ 'retry-after': '60' }, 429));
    hold('first');
    hold('second');
    for (let other = 0; other < 9998; other++) limits.account(`other-${other}`);
    expect(limits.account('first').waitMs(needs(1))).toBe(60_000);
    limits.account('one more');
    expect(limits.account('first').waitMs(needs(1))).toBe(60_000);
    expect(limits.account('second').waitMs(needs(1))).toBe(0);
  });
});

describe('llmFetch', () => {
  const ok = () => new Response(chatObject('x', chatUsage({ input: 1, output: 1 })));

  function replying(options: object = {}) {
    const replies: Response[] = [];
    const sent: string[] = [];
    const setup = setUp({
      fetch: async (_, init) => {
        sent.push(JSON.parse(String(init?.body)).model);
        return replies.shift() ?? ok();
      },
      ...options,
    });
    return { ...setup, replies, sent };
  }

  it.each([429, 503, 529])(
    'a response %i with Retry-After denies later calls of the model until then',
    async (status) => {
      const { call, clock, used, replies, sent } = replying();
      replies.push(new Response('{}', { status, headers: { 'retry-after': '20' } }));
      expect((await call(URL, post(chat()))).status).toBe(status);
      const held = await call(URL, post(chat()));
      expect([held.status, held.headers.get('retry-after')]).toEqual([429, '20']);
      expect(await held.json()).toMatchObject({
        error: { message: "The call exceeds the provider's limit. Retry after 20000 ms." },
      });
      // Another model has its own limits.
      expect((await call(URL, post(chat({ model: 'claude' })))).status).toBe(200);
      expect(sent).toEqual(['gpt-4o', 'claude']);
      clock.advance(20_000);
      expect((await call(URL, post(chat()))).status).toBe(200);
      expect(used().requests).toBe(3);
    },
  );

  it('a call within maxWaitMs is sent when Retry-After of the provider has passed', async () => {
    const { call, clock, replies, sent } = replying({ maxWaitMs: 30_000 });
    replies.push(new Response('{}', { status: 429, headers: { 'retry-after-ms': '20000' } }));
    await call(URL, post(chat()));
    const held = call(URL, post(chat()));
    await turns();
    clock.advance(19_999);
    await turns();
    expect(sent.length).toBe(1);
    clock.advance(1);
    expect((await held).status).toBe(200);
  });

  it('a call that waited in acquire is refunded if the provider denied another call', async () => {
    const { call, limiter, used, replies, sent } = replying({ maxWaitMs: 60_000 });
    // The slots are taken, so the call waits in `acquire`.
    const holds = Array.from({ length: 8 }, () => limiter.checkSync('inFlight', 'k'));
    const waiting = call(URL, post(chat()));
    await turns();
    replies.push(new Response('{}', { status: 429, headers: { 'retry-after': '61' } }));
    await limiter.release(holds[0].receipt!);
    expect((await waiting).status).toBe(429);
    expect(sent.length).toBe(1);
    for (const { receipt } of holds.slice(1)) await limiter.release(receipt!);
    expect((await call(URL, post(chat()))).status).toBe(429);
    expect(sent.length).toBe(1);
    expect(used()).toMatchObject({ slots: 0, tokens: 0 });
  });

  it('the remaining of the provider applies if the limiter would admit more', async () => {
    const headers = {
      'x-ratelimit-remaining-tokens': '600',
      'x-ratelimit-reset-tokens': '30s',
    };
    const { call, replies, sent } = replying();
    replies.push(new Response(chatObject('x'), { headers }));
    await (await call(URL, post(chat()))).text();
    expect((await call(URL, post(chat({ max_tokens: 600 })))).status).toBe(429);
    expect(sent.length).toBe(1);
    const generous = setUp(
      {
        fetch: async () => new Response('{}', { headers: { 'x-ratelimit-remaining-tokens': '9' } }),
      },
      { requests: 1 },
    );
    await generous.call(URL, post(chat()));
    expect((await generous.call(URL, post(chat()))).status).toBe(429);
  });

  it('maxHoldMs: 0 ignores the limits of the provider', async () => {
    const { call, replies } = replying({ maxHoldMs: 0 });
    replies.push(new Response('{}', { status: 429, headers: { 'retry-after': '20' } }));
    await call(URL, post(chat()));
    expect((await call(URL, post(chat()))).status).toBe(200);
  });
});
