/** Limits, and lists of limits, have different ids if they are different. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { idOf } from '../src/store.ts';

const part = fc.string({ unit: fc.constantFrom('a', '1', ':', ','), maxLength: 6 });
const limits = fc.array(fc.tuple(part, part), { minLength: 1, maxLength: 3 });
const idsOf = (list: readonly (readonly [string, string])[]): string =>
  list.map(([policy, key]) => idOf(policy, key)).join();

it('different lists of limits have different ids', () => {
  fc.assert(
    fc.property(limits, limits, (one, other) => {
      expect(idsOf(one) === idsOf(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
    }),
    { numRuns: 20_000 },
  );
});

it('a key that contains the id of another limit does not stand for two limits', () => {
  const one = [['a', 'a,1:aa']] as const;
  const two = [
    ['a', 'a'],
    ['a', 'a'],
  ] as const;
  expect(idsOf(one)).not.toBe(idsOf(two));
});

it('a policy without a key has another id than with an empty key', () => {
  expect(idOf('p')).not.toBe(idOf('p', ''));
});
