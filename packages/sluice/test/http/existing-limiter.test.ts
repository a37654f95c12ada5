/** The options `limiter`, `policy` and `onDecision`, beyond the contract of adapters. */
import { fastify } from 'fastify';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { type FetchOptions, rateLimit } from '../../src/adapters/fetch.ts';
import { createLimiter, memoryStore } from '../../src/index.ts';
import { promisesOnly } from '../promises-only.ts';

const policies = { login: '1/1h', api: '3/1h' } as const;
const request = (): Request => new Request('http://localhost/');
const serve = (options: FetchOptions) =>
  rateLimit({ address: () => '203.0.113.7', ...options })(async () => new Response('hello'));

afterEach(() => vi.restoreAllMocks());

describe('an existing limiter', () => {
  it.each([
    ['a synchronous store', () => memoryStore()],
    ['an asynchronous store', () => promisesOnly()],
  ])('listeners of an existing limiter receive decisions of requests, on %s', async (_, open) => {
    const limiter = createLimiter({ policies, store: open() });
    const seen: unknown[] = [];
    limiter.onDecision(({ policy, key, allowed }) => void seen.push([policy, key, allowed]));
    const handle = serve({ limiter, policy: 'login' });
    expect([(await handle(request())).status, (await handle(request())).status]).toEqual([
      200, 429,
    ]);
    expect(seen).toEqual([
      ['login', '203.0.113.7', true],
      ['login', '203.0.113.7', false],
    ]);
    await limiter.reset('login', '203.0.113.7');
    expect((await handle(request())).status).toBe(200);
  });

  it('a policy of an existing limiter applies a limit function, cost and shadow mode', async () => {
    const limits = { plan: { limit: (key: string) => (key === 'pro' ? 10 : 5), window: '1h' } };
    const limiter = createLimiter({ policies: limits });
    const handle = serve({ limiter, policy: 'plan', key: () => 'pro', cost: 4 });
    expect((await handle(request())).headers.get('ratelimit')).toBe('"plan";r=6;t=3600');
    const seen: boolean[] = [];
    const onShadow = ({ allowed }: { allowed: boolean }) => void seen.push(allowed);
    const watched = serve({
      ...{ limiter, policy: 'plan', key: () => 'free', cost: 4, shadow: true, onShadow },
    });
    expect([(await watched(request())).status, (await watched(request())).status]).toEqual([
      200, 200,
    ]);
    expect(seen).toEqual([true, false]);
  });

  it('resetKey of the Express adapter resets a key of the existing limiter', async () => {
    const limiter = createLimiter({ policies });
    await limiter.check('login', 'ada');
    await expressLimit({ limiter, policy: 'login' }).resetKey('ada');
    expect((await limiter.check('login', 'ada')).allowed).toBe(true);
  });

  it('Fastify routes choose a policy of the shared limiter, or a limit of their own', async () => {
    const app = fastify();
    const limiter = createLimiter({ policies });
    await app.register(fastifyLimit, { limiter, policy: 'api' });
    const handler = async () => 'hello';
    app.get('/', handler);
    app.get('/login', { config: { rateLimit: { policy: 'login' } } }, handler);
    app.get('/both', { config: { rateLimit: { limits: [{ policy: 'login' }] } } }, handler);
    app.get('/own', { config: { rateLimit: { limit: 7 } } }, handler);
    const policyOf = async (url: string) =>
      (await app.inject(url)).headers['ratelimit-policy'] as string;
    expect(await policyOf('/')).toBe('"api";q=3;w=3600');
    expect(await policyOf('/login')).toBe('"login";q=1;w=3600');
    expect(await policyOf('/both')).toBe('"login";q=1;w=3600');
    expect(await policyOf('/own')).toBe('"default";q=7;w=60');
    await app.close();
  });

  it('a Fastify plugin with only a limiter limits the routes that choose a policy', async () => {
    const app = fastify();
    await app.register(fastifyLimit, { limiter: createLimiter({ policies }) });
    app.get('/', async () => 'hello');
    app.get('/api', { config: { rateLimit: { policy: 'api' } } }, async () => 'hello');
    expect((await app.inject('/')).headers).not.toHaveProperty('ratelimit-policy');
    expect((await app.inject('/api')).headers).toHaveProperty('ratelimit-policy');
    await app.close();
  });
});

describe('onDecision', () => {
  it('an onDecision and an onWarning that throw emit one process warning', async () => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const fail = (): never => {
      throw new Error('of the application');
    };
    const handle = serve({ limit: 5, window: '1h', onDecision: fail, onWarning: fail });
    for (let call = 0; call < 2; call++) expect((await handle(request())).status).toBe(200);
    await new Promise((resolve) => setImmediate(resolve));
    expect(emit).toHaveBeenCalledOnce();
  });
});
