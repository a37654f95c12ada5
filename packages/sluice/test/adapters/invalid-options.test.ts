/** Invalid options of the adapters. */
import 'reflect-metadata';
import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { RateLimitGuard } from '../../src/adapters/nest.ts';
import { SluiceError } from '../../src/index.ts';

const ONE = { limit: 1, window: '1h' } as const;

describe('invalid options', () => {
  it.each([
    ['an allow option that is not a list', { ...ONE, allow: '10.0.0.0/8' }, '`allow` to be a list'],
    ['a deny option that is null', { ...ONE, deny: null }, '`deny` to be a list'],
    ['a store that is null', { ...ONE, store: null }, '`store` to be a store'],
    [
      'two options for count',
      { ...ONE, count: 'successes', skipSuccessfulRequests: true },
      'one of count and those that skip requests',
    ],
    [
      'two options for an unavailable store',
      { ...ONE, onFailure: 'deny', passOnStoreError: true },
      'one of onFailure and passOnStoreError',
    ],
  ])('fetchLimit rejects %s', (_, options, message) => {
    expect(() => fetchLimit(options as never)).toThrow(message);
    expect(() => fetchLimit(options as never)).toThrow(SluiceError);
  });

  it.each([
    ['an unknown option', { limt: 1 }, 'limt'],
    ['trustProxy: true', { window: '1m', trustProxy: true }, 'trustProxy to be the number'],
  ])('Fastify and Nest reject %s, also without a limit', async (_, options, message) => {
    await expect(async () => {
      await fastify().register(fastifyLimit, options as never);
    }).rejects.toThrow(message);
    expect(() => new RateLimitGuard(options as never)).toThrow(message);
  });
});
