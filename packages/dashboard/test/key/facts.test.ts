import { definePolicy, memoryStore } from 'sluice';
import { Random } from 'sluice-traffic/lab';
import { describe, expect, test } from 'vitest';
import type { AlgorithmName, KeyReport, PolicyDefinition } from '../../src/api/types.ts';
import { noteOf } from '../../src/key/admissions.ts';
import { explainKey } from '../../src/key/explanation.ts';
import { counterParts, factsOf, tokensAt, usedAt } from '../../src/key/key-facts.ts';
import { report } from './reports.ts';

const START_MS = 1_767_225_600_000;

const ALGORITHMS: readonly AlgorithmName[] = [
  ...(['fixed-window', 'sliding-log', 'sliding-counter'] as const),
  ...(['sliding-buckets', 'token-bucket'] as const),
];

describe('what counts between two reports', () => {
  test.each(ALGORITHMS)('is what the engine says, of %s', (algorithm) => {
    const random = new Random(42);
    const own = {
      ...(algorithm === 'token-bucket' && { burst: 70 }),
      ...(algorithm === 'sliding-buckets' && { buckets: 7 }),
    };
    for (const windowMs of [997, 10_000]) {
      const policy = definePolicy('p', { limit: 50, window: windowMs, algorithm, ...own });
      const store = memoryStore();
      const params = policy.params!;
      let nowMs = START_MS;
      for (let call = 0; call < 300; call++) {
        nowMs += random.below(windowMs / 6);
        const cost = 1 + random.below(9);
        store.open(policy).takeSync(params, 'a', cost, nowMs);
        const state = store.inspectSync(policy, params, 'a', nowMs);
        if (state === undefined) continue;
        const { used, cells, entries } = state;
        const current = report({
          ...{ algorithm, windowMs, limit: params.capacity, used, cells, entries },
          ...{ atMs: nowMs, entryCount: entries.length },
        });
        const facts = factsOf(current, { limit: 50, ...own } as unknown as PolicyDefinition);
        expect(facts.bucketMs).toBe(
          algorithm === 'sliding-buckets' ? params.bucketMs : facts.bucketMs,
        );
        const laterMs = nowMs + random.below(2 * windowMs);
        const later = store.inspectSync(policy, params, 'a', laterMs);
        expect(usedAt(facts, current, laterMs)).toBe(later?.used ?? 0);
      }
    }
  });

  test('is what the report says where that does not list all', () => {
    const entries = [{ atMs: START_MS + 50, cost: 2 }];
    const current = report({
      windowMs: 100,
      used: 10,
      entries,
      entryCount: 5,
      atMs: START_MS + 60,
    });
    const facts = factsOf(current, undefined);
    expect(usedAt(facts, current, START_MS + 60)).toBe(10);
    expect(usedAt(facts, current, START_MS + 150)).toBe(8);
  });
});

describe('the facts of a key', () => {
  const policy = { limit: 60, buckets: 15 } as PolicyDefinition;

  test('are those of its policy', () => {
    const current = report({ algorithm: 'token-bucket', limit: 100, windowMs: 30_000 });
    expect(factsOf(current, policy)).toMatchObject({ capacity: 100, limit: 60, bucketMs: 2000 });
  });

  test('have the limit of an override, and the burst as it is', () => {
    const override = { policy: 'p', key: 'a', limit: 7, source: 'api' } as const;
    const current = report({ algorithm: 'token-bucket', limit: 100, override });
    expect(factsOf(current, policy)).toMatchObject({ capacity: 100, limit: 7 });
  });

  test('are guessed as far as that goes while the policy is not known', () => {
    const current = report({ limit: 100, windowMs: 30 });
    expect(factsOf(current, undefined)).toMatchObject({ capacity: 100, limit: 100, bucketMs: 1 });
  });
});

