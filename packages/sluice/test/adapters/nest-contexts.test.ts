/** Guards of Nest in calls other than HTTP requests. */
import 'reflect-metadata';
import type { ExecutionContext } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import { RateLimit, RateLimitGuard, SkipRateLimit } from '../../src/adapters/nest.ts';

const ONE = { limit: 1, window: '1h' } as const;

/** A call as Nest describes it to a guard: its type, arguments, and the handler. */
function call(type: string, args: unknown[], handler: () => void = () => {}): ExecutionContext {
  return {
    getType: () => type,
    getArgByIndex: (index: number) => args[index],
    getArgs: () => args,
    getHandler: () => handler,
    getClass: () => class {},
    switchToWs: () => ({ getClient: () => args[0], getData: () => args[1] }),
    switchToRpc: () => ({ getData: () => args[0], getContext: () => args[1] }),
  } as never;
}

const requestFrom = (remoteAddress: string) => ({ headers: {}, socket: { remoteAddress } });

/** Returns what a guard does with a call: passes, or the status or code of its error. */
async function outcomes(guard: RateLimitGuard, ...calls: ExecutionContext[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const each of calls) {
    const result = await guard
      .canActivate(each)
      .catch((error) => error.code ?? (error.getStatus() as number));
    found.push(result);
  }
  return found;
}

describe('Nest: GraphQL', () => {
  const resolve = (context: unknown): ExecutionContext => call('graphql', [{}, {}, context, {}]);

  it('Nest: GraphQL resolvers are limited by the `req` of their context', async () => {
    const headers: Record<string, string> = {};
    const res = { header: (name: string, value: string) => (headers[name] = value) };
    const from = (address: string) => resolve({ req: requestFrom(address), res });
    const guard = new RateLimitGuard(ONE);
    const calls = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.2')];
    expect(await outcomes(guard, ...calls)).toEqual([true, 429, true]);
    expect(headers).toMatchObject({ RateLimit: '"default";r=0;t=3600', 'Retry-After': '3600' });
    // The response has more than this error, so it keeps its own type.
    expect(headers).not.toHaveProperty('Content-Type');
  });

  it('Nest: GraphQL resolvers of Mercurius are limited by the request of `reply`', async () => {
    const reply = { request: { ...requestFrom('192.0.2.1'), raw: requestFrom('192.0.2.1') } };
    const calls = [resolve({ reply }), resolve({ reply })];
    expect(await outcomes(new RateLimitGuard(ONE), ...calls)).toEqual([true, 429]);
  });

  it('Nest: a GraphQL context without a request throws ERR_NO_REQUEST', async () => {
    const calls = [resolve({}), resolve(undefined)];
    const expected = ['ERR_NO_REQUEST', 'ERR_NO_REQUEST'];
    expect(await outcomes(new RateLimitGuard(ONE), ...calls)).toEqual(expected);
  });
});

describe.each(['ws', 'rpc'])('Nest: %s', (type) => {
  it(`Nest: a ${type} call without the option request throws ERR_NO_REQUEST`, async () => {
    const guard = new RateLimitGuard(ONE);
    expect(await outcomes(guard, call(type, [{}, {}]))).toEqual(['ERR_NO_REQUEST']);
    await expect(guard.canActivate(call(type, [{}, {}]))).rejects.toThrow(
      `to return the request of a call of type ${type}`,
    );
  });

  it(`Nest: a ${type} call is limited by the request that the option returns`, async () => {
    const request = (context: ExecutionContext) => context.getArgByIndex(0).request;
    const from = (address: string) => call(type, [{ request: requestFrom(address) }]);
    const guard = new RateLimitGuard({ ...ONE, request });
    const calls = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.2')];
    expect(await outcomes(guard, ...calls)).toEqual([true, 429, true]);
  });

  it(`Nest: a ${type} handler has its own request function, or is exempt`, async () => {
    const own = () => {};
    const request = () => requestFrom('192.0.2.1');
    RateLimit({ ...ONE, request })(own);
    const exempt = () => {};
    SkipRateLimit()(exempt);
    const calls = [call(type, [], own), call(type, [], own), call(type, [], exempt)];
    expect(await outcomes(new RateLimitGuard(ONE), ...calls)).toEqual([true, 429, true]);
  });
});
