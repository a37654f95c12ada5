/** Decisions about requests, independent of the framework. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RequestOptions } from '../../src/http/options.ts';
import type { RequestDecision } from '../../src/http/request-decision.ts';
import { RequestLimiter } from '../../src/http/request-limiter.ts';
import { resolveOptions } from '../../src/http/resolve-options.ts';
import { type Decision, memoryStore, type Store } from '../../src/index.ts';

/** A request is the name of a tenant. */
type Request = string;

function deciding(options: RequestOptions<Request>, socketAddress = '192.0.2.1') {
  const limiter = new RequestLimiter<Request>(resolveOptions(options));
  return async (request: Request): Promise<RequestDecision<Request>> =>
    limiter.decide({ request, socketAddress, header: () => undefined });
}

const remainingIn = ({ decision }: RequestDecision<Request>): number => decision!.remaining;

/** Waits for a settlement, which runs after the response. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

describe('a denied request', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: 1_745_000_100_000 }));
  afterEach(() => vi.useRealTimers());
  const options = { limit: 1, window: '1m' } as const;

  it('the body of a denied request has the current wait, not an earlier one', async () => {
    const decide = deciding(options);
    const waitIn = ({ rejection }: RequestDecision<Request>) =>
      JSON.parse(rejection!.body)['retry-after-ms'];
    await decide('a');
    const waits = [waitIn(await decide('a')), waitIn(await decide('a'))];
    vi.setSystemTime(Date.now() + 10_000);
    waits.push(waitIn(await decide('a')));
    expect(waits).toEqual([60_000, 60_000, 50_000]);
  });

  it('denied requests with the same wait share a frozen rejection', async () => {
    const decide = deciding(options);
    await decide('a');
    const [first, second] = [await decide('a'), await decide('a')];
    expect(second.rejection).toBe(first.rejection);
    expect(Object.isFrozen(first.rejection)).toBe(true);
  });
});

describe('network lists', () => {
  const lists = { allow: ['192.0.2.1'], deny: ['192.0.2.2'] };
  it.each([
    ['192.0.2.1', [undefined, undefined]],
    ['192.0.2.2', [403, 403]],
    ['192.0.2.3', [undefined, 429]],
  ])(
    'with 192.0.2.1 in `allow` and 192.0.2.2 in `deny`, %s gets the statuses %j',
    async (address, statuses) => {
      const decide = deciding({ limit: 1, window: '1h', ...lists }, address);
      const decisions = [await decide('a'), await decide('a')];
      expect(decisions.map(({ rejection }) => rejection?.status)).toEqual(statuses);
    },
  );

  it('an address in both `allow` and `deny` is allowed', async () => {
    const both = { allow: ['192.0.2.0/24'], deny: ['192.0.2.0/24'] };
    expect((await deciding({ limit: 1, ...both })('a')).passes).toBe(true);
  });
});

describe('a shadow limit', () => {
  const enforced = { name: 'enforced', limit: 1, window: '1h' } as const;
  const planned = { name: 'planned', limit: 3, window: '1h', shadow: true } as const;

  it('a shadow limit reports a decision for each request that the other limits admit', async () => {
    const reported: [string, boolean, number][] = [];
    const decide = deciding({
      limits: [
        { ...enforced, limit: 9 },
        { ...planned, limit: 2 },
      ],
      onShadow: ({ policy, allowed, remaining }, request) => {
        expect(policy).toBe('planned');
        reported.push([request, allowed, remaining]);
      },
    });
    for (const request of ['a', 'b', 'c']) expect((await decide(request)).passes).toBe(true);
    expect(reported).toEqual([
      ['a', true, 1],
      ['b', true, 0],
      ['c', false, 0],
    ]);
  });

  it('a shadow limit that is the only limit reports its decisions', async () => {
    const reported: Decision[] = [];
    const decide = deciding({
      ...{ limit: 1, window: '1h', shadow: true },
      onShadow: (decision) => void reported.push(decision),
    });
    for (let call = 0; call < 3; call++) expect((await decide('a')).passes).toBe(true);
    expect(reported.map(({ allowed }) => allowed)).toEqual([true, false, false]);
  });

  it('a shadow limit does not count requests that an enforced limit denies', async () => {
    const reported: boolean[] = [];
    const decide = deciding({
      limits: [enforced, planned],
      onShadow: ({ allowed }) => void reported.push(allowed),
    });
    const passed: boolean[] = [];
    for (let call = 0; call < 6; call++) passed.push((await decide('a')).passes);
    expect(passed).toEqual([true, false, false, false, false, false]);
    expect(reported).toEqual([true]);
  });

  it('a shadow limit admits requests if the cost is too high or the store fails', async () => {
    const expensive = deciding({ limits: [enforced, { ...planned, cost: () => 4 }] });
    expect((await expensive('a')).passes).toBe(true);
    const fail = () => Promise.reject(new Error('unavailable'));
    const store: Store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
    const unavailable = deciding({ ...planned, store, onFailure: 'throw' });
    expect((await unavailable('a')).passes).toBe(true);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('of the listener');
      },
    ],
    ['rejects', () => Promise.reject(new Error('of the listener'))],
  ])('a shadow limit warns once if onShadow %s, and admits requests', async (_, onShadow) => {
    const warnings: { code: string; message: string }[] = [];
    const decide = deciding({
      ...{ limit: 1, window: '1h', shadow: true, onShadow },
      onWarning: (warning) => void warnings.push(warning),
    });
    for (let call = 0; call < 3; call++) expect((await decide('a')).passes).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([
      {
        code: 'WARN_CALLBACK',
        message: 'onShadow failed (further failures are not reported): Error: of the listener',
      },
    ]);
  });
});

describe('a limit of 0', () => {
  it.each([0, () => 0, async () => 0])(
    'the limit %s denies every request without a charge',
    async (limit) => {
      const store = memoryStore();
      const decide = deciding({ limit, window: '1h', key: () => 'ada', store });
      for (let call = 0; call < 2; call++) {
        const { passes, rejection, headers, decision } = await decide('');
        expect([passes, rejection?.status]).toEqual([false, 429]);
        expect(Object.fromEntries(headers)['Retry-After']).toBe('3600');
        expect(decision).toMatchObject({ limit: 0, remaining: 0, key: 'ada', receipt: undefined });
      }
      expect(store.size).toBe(0);
    },
  );

  it('one limit of 0 among several denies the request, and no limit is charged', async () => {
    const store = memoryStore();
    const many = { name: 'many', limit: 9, window: '1h', key: () => 'ada' } as const;
    const none = { name: 'none', limit: (request: string) => (request === 'blocked' ? 0 : 9) };
    const decide = deciding({ limits: [many, { ...none, key: () => 'ada' }], store });
    const { passes, decision } = await decide('blocked');
    expect([passes, decision?.policy]).toEqual([false, 'none']);
    expect(remainingIn(await decide('admitted'))).toBe(8);
  });
});

describe('a limit that is a function of the request', () => {
  const limits: Record<string, number> = { big: 100, small: 10, broken: -1 };
  const outcome = { status: 200, finished: true, bytes: undefined };

  it.each(['token-bucket', 'sliding-log'] as const)(
    'a refund of a %s limit uses the limit of the refunded request',
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

describe('options of express-rate-limit', () => {
  it('the option identifier sets the policy name, and ipv6Subnet the address prefix', () => {
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
  ])('the options %j of express-rate-limit are rejected', (options, message) => {
    expect(() => resolveOptions(options as never)).toThrow(message);
  });
});
