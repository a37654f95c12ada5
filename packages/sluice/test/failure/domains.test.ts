/** Failure domains: a failure in one domain does not affect the others. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FailureOptions, withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, type Store } from '../../src/index.ts';
import type { SentCommand } from '../../src/store.ts';
import { promisesOnly } from '../promises-only.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { OUTAGE, pass, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

/** Returns the number at the beginning of a key as its domain. */
const domainOf = (_policy: unknown, key: string): number => Number.parseInt(key, 10);

/** A store in which some domains are silent or fail. */
function parted(silent: Set<number>, failing = new Set<number>()): Store {
  const memory = promisesOnly();
  const guard = <T>(keys: readonly string[], work: () => Promise<T>): Promise<T> => {
    const domains = keys.map((key) => domainOf(undefined, key));
    if (domains.some((each) => silent.has(each))) return new Promise(() => {});
    if (domains.some((each) => failing.has(each))) return Promise.reject(OUTAGE);
    return work();
  };
  return {
    ...memory,
    domainOf,
    decide: (checks, nowMs) =>
      guard(
        checks.flatMap(({ limits }) => limits.map(({ key }) => key)),
        () => memory.decide(checks, nowMs),
      ),
    adjust: (adjustments, nowMs) =>
      guard(
        adjustments.map(({ charge }) => charge.key),
        () => memory.adjust(adjustments, nowMs),
      ),
    reset: (policy, key) => guard([key], () => memory.reset(policy, key)),
    inspect: (policy, params, key, nowMs) =>
      guard([key], () => memory.inspect!(policy, params, key, nowMs ?? Date.now())),
  };
}

function setUp(inner: Store, options: FailureOptions = {}) {
  const store = withFailurePolicy(inner, { onFailure: 'deny', deadlineMs: 20, ...options });
  const policies = { p: '1000/1m', q: '1000/1m' } as const;
  return { store, limiter: createLimiter({ policies, store }) };
}

describe('a dead domain', () => {
  it('a silent failure domain degrades only calls to that domain', async () => {
    const silent = new Set([1]);
    const { store, limiter } = setUp(parted(silent));
    for (let time = 0; time < 10; time++) {
      const pending = [0, 1, 2, 3].map((domain) => limiter.check('p', `${domain} a`));
      await pass(20);
      const reasons = (await Promise.all(pending)).map(({ degraded }) => degraded?.reason);
      const dead = time < 5 ? 'timeout' : 'open';
      expect(reasons).toEqual([undefined, dead, undefined, undefined]);
    }
    expect(store.breaker).toBe('open');
    silent.clear();
    await pass(250);
    const probe = limiter.check('p', '1 a');
    expect(store.breaker).toBe('probing');
    expect((await probe).degraded).toBe(undefined);
    expect(store.breaker).toBe('closed');
  });

  it('refunds, resets and inspections reject only for a domain with an open breaker', async () => {
    const silent = new Set<number>();
    const { store, limiter } = setUp(parted(silent));
    const receipts = await Promise.all([limiter.check('p', '1 a'), limiter.check('p', '2 a')]);
    silent.add(1);
    const pending = Array.from({ length: 5 }, () => limiter.check('p', '1 b'));
    await pass(20);
    await Promise.all(pending);
    expect(store.breaker).toBe('open');
    const open = { code: 'ERR_STORE_UNAVAILABLE', notDone: true };
    await expect(limiter.refund(receipts[0].receipt!)).rejects.toMatchObject(open);
    await expect(limiter.reset('p', '1 a')).rejects.toMatchObject(open);
    await expect(limiter.inspect('p', '1 a')).rejects.toMatchObject(open);
    expect((await limiter.inspect('p', '2 a'))!.used).toBe(1);
    expect(await limiter.refund(receipts[1].receipt!)).toBe(1);
    await limiter.reset('p', '2 a');
  });

  it('a check of two domains uses no probe if one of the breakers admits no call', async () => {
    const [silent, failing] = [new Set([1]), new Set([2])];
    const { store, limiter } = setUp(parted(silent, failing));
    for (const key of ['1 a', '2 a']) {
      const pending = Array.from({ length: 5 }, () => limiter.check('p', key));
      await pass(20);
      await Promise.all(pending);
    }
    failing.clear();
    await pass(250);
    // Domain 2 could be probed, but domain 1 is probing already.
    const probe = limiter.check('p', '1 a');
    const both = await limiter.check([
      { policy: 'p', key: '2 a' },
      { policy: 'q', key: '1 a' },
    ]);
    expect(both.degraded!.reason).toBe('open');
    expect((await limiter.check('p', '2 a')).degraded).toBe(undefined);
    await pass(20);
    await probe;
    expect(store.breaker).toBe('open');
  });
});

