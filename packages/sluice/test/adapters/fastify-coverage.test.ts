/** Which requests of a Fastify app the plugin limits. */
import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import { rateLimit } from '../../src/adapters/fastify.ts';

const ONE = { limit: 1, window: '1h' } as const;
const hello = async () => 'hello';

async function statuses(app: ReturnType<typeof fastify>, ...paths: string[]): Promise<number[]> {
  const found = [];
  for (const url of paths) found.push((await app.inject(url)).statusCode);
  await app.close();
  return found;
}

describe('Fastify', () => {
  it('Fastify: a plugin registered without await limits routes added after it', async () => {
    const app = fastify();
    app.register(rateLimit, { limit: 2, window: '1h' });
    app.get('/', hello);
    expect(await statuses(app, '/', '/', '/')).toEqual([200, 200, 429]);
  });

  it('Fastify: without await, a route can have its own limit or none', async () => {
    const app = fastify();
    app.register(rateLimit, { limit: 2, window: '1h' });
    app.get('/login', { config: { rateLimit: ONE } as never }, hello);
    app.get('/health', { config: { rateLimit: false } as never }, hello);
    const paths = ['/login', '/login', '/health', '/health', '/health'];
    expect(await statuses(app, ...paths)).toEqual([200, 429, 200, 200, 200]);
  });

  it('Fastify: without await, the routes of a child plugin are limited', async () => {
    const app = fastify();
    app.register(rateLimit, ONE);
    app.register(async (child) => void child.get('/', hello), { prefix: '/child' });
    expect(await statuses(app, '/child', '/child')).toEqual([200, 429]);
  });

  it('Fastify: without await, `count` refunds successful requests', async () => {
    const app = fastify();
    app.register(rateLimit, { ...ONE, count: 'failures' });
    app.get('/', async (request, reply) => reply.code(Number(request.headers.accept)).send());
    const statusOf = async (accept: string): Promise<number> =>
      (await app.inject({ url: '/', headers: { accept } })).statusCode;
    const found = [];
    for (const status of ['200', '200', '401', '200']) found.push(await statusOf(status));
    expect(found).toEqual([200, 200, 401, 429]);
    await app.close();
  });

  it.each([true, false])(
    'Fastify: requests without a route are limited (await: %s)',
    async (waits) => {
      const app = fastify();
      const loaded = app.register(rateLimit, { limit: 2, window: '1h' });
      if (waits) await loaded;
      app.get('/', hello);
      expect(await statuses(app, '/none', '/none', '/other')).toEqual([404, 404, 429]);
    },
  );

  it('Fastify: requests to a custom not-found handler are limited', async () => {
    const app = fastify();
    await app.register(rateLimit, ONE);
    app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('none'));
    expect(await statuses(app, '/none', '/none')).toEqual([404, 429]);
  });

  it('Fastify: with `global: false`, requests without a route are not limited', async () => {
    const app = fastify();
    app.register(rateLimit, { ...ONE, global: false });
    expect(await statuses(app, '/none', '/none')).toEqual([404, 404]);
  });

  it('Fastify: each of two plugins charges a request once', async () => {
    const app = fastify();
    await app.register(rateLimit, { limit: 4, window: '1h', name: 'first' });
    app.register(rateLimit, { limit: 3, window: '1h', name: 'second' });
    app.get('/', hello);
    const { headers } = await app.inject('/');
    expect(headers.ratelimit).toBe('"second";r=2;t=3600, "first";r=3;t=3600');
    await app.close();
  });

  it('Fastify: the key function runs after hooks that were added after the plugin', async () => {
    const app = fastify();
    const key = (request: object): string => (request as { user: string }).user;
    await app.register(rateLimit, { ...ONE, key });
    app.addHook('onRequest', async (request) => void Object.assign(request, { user: 'ada' }));
    app.get('/', hello);
    expect(await statuses(app, '/', '/')).toEqual([200, 429]);
  });
});
