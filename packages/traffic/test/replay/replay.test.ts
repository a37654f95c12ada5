/** A replay makes the decisions of the memory store. */
import { definePolicy, type Limit, memoryStore, type WindowAlgorithmName } from 'sluice';
import { expect, test } from 'vitest';
import { Replay, type Rules } from '../../src/replay/replay.ts';
import { entriesOf, randomFrom } from './traffic.ts';

const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'sliding-log',
  'sliding-buckets',
  'sliding-counter',
  'token-bucket',
  'fixed-window',
];

const factsOf = (name: string, shadow: boolean) => ({
  ...{ name, algorithm: 'sliding-log' as const, limit: 1, windowMs: 1, shadow },
});

for (const first of ALGORITHMS) {
  for (const second of ALGORITHMS) {
    test(`a replay with ${first} and ${second} decides like the memory store`, () => {
      const random = randomFrom(first.length * 31 + second.length);
      const policies = [
        definePolicy('first', { limit: 7, window: 900, algorithm: first }),
        definePolicy('second', { limit: 12, window: 2000, algorithm: second }),
        definePolicy('third', { limit: 30, window: 9000, algorithm: first }),
      ];
      let limits: readonly Limit[] = [];
      const rules: Rules = {
        policies: policies.map(({ name }) => factsOf(name, false)),
        limitsOf: () => limits,
      };
      const replay = new Replay(rules);
      const store = memoryStore();
      const [entry] = entriesOf([{ timeMs: 0, client: 'x' }]);
      let nowMs = 1_791_000_000_000;
      let denied = 0;
      for (let turn = 0; turn < 3000; turn++) {
        nowMs += Math.floor(random() ** 3 * 500);
        limits = policies.map((policy) => ({
          ...{ policy, params: policy.params!, key: `k${Math.floor(random() * 3)}` },
          cost: 1 + Math.floor(random() ** 4 * 5),
        }));
        const expected = store.decideSync({ limits, peek: false }, nowMs);
        const outcome = replay.decide(entry, 'x', nowMs);
        expect(outcome.allowed).toBe(expected.allowed);
        if (expected.allowed) continue;
        denied++;
        const full = expected.limits.filter((limit) => !limit.allowed).map(({ policy }) => policy);
        expect(outcome.denying).toEqual(full);
      }
      expect(denied).toBeGreaterThan(100);
      expect(denied).toBeLessThan(2900);
    });
  }
}

test('a replay charges a shadow limit for admitted requests and never denies by it', () => {
  const enforced = definePolicy('enforced', { limit: 3, window: 1000 });
  const watched = definePolicy('watched', { limit: 1, window: 1000 });
  const rules: Rules = {
    policies: [factsOf('enforced', false), factsOf('watched', true)],
    limitsOf: (_, key) =>
      [watched, enforced].map((policy) => ({ policy, params: policy.params!, key, cost: 1 })),
  };
  const replay = new Replay(rules);
  const [entry] = entriesOf([{ timeMs: 0, client: 'x' }]);
  const decide = (nowMs: number) => replay.decide(entry, 'x', nowMs);
  expect(decide(5000)).toEqual({ allowed: true, denying: [], shadowDenying: [] });
  const inShadow = { allowed: true, denying: [], shadowDenying: ['watched'] };
  expect([decide(5000), decide(5000)]).toEqual([inShadow, inShadow]);
  expect(decide(5000)).toEqual({ allowed: false, denying: ['enforced'], shadowDenying: [] });
});

test('a replay denies a cost above the limit without a charge and admits without limits', () => {
  const policy = definePolicy('one', { limit: 1, window: 1000 });
  const limit = { policy, params: policy.params!, key: 'x', cost: 1 };
  const limitLists = [{ violated: ['one'] }, [limit], [limit], []];
  const rules: Rules = { policies: [factsOf('one', false)], limitsOf: () => limitLists.shift()! };
  const replay = new Replay(rules);
  const [entry] = entriesOf([{ timeMs: 0, client: 'x' }]);
  const allowed = [1, 2, 3, 4].map(() => replay.decide(entry, 'x', 5000).allowed);
  expect(allowed).toEqual([false, true, false, true]);
});
