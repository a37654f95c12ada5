import { describe, expect, test } from 'vitest';
import type { Denial, PolicyDefinition } from '../src/api/types.ts';
import { definitionText, denialText } from '../src/view/policy-text.ts';

const denial = (fields: Partial<Denial> = {}): Denial => ({
  ...{ atMs: 0, policy: 'perMinute', key: 'ada', cost: 5, limit: 100, remaining: 2 },
  ...{ retryAfterMs: 3200, windowMs: 60_000, algorithm: 'sliding-log' },
  ...fields,
});

describe('the reason of a denial', () => {
  test.each([
    ['sliding-log', 'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['sliding-buckets', 'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['sliding-counter', 'used about 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s'],
    ['fixed-window', 'used 98 of 100 in this minute; this call costs 5; fits in 3.2 s'],
    ['token-bucket', '2 of 100 tokens remaining; this call costs 5; enough in 3.2 s'],
  ] as const)('%s states usage, cost and wait', (algorithm, text) => {
    expect(denialText(denial({ algorithm }))).toBe(text);
  });

  test.each([
    [1000, 'this second'],
    [3_600_000, 'this hour'],
    [86_400_000, 'this day'],
    [90_000, 'this window of 90 s'],
  ])('a fixed window of %i ms is called %s', (windowMs, text) => {
    const reason = denialText(denial({ algorithm: 'fixed-window', windowMs }));
    expect(reason).toContain(`used 98 of 100 in ${text};`);
  });

  test('omits an unknown window', () => {
    const { windowMs: _, algorithm: __, ...rest } = denial();
    expect(denialText(rest)).toBe('used 98 of 100; this call costs 5; fits in 3.2 s');
  });

  test('states a cost above the limit', () => {
    const reason = denialText(denial({ cost: 150 }));
    expect(reason).toBe('this call costs 150, more than the limit of 100');
  });

  test('states the store failure and the onFailure action', () => {
    const deny = denial({ degraded: { reason: 'timeout', action: 'deny' } });
    expect(denialText(deny)).toBe('the store timed out; onFailure: deny');
    const local = denial({ degraded: { reason: 'open', action: 'local' } });
    expect(denialText(local)).toBe(
      'used 98 of 100 in the last 1 min; this call costs 5; fits in 3.2 s; ' +
        'local fallback: the circuit breaker is open',
    );
    const unknown = denial({ degraded: { reason: 'moon', action: 'deny' } });
    expect(denialText(unknown)).toContain('the store is unavailable (moon)');
  });
});

describe('the text of a policy', () => {
  const policy: PolicyDefinition = {
    ...{ name: 'a', limit: 10_000, windowMs: 60_000, algorithm: 'sliding-log', costs: {} },
    ...{ shadow: false, shadowBy: 'file', overrides: 0 },
  };

  test('has limit, window and algorithm', () => {
    expect(definitionText(policy)).toBe('10,000 per 1 min, sliding-log');
  });

  test('has burst or buckets where the algorithm uses them', () => {
    const bucket = { ...policy, algorithm: 'token-bucket', burst: 20 } as const;
    expect(definitionText(bucket)).toBe('10,000 per 1 min, burst 20, token-bucket');
    const buckets = { ...policy, algorithm: 'sliding-buckets', buckets: 60 } as const;
    expect(definitionText(buckets)).toBe('10,000 per 1 min, 60 buckets, sliding-buckets');
  });
});
