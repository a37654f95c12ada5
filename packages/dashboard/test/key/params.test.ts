import { definePolicy, memoryStore } from 'sluice';
import { optionOf, windowAlgorithmNames } from 'sluice/engine';
import { Random } from 'sluice-traffic/lab';
import { describe, expect, test } from 'vitest';
import type { PolicyDefinition } from '../../src/api/types.ts';
import { noteText } from '../../src/key/admissions.ts';
import { describeAt, paramsOf } from '../../src/key/key-params.ts';
import { report } from './reports.ts';

const START_MS = 1_767_225_600_000;

describe('the usage between two reports', () => {
  test.each(windowAlgorithmNames)(
    'the usage between two reports equals that of the engine for %s',
    (algorithm) => {
      const random = new Random(42);
      const option = optionOf(algorithm);
      const own = option === undefined ? {} : { [option]: { burst: 70, buckets: 7 }[option] };
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
          const read = paramsOf(current, { limit: 50, ...own } as unknown as PolicyDefinition);
          if (option === 'buckets') expect(read.bucketMs).toBe(params.bucketMs);
          const laterMs = nowMs + random.below(2 * windowMs);
          const later = store.inspectSync(policy, params, 'a', laterMs);
          expect(describeAt(current, read, laterMs).used).toBe(later?.used ?? 0);
        }
      }
    },
  );

  test('the usage of a truncated log is that of the report, minus expired entries', () => {
    const entries = [{ atMs: START_MS + 50, cost: 2 }];
    const current = report({
      ...{ windowMs: 100, used: 10, entries, entryCount: 5, atMs: START_MS + 60 },
    });
    const usedAt = (timeMs: number) =>
      describeAt(current, paramsOf(current, undefined), timeMs).used;
    expect(usedAt(START_MS + 60)).toBe(10);
    expect(usedAt(START_MS + 150)).toBe(8);
  });
});

describe('the limit of a key', () => {
  const policy = { limit: 60, buckets: 15 } as PolicyDefinition;

  test('the limit of a key is that of the policy, and its capacity that of the report', () => {
    const current = report({ algorithm: 'token-bucket', limit: 100, windowMs: 30_000 });
    expect(paramsOf(current, policy)).toMatchObject({ capacity: 100, limit: 60, bucketMs: 2000 });
  });

  test('an override replaces the limit of a key and keeps the burst', () => {
    const override = { policy: 'p', key: 'a', limit: 7, source: 'api' } as const;
    const current = report({ algorithm: 'token-bucket', limit: 100, override });
    expect(paramsOf(current, policy)).toMatchObject({ capacity: 100, limit: 7 });
  });

  test('until the policy is loaded, the limit of a key is the capacity in the report', () => {
    const current = report({ limit: 100, windowMs: 30 });
    expect(paramsOf(current, undefined)).toMatchObject({ capacity: 100, limit: 100, bucketMs: 1 });
  });
});

test('a truncated log shows how many entries are listed', () => {
  const entries = Array.from({ length: 1000 }, (_, at) => ({ atMs: START_MS + at, cost: 1 }));
  const current = report({ entries, entryCount: 100_000, used: 100_000, atMs: START_MS + 1000 });
  const described = describeAt(current, paramsOf(current, undefined), START_MS + 1000);
  expect(noteText(described, current, 50, 100)).toBe(
    'Showing 50 of 100,000 entries; the service returns the newest 1,000.',
  );
});