describe('the story', () => {
  const tell = (fields: Partial<KeyReport>, nowMs: number, policy?: Partial<PolicyDefinition>) => {
    const current = report(fields);
    return explainKey(factsOf(current, policy as PolicyDefinition), current, nowMs);
  };
  const windowMs = 60_000;

  test('of a counter weighs the previous window by what is in sight of it', () => {
    const cells = [START_MS + 2 * windowMs, 40, 80];
    const { sum } = tell(
      { algorithm: 'sliding-counter', windowMs, limit: 100, cells },
      START_MS + 39_000,
    );
    expect(sum).toBe('previous 80 × 0.35 = 28, current 40, together 68 of 100');
  });

  test('of a counter takes the newest window for the previous one once it is over', () => {
    const current = report({ algorithm: 'sliding-counter', windowMs, limit: 100 });
    const cells = [START_MS + 2 * windowMs, 40, 80];
    const at = (afterMs: number) =>
      counterParts(factsOf(current, undefined), cells, START_MS + afterMs);
    expect(at(windowMs)).toMatchObject({ previous: 40, current: 0, weighed: 40 });
    expect(at(1.5 * windowMs)).toMatchObject({ previous: 40, current: 0, weighed: 20 });
    expect(at(2 * windowMs)).toMatchObject({ previous: 0, current: 0, weighed: 0 });
  });

  test('of a log tells when the oldest entry leaves, unless there are older ones', () => {
    const entries = [
      { atMs: START_MS, cost: 3 },
      { atMs: START_MS + 10, cost: 4 },
    ];
    const fields = { windowMs, limit: 10, used: 7, entries, entryCount: 2 };
    expect(tell(fields, START_MS + 58_000)).toEqual({
      sum: '7 of 10: all that was admitted in the last 1 min',
      frees: 'the oldest, of cost 3, leaves in 2.0 s',
    });
    expect(tell({ ...fields, entryCount: 9 }, START_MS + 58_000).frees).toBe('');
  });

  test('of buckets says how coarse they are', () => {
    const { sum } = tell({ algorithm: 'sliding-buckets', windowMs, limit: 10 }, START_MS, {
      buckets: 30,
    });
    expect(sum).toContain('each as of the end of its bucket of 2 s');
  });

  test('of a fixed window tells when the next begins', () => {
    const cells = [START_MS + windowMs, 9, 0];
    const current = { algorithm: 'fixed-window', windowMs, limit: 10, cells } as const;
    expect(tell(current, START_MS + 15_000).sum).toMatch(/^9 of 10: .* since \d\d:\d\d:00/);
    expect(tell(current, START_MS + 15_000).frees).toContain('begins in 45.0 s');
    expect(tell(current, START_MS + windowMs).sum).toMatch(/^0 of 10/);
  });

  test('of a token bucket tells the tokens, and how they come back', () => {
    const cells = [START_MS + 90_000, 10 * windowMs, START_MS];
    const current = { algorithm: 'token-bucket', windowMs, limit: 100, cells } as const;
    const story = tell(current, START_MS + 10_000, { limit: 60 });
    expect(story.sum).toBe('20 of 100 tokens are there');
    expect(story.frees).toBe('60 come back in 1 min, one every 1.0 s');
    const facts = factsOf(report(current), { limit: 60 } as PolicyDefinition);
    expect(tokensAt(facts, cells, START_MS + 10 * windowMs)).toBe(100);
    expect(tokensAt(facts, [], START_MS)).toBe(100);
  });
});

test('a log that is longer than its list says how many entries are shown', () => {
  const entries = Array.from({ length: 1000 }, (_, at) => ({ atMs: START_MS + at, cost: 1 }));
  const current = report({ entries, entryCount: 100_000, used: 100_000, atMs: START_MS + 1000 });
  const note = noteOf(factsOf(current, undefined), current, 50, 100);
  expect(note).toBe('Showing 50 of 100,000 entries; the service returns the newest 1,000.');
});
