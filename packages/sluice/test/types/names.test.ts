/**
 * Names are checked at compile time: every line under a `@ts-expect-error` must be an error, or
 * `npm run test:types` fails. At run time the same mistakes throw their codes.
 */
import { expect, it } from 'vitest';
import { createLimiter, type Decision, type PolicyInput, type Receipt } from '../../src/index.ts';

const limiter = createLimiter({
  policies: {
    perMinute: '100/1m',
    quota: { limit: 9500, window: '1d', costs: { 'search.list': 100, 'videos.list': 1 } },
  },
});

const code = (expected: string) => expect.objectContaining({ code: expected });

it('a limiter accepts only the names of its policies', () => {
  expect(limiter.checkSync('perMinute', 'a').allowed).toBe(true);
  // @ts-expect-error unknown policy
  expect(() => limiter.checkSync('perHour', 'a')).toThrow(code('ERR_UNKNOWN_POLICY'));
  // @ts-expect-error unknown policy in a check of several limits
  expect(() => limiter.checkSync([{ policy: 'perHour', key: 'a' }])).toThrow(
    code('ERR_UNKNOWN_POLICY'),
  );
  // @ts-expect-error unknown policy to reset
  expect(() => limiter.resetSync('perHour', 'a')).toThrow(code('ERR_UNKNOWN_POLICY'));
});

it('a limiter accepts only the operations of each policy', () => {
  expect(limiter.checkSync('quota', 'a', { operation: 'search.list' }).remaining).toBe(9400);
  // @ts-expect-error unknown operation
  expect(() => limiter.checkSync('quota', 'a', { operation: 'search.lst' })).toThrow(
    code('ERR_UNKNOWN_OPERATION'),
  );
  // @ts-expect-error that policy has no operations
  expect(() => limiter.checkSync('perMinute', 'a', { operation: 'search.list' })).toThrow(
    code('ERR_UNKNOWN_OPERATION'),
  );
  expect(() =>
    // @ts-expect-error a cost or an operation, not both
    limiter.checkSync('quota', 'a', { operation: 'search.list', cost: 1 }),
  ).toThrow(code('ERR_INVALID_COST'));
  expect(() =>
    limiter.checkSync([
      { policy: 'quota', key: 'a', operation: 'videos.list' },
      // @ts-expect-error an operation of another policy
      { policy: 'perMinute', key: 'a', operation: 'videos.list' },
    ]),
  ).toThrow(code('ERR_UNKNOWN_OPERATION'));
});

it('an admitted decision has a receipt, and a denied decision has none', () => {
  const decision: Decision = limiter.checkSync('perMinute', 'b');
  if (decision.allowed) {
    const receipt: Receipt = decision.receipt;
    expect(receipt.charges).toHaveLength(1);
  } else {
    // @ts-expect-error a denial cannot be refunded
    expect(() => limiter.refundSync(decision.receipt)).toThrow();
  }
  // @ts-expect-error a peek has no receipt
  expect(limiter.peekSync('perMinute', 'b').receipt).toBeUndefined();
});

it('a limiter with policies of type Record accepts any name and operation', () => {
  const policies: Record<string, PolicyInput> = { p: { limit: 5, window: '1s', costs: { a: 2 } } };
  const open = createLimiter({ policies });
  expect(open.checkSync('p', 'k', { operation: 'a' }).remaining).toBe(3);
  expect(open.checkSync('p', 'k', { cost: undefined }).remaining).toBe(2);
  const names: ('perMinute' | 'quota')[] = ['perMinute', 'quota'];
  expect(limiter.checkSync(names.map((policy) => ({ policy, key: 'c' }))).allowed).toBe(true);
});
