import { describe, expect, it, vi } from 'vitest';
import { rateLimit } from '../../src/adapters/fetch.ts';
import type { RequestOptions } from '../../src/http/options.ts';
import type { RequestDecision } from '../../src/http/request-decision.ts';
import { RequestLimiter } from '../../src/http/request-limiter.ts';
import { resolveOptions } from '../../src/http/resolve-options.ts';
import { createLimiter, ManualClock, memoryStore } from '../../src/index.ts';

const info = { request: 'r', socketAddress: '192.0.2.1', header: () => undefined };
const outcome = { request: 'r', status: 200, finished: true, bytes: undefined };

const limiterOf = (options: RequestOptions<string>) =>
  new RequestLimiter<string>(resolveOptions(options as never));

const decided = (limiter: RequestLimiter<string>) =>
  limiter.decide(info) as RequestDecision<string>;

describe('concurrency option', () => {
  it('a request holds a slot until it is settled, and frees only that slot', () => {
    const limiter = limiterOf({ concurrency: 2 });
    const first = decided(limiter);
    const second = decided(limiter);
    expect(decided(limiter).passes).toBe(false);
    first.settle!(outcome);
    first.settle!(outcome);
    first.release!();
    expect(decided(limiter).passes).toBe(true);
    expect(decided(limiter).passes).toBe(false);
    second.settle!(outcome);
  });

  it('a denied request has nothing to settle', () => {
    const limiter = limiterOf({ concurrency: 1 });
    decided(limiter);
    expect(decided(limiter)).toMatchObject({ settle: undefined, release: undefined });
  });

  it('the hold of a request is renewed until the response ends', async () => {
    const clock = new ManualClock(1_745_000_100_000);
    const policies = { slots: { concurrency: 1, lease: '3s' } } as const;
    const limiter = limiterOf({
      limiter: createLimiter({ policies, clock, store: memoryStore() }),
      policy: 'slots',
    });
    const held = decided(limiter);
    for (let second = 0; second < 30; second++) clock.advance(1000);
    expect(decided(limiter).passes).toBe(false);
    held.settle!(outcome);
    expect(decided(limiter).passes).toBe(true);
  });

  it('with `count`, a request refunds the window charge and releases the slot', async () => {
    const limiter = limiterOf({ limit: 1, window: '1h', concurrency: 1, count: 'failures' });
    for (let call = 0; call < 3; call++) {
      const decision = decided(limiter);
      expect(decision.passes).toBe(true);
      decision.settle!(outcome);
      await vi.waitFor(async () => {
        const { remaining } = await limiter.limiter.peek('default', '192.0.2.1');
        expect(remaining).toBe(1);
      });
    }
  });

  it('older header forms omit a concurrency limit', () => {
    const limiter = limiterOf({ limit: 5, window: '1m', concurrency: 2, headers: 'draft-7' });
    expect(decided(limiter).headers).toEqual([
      ['RateLimit-Policy', '5;w=60'],
      ['RateLimit', 'limit=5, remaining=4, reset=60'],
    ]);
    const alone = limiterOf({ concurrency: 1, lease: '10s', headers: 'legacy' });
    expect(decided(alone).headers).toEqual([]);
    expect(decided(alone).headers).toEqual([['Retry-After', '10']]);
  });

  it('a limit in `limits` can be a concurrency limit', () => {
    const limiter = limiterOf({
      limits: [
        { name: 'all', concurrency: 2, key: { header: 'x', authenticated: true } },
        { name: 'minute', limit: 10, window: '1m' },
      ],
    });
    const policy = decided(limiter).headers[0][1];
    expect(policy).toBe('"all";q=2;qu="concurrent-requests", "minute";q=10;w=60');
  });

  it.each([
    [{ concurrency: 0 }, /`concurrency` to be an integer >= 1, got `0`/],
    [{ concurrency: 1, window: '1m' }, /window/],
    [{ limit: 1, lease: '1m' }, /lease/],
    [{ limits: [{ limit: 1 }], concurrency: 1 }, /`concurrency`, or `limits`/],
    [{ concurrency: 1, lease: 'soon' }, /lease/],
  ])('RequestLimiter rejects the concurrency options %j', (options, message) => {
    expect(() => limiterOf(options as never)).toThrow(message);
  });
});

describe('concurrency option of a fetch handler without a Node response', () => {
  const limited = () => rateLimit({ concurrency: 1, key: () => 'all' });
  const get = (init?: RequestInit) => new Request('http://localhost/', init);

  it('fetch: a slot is held until the body has been read', async () => {
    const handler = limited()(() => new Response('hello'));
    const first = await handler(get());
    expect((await handler(get())).status).toBe(429);
    expect(await first.text()).toBe('hello');
    expect((await handler(get())).status).toBe(200);
  });

  it('fetch: a slot is released if the body is cancelled', async () => {
    const cancelled: unknown[] = [];
    const body = () => new ReadableStream({ cancel: (reason) => void cancelled.push(reason) });
    const handler = limited()(() => new Response(body()));
    await (await handler(get())).body!.cancel('enough');
    expect(cancelled).toEqual(['enough']);
    expect((await handler(get())).status).toBe(200);
  });

  it('fetch: a slot is released if the body fails', async () => {
    const body = () =>
      new ReadableStream({
        pull() {
          throw new Error('broken');
        },
      });
    const handler = limited()(() => new Response(body()));
    await expect((await handler(get())).text()).rejects.toThrow('broken');
    expect((await handler(get())).status).toBe(200);
  });

  it('fetch: a slot is released if the client aborts', async () => {
    const controller = new AbortController();
    const handler = limited()(() => new Response(new ReadableStream()));
    await handler(get({ signal: controller.signal }));
    expect((await handler(get())).status).toBe(429);
    controller.abort();
    expect((await handler(get())).status).toBe(200);
  });

  it.each([
    ['a response without a body', 'GET', () => new Response(null, { status: 204 })],
    ['a response to HEAD', 'HEAD', () => new Response('hello')],
  ])('fetch: %s releases the slot at once', async (_, method, respond) => {
    const handler = limited()(respond);
    expect((await handler(get({ method }))).status).toBeLessThan(300);
    expect((await handler(get({ method }))).status).toBeLessThan(300);
  });

  it('fetch: an error of the handler releases the slot', async () => {
    let calls = 0;
    const handler = limited()(() => {
      if (calls++ === 0) throw new Error('handler failed');
      return new Response('hello');
    });
    await expect(handler(get())).rejects.toThrow('handler failed');
    expect((await handler(get())).status).toBe(200);
  });
});
