import { algorithmInfo, windowAlgorithmNames } from 'sluice/engine';
import { describe, expect, test } from 'vitest';
import type { Denial, PolicyDefinition } from '../src/api/types.ts';
import { blockText, definitionText, denialText } from '../src/view/policy-text.ts';

const denial = (fields: Partial<Denial> = {}): Denial => ({
  ...{ atMs: 0, policy: 'perMinute', key: 'ada', cost: 5, limit: 100, remaining: 2 },
  ...{ retryAfterMs: 3200, windowMs: 60_000, algorithm: 'sliding-log' },
  ...fields,
});

describe('the reason of a denial', () => {
  test.each(windowAlgorithmNames)('a denial by %s states usage, cost and wait', (algorithm) => {
    const isLevel = algorithmInfo[algorithm].shape === 'level';
    const usage = isLevel ? '2 of 100 tokens available' : '98 of 100 used in a window of 1 min';
    expect(denialText(denial({ algorithm }))).toBe(`${usage}; this call costs 5; retry in 3.2 s`);
  });

  test('the reason of a denial omits an unknown window', () => {
    const { windowMs: _, algorithm: __, ...rest } = denial();
    expect(denialText(rest)).toBe('98 of 100 used; this call costs 5; retry in 3.2 s');
  });

  test('a denial of a blocked key states how long the block lasts', () => {
    const blocked = denial({ remaining: 0, retryAfterMs: 900_000, blockedUntilMs: 900_000 });
    expect(denialText(blocked)).toBe('blocked for 15 min; retry in 15 min');
  });

  test('a denial by a concurrency limit states what is held', () => {
    const held = denial({ algorithm: 'concurrency' });
    expect(denialText(held)).toBe('98 of 100 held; this call costs 5; retry in 3.2 s');
  });

  test('a denial states a cost above the limit', () => {
    const reason = denialText(denial({ cost: 150 }));
    expect(reason).toBe('this call costs 150, more than the limit of 100');
  });

  test('a denial by a limit of 0 states that the limit denies every call', () => {
    const { retryAfterMs: _, ...rest } = denial({ limit: 0, remaining: 0 });
    for (const cost of [0, 1, 5]) {
      const reason = denialText({ ...rest, cost });
      expect(reason).toBe('the limit is 0, which denies every call');
    }
  });

  test('a degraded denial states the store failure and the onFailure action', () => {
    const deny = denial({ degraded: { reason: 'timeout', action: 'deny' } });
    expect(denialText(deny)).toBe('the store timed out; onFailure: deny');
    const local = denial({ degraded: { reason: 'open', action: 'local' } });
    expect(denialText(local)).toBe(
      '98 of 100 used in a window of 1 min; this call costs 5; retry in 3.2 s; ' +
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

  test('the text of a policy has limit, window and algorithm', () => {
    expect(definitionText(policy)).toBe('10,000 per 1 min, sliding-log');
  });

  test('the text of a concurrency limit has the lease', () => {
    const held = { ...policy, algorithm: 'concurrency', limit: 20, windowMs: 30_000 } as const;
    expect(definitionText(held)).toBe('20 at the same time, lease 30 s');
  });

  test('the text of a policy has the length of its block', () => {
    const block = { forMs: 60_000, factor: 2, maxMs: 3_600_000 };
    expect(definitionText({ ...policy, block })).toMatch(/sliding-log, blocks for 1 min$/);
    expect(blockText(block)).toBe('1 min, then 2 times longer each, up to 1 h');
    expect(blockText({ ...block, factor: 1 })).toBe('1 min');
  });

  test('the text of a policy with a limit of 0 states that every call is denied', () => {
    expect(definitionText({ ...policy, limit: 0 })).toBe('0 per 1 min, denies every call');
  });

  test('the text of a policy has burst or buckets if the algorithm uses them', () => {
    const bucket = { ...policy, algorithm: 'token-bucket', burst: 20 } as const;
    expect(definitionText(bucket)).toBe('10,000 per 1 min, burst 20, token-bucket');
    const buckets = { ...policy, algorithm: 'sliding-buckets', buckets: 60 } as const;
    expect(definitionText(buckets)).toBe('10,000 per 1 min, 60 buckets, sliding-buckets');
  });
});
