import { describe, expect, test } from 'vitest';
import type { Denial, PolicyDefinition } from '../src/api/types.ts';
import { definitionText, whyText } from '../src/view/policy-text.ts';

const denial = (fields: Partial<Denial> = {}): Denial => ({
  ...{ atMs: 0, policy: 'perMinute', key: 'ada', cost: 5, limit: 100, remaining: 2 },
  ...{ retryAfterMs: 3200, windowMs: 60_000, algorithm: 'sliding-log' },
  ...fields,
});

describe('why somebody was denied', () => {
  test.each([
    ['sliding-log', 'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['sliding-buckets', 'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['sliding-counter', 'used about 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['fixed-window', 'used 98 of 100 in this minute; this call costs 5; fits in 3.2 s'],
    ['token-bucket', '2 of 100 tokens left; this call costs 5; enough in 3.2 s'],
  ] as const)('under %s', (algorithm, words) => {
    expect(whyText(denial({ algorithm }))).toBe(words);
  });

  test.each([
    [1000, 'this second'],
    [3_600_000, 'this hour'],
    [86_400_000, 'this day'],
    [90_000, 'this window of 90 s'],
  ])('in a fixed window of %i ms', (windowMs, words) => {
    const why = whyText(denial({ algorithm: 'fixed-window', windowMs }));
    expect(why).toContain(`used 98 of 100 in ${words};`);
  });

  test('by a limit whose window nobody told', () => {
    const { windowMs: _, algorithm: __, ...rest } = denial();
    expect(whyText(rest)).toBe('used 98 of 100; this call costs 5; fits in 3.2 s');
  });

  test('for good, if the call costs more than the limit', () => {
    const why = whyText(denial({ cost: 150 }));
    expect(why).toBe('this call costs 150; no more than 100 ever fit');
  });

  test('because the store was away, and what was done then', () => {
    const deny = denial({ degraded: { reason: 'timeout', action: 'deny' } });
    expect(whyText(deny)).toBe('the store did not answer in time, so the policy says deny');
    const local = denial({ degraded: { reason: 'open', action: 'local' } });
    expect(whyText(local)).toBe(
      'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s; ' +
        'counted here alone, as the store fails too often to be asked',
    );
    const unknown = denial({ degraded: { reason: 'moon', action: 'deny' } });
    expect(whyText(unknown)).toContain('the store is away (moon)');
  });
});

describe('a policy in words', () => {
  const policy: PolicyDefinition = {
    ...{ name: 'a', limit: 10_000, windowMs: 60_000, algorithm: 'sliding-log', costs: {} },
    ...{ shadow: false, shadowBy: 'file', overrides: 0 },
  };

  test('has its limit, its window and its algorithm', () => {
    expect(definitionText(policy)).toBe('10,000 per 1 min, sliding-log');
  });

  test('has what only its algorithm has', () => {
    const bucket = { ...policy, algorithm: 'token-bucket', burst: 20 } as const;
    expect(definitionText(bucket)).toBe('10,000 per 1 min, burst 20, token-bucket');
    const buckets = { ...policy, algorithm: 'sliding-buckets', buckets: 60 } as const;
    expect(definitionText(buckets)).toBe('10,000 per 1 min, 60 buckets, sliding-buckets');
  });
});
