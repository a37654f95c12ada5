/** What is decided about requests, whatever the framework. */
import { describe, expect, it } from 'vitest';
import type { RequestOptions } from '../../src/http/options.ts';
import type { RequestDecision } from '../../src/http/request-decision.ts';
import { RequestLimiter } from '../../src/http/request-limiter.ts';
import { resolveOptions } from '../../src/http/resolve-options.ts';
import { type Decision, memoryStore, type Store } from '../../src/index.ts';

/** A request is the name of a tenant. */
type Request = string;

function deciding(options: RequestOptions<Request>) {
  const limiter = new RequestLimiter<Request>(resolveOptions(options));
  return async (request: Request): Promise<RequestDecision<Request>> =>
    limiter.decide({ request, socketAddress: '192.0.2.1', header: () => undefined });
}

const remainingIn = ({ decision }: RequestDecision<Request>): number => decision!.remaining;

/** Lets what is done after an answer be done. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

describe('a limit that is only watched', () => {
  const real = { name: 'real', limit: 1, window: '1h' } as const;
  const planned = { name: 'planned', limit: 3, window: '1h', shadow: true } as const;

  it('is told of, with the request, for each that passes the others', async () => {
    const told: [string, boolean, number][] = [];
    const decide = deciding({
      limits: [
        { ...real, limit: 9 },
        { ...planned, limit: 2 },
      ],
      onShadow: ({ policy, allowed, remaining }, request) => {
        expect(policy).toBe('planned');
        told.push([request, allowed, remaining]);
      },
    });
    for (const request of ['a', 'b', 'c']) expect((await decide(request)).passes).toBe(true);
    expect(told).toEqual([
      ['a', true, 1],
      ['b', true, 0],
      ['c', false, 0],
    ]);
  });

  it('is told of also if it is the only one', async () => {
    const told: Decision[] = [];
    const decide = deciding({
      ...{ limit: 1, window: '1h', shadow: true },
      onShadow: (decision) => void told.push(decision),
    });
    for (let call = 0; call < 3; call++) expect((await decide('a')).passes).toBe(true);
    expect(told.map(({ allowed }) => allowed)).toEqual([true, false, false]);
  });

  it('is not used up by requests that are refused anyway', async () => {
    const told: boolean[] = [];
    const decide = deciding({
      limits: [real, planned],
      onShadow: ({ allowed }) => void told.push(allowed),
    });
    const passed: boolean[] = [];
    for (let call = 0; call < 6; call++) passed.push((await decide('a')).passes);
    expect(passed).toEqual([true, false, false, false, false, false]);
    expect(told).toEqual([true]);
  });

  it('is in nobody’s way if it costs more than it has, or if its store is away', async () => {
    const dear = deciding({ limits: [real, { ...planned, cost: () => 4 }] });
    expect((await dear('a')).passes).toBe(true);
    const gone = () => Promise.reject(new Error('gone'));
    const store: Store = { decide: gone, adjust: gone, reset: gone, close: async () => {} };
    const away = deciding({ ...planned, store, onFailure: 'throw' });
    expect((await away('a')).passes).toBe(true);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('of the listener');
      },
    ],
    ['rejects', () => Promise.reject(new Error('of the listener'))],
  ])('has a listener that %s, which is told once and in nobody’s way', async (_, onShadow) => {
    const warnings: { code: string; message: string }[] = [];
    const decide = deciding({
      ...{ limit: 1, window: '1h', shadow: true, onShadow },
      onWarning: (warning) => void warnings.push(warning),
    });
    for (let call = 0; call < 3; call++) expect((await decide('a')).passes).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([
      {
        code: 'WARN_LISTENER_FAILED',
        message: 'onShadow failed (further failures are not reported): Error: of the listener',
      },
    ]);
  });
});

describe('a limit by request', () => {
  const limits: Record<string, number> = { big: 100, small: 10, broken: 0 };
  const outcome = { status: 200, finished: true, bytes: undefined };

  it.each(['token-bucket', 'sliding-log'] as const)(
    '%s: what is given back is given back under the limit of its own request',
    async (algorithm) => {
      const decide = deciding({
        ...{ limit: (request) => limits[request], window: '1h', algorithm },
        ...{ key: (request) => request, count: 'failures', store: memoryStore() },
      });
      const first = await decide('big');
      expect(remainingIn(first)).toBe(99);
      expect(remainingIn(await decide('small'))).toBe(9);
      await expect(decide('broken')).rejects.toMatchObject({ code: 'ERR_INVALID_LIMIT' });
      first.settle!({ request: 'big', ...outcome });
      await settled();
      expect(remainingIn(await decide('big'))).toBe(99);
    },
  );
});

describe('options in the words of express-rate-limit', () => {
  it('identifier is the name, and ipv6Subnet the prefix', () => {
    const { limits, address } = resolveOptions({
      ...{ windowMs: 1000, limit: 2, identifier: 'api', ipv6Subnet: 56 },
    });
    expect([limits[0].name, address]).toEqual(['api', { ipv6Prefix: 56 }]);
    expect(resolveOptions({ windowMs: 1000, ipv6Subnet: false }).address).toEqual({
      ipv6Prefix: 128,
    });
  });

  it.each([
    [{ limit: 5, max: 6, windowMs: 1000 }, 'one of limit and max, not both'],
    [{ limit: 5, windowMs: 1000, name: 'a', identifier: 'b' }, 'one of name and identifier'],
    [{ limit: 5, windowMs: 1000, ipv6Prefix: 64, ipv6Subnet: 56 }, 'one of ipv6Prefix and'],
    [{ limit: 5, windowMs: 1000, identifier: () => 'a' }, '`name` to be a non-empty string'],
    [{ limit: 5, windowMs: 1000, onShadow: 'log' }, '`onShadow` to be a function'],
  ])('refuses %j', (options, message) => {
    expect(() => resolveOptions(options as never)).toThrow(message);
  });
});