describe('calls in flight', () => {
  it('calls to a silent domain leave capacity for calls to other domains', async () => {
    const { limiter } = setUp(parted(new Set([1])), { maxInFlight: 100 });
    // The guarded store learns the domains from calls.
    for (const domain of [0, 2, 3]) await limiter.check('p', `${domain} a`);
    const stuck = Array.from({ length: 500 }, () => limiter.check('p', '1 a'));
    await turn();
    const others = await Promise.all(
      [0, 2, 3].flatMap((domain) =>
        Array.from({ length: 10 }, (_, key) => limiter.check('p', `${domain} ${key}`)),
      ),
    );
    expect(others.filter(({ degraded }) => degraded)).toEqual([]);
    await pass(20);
    const reasons = (await Promise.all(stuck)).map(({ degraded }) => degraded!.reason);
    expect(reasons.filter((reason) => reason === 'timeout')).toHaveLength(50);
    expect(reasons.filter((reason) => reason === 'overload')).toHaveLength(450);
  });

  it('a store with one domain may use all calls in flight', async () => {
    const { domainOf: _none, ...inner } = parted(new Set([1]));
    const { limiter } = setUp(inner, { maxInFlight: 100 });
    const stuck = Array.from({ length: 101 }, () => limiter.check('p', '1 a'));
    await pass(20);
    const reasons = (await Promise.all(stuck)).map(({ degraded }) => degraded!.reason);
    expect(reasons.filter((reason) => reason === 'timeout')).toHaveLength(100);
  });
});

describe('a check that spans domains', () => {
  /** Reports one command per domain. Commands to domain 1 are lost. */
  function reporting(): Store {
    const memory = promisesOnly();
    return {
      ...memory,
      domainOf,
      submit(check, nowMs, recipient) {
        const commands = check.limits.map(({ key }) => {
          const command: SentCommand = { domain: domainOf(undefined, key) };
          recipient.sent!(command);
          return command;
        });
        for (const command of commands) if (command.domain !== 1) command.outcome = 'replied';
        if (commands.some(({ domain }) => domain === 1)) return;
        memory.decide([check], nowMs).then(recipient.succeeded.bind(recipient));
      },
    };
  }

  it('a timeout of a check over two domains counts only for the silent domain', async () => {
    const { limiter } = setUp(reporting());
    for (let time = 0; time < 10; time++) {
      const pending = limiter.check([
        { policy: 'p', key: '1 a' },
        { policy: 'q', key: '2 a' },
      ]);
      await pass(20);
      expect((await pending).degraded!.reason).toBe(time < 5 ? 'timeout' : 'open');
      expect((await limiter.check('p', '2 b')).degraded).toBe(undefined);
    }
  });
});

it('domain numbers that are negative, fractional or huge are accepted', async () => {
  const inner = { ...parted(new Set()), domainOf: (_: unknown, key: string) => Number(key) };
  const { store, limiter } = setUp(inner);
  for (const key of ['-1', '0.5', '1e300', 'NaN', 'Infinity', '1025', `${2 ** 53}`]) {
    expect((await limiter.check('p', key)).degraded).toBe(undefined);
  }
  expect(store.breaker).toBe('closed');
});

it('an error that domainOf throws rejects only that call', async () => {
  const inner: Store = {
    ...parted(new Set()),
    domainOf(_policy, key) {
      if (key === 'bad') throw new TypeError('no domain');
      return 0;
    },
  };
  const { store, limiter } = setUp(inner);
  for (let time = 0; time < 10; time++) {
    await expect(limiter.check('p', 'bad')).rejects.toThrow('no domain');
    expect((await limiter.check('p', 'good')).degraded).toBe(undefined);
  }
  expect(store.breaker).toBe('closed');
});
