import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit } from '../../src/adapters/fetch.ts';
import type { RequestOptions } from '../../src/http/options.ts';
import { createLimiter, type Warning } from '../../src/index.ts';

/** Returns the warnings that options cause before the first request. */
function warningsOf(options: RequestOptions<Request>): Warning[] {
  const warnings: Warning[] = [];
  rateLimit({ ...options, onWarning: (warning) => void warnings.push(warning) });
  return warnings;
}

const byHeader = { name: 'key', limit: 5, key: { header: 'X-Api-Key' } };
const byAddress = { name: 'address', limit: 50 };

describe('a limit that counts only by a header', () => {
  it('a limit that counts only by a header causes a warning that names both fixes', () => {
    const [{ code, message }, ...more] = warningsOf({ limit: 5, key: { header: 'X-Api-Key' } });
    expect([code, more]).toEqual(['WARN_HEADER_KEY', []]);
    expect(message).toContain("key: 'address'");
    expect(message).toContain("key: { header: 'X-Api-Key', authenticated: true }");
  });

  it.each<[string, RequestOptions<Request>]>([
    ['an address limit in shadow mode', { limits: [{ ...byAddress, shadow: true }] }],
    [
      'another header limit',
      { limits: [{ limit: 9, key: { header: 'x-team', authenticated: true } }] },
    ],
  ])('WARN_HEADER_KEY is emitted for a limit by header beside %s', (_, { limits }) => {
    const own = { ...byHeader, key: { header: 'x-api-key' } };
    expect(warningsOf({ limits: [own, ...limits!] })).toHaveLength(1);
  });

  it('a header key causes WARN_HEADER_KEY also with the option `limiter`', () => {
    const limiter = createLimiter({ policies: { p: '5/1m' } });
    expect(warningsOf({ limiter, policy: 'p', key: { header: 'x-api-key' } })).toHaveLength(1);
  });

  it.each<[string, RequestOptions<Request>]>([
    [
      'a limit by an authenticated header',
      { limit: 5, key: { header: 'x-user', authenticated: true } },
    ],
    [
      'a limit by header and a limit by address',
      { limits: [{ ...byHeader, key: { header: 'a' } }, byAddress] },
    ],
    [
      'a limit by header and a limit by a function',
      { limits: [byHeader, { limit: 9, key: () => 'all' }] },
    ],
    ['a limit by header in shadow mode', { limit: 5, key: { header: 'x-user' }, shadow: true }],
    ['only a limit by address', { limit: 5 }],
  ])('no WARN_HEADER_KEY is emitted for %s', (_, options) => {
    expect(warningsOf(options)).toEqual([]);
  });

  it('routes that inherit the header key of a Fastify plugin cause one warning', async () => {
    const warnings: Warning[] = [];
    const app = fastify();
    const onWarning = (warning: Warning) => void warnings.push(warning);
    await app.register(fastifyLimit, { limit: 5, key: { header: 'x-api-key' }, onWarning });
    for (const url of ['/a', '/b']) {
      app.get(url, { config: { rateLimit: { limit: 1 } } }, async () => 'hello');
    }
    await app.ready();
    await app.close();
    expect(warnings.map(({ code }) => code)).toEqual(['WARN_HEADER_KEY']);
  });
});
