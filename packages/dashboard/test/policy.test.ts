import { describe, expect, test } from 'vitest';
import { expiryText } from '../src/policy/overrides-card.ts';
import { keysText } from '../src/policy/shadow-card.ts';
import { boundsText } from '../src/policy/top-keys-card.ts';

describe('the policy page', () => {
  test('the expiry of an override is shown as a duration from now', () => {
    expect(expiryText(undefined, 0)).toBe('until removed');
    expect(expiryText(3_900_000, 0)).toBe('in 1 h 5 min');
    expect(expiryText(1000, 1000)).toBe('expired');
  });

  test('an uncertain count of a top key is shown as a range', () => {
    expect(boundsText(12, 12)).toBe('12');
    expect(boundsText(1200, 1234)).toBe('1,200–1,234');
  });

  const top = (keys: number, fields = {}) => ({
    ...({ policy: 'p', by: 'denied', sinceMs: 0, hits: 999, othersAtMost: 0 } as const),
    keys: Array.from({ length: keys }, (_, at) => ({ key: `k${at}`, atLeast: 1, atMost: 1 })),
    ...fields,
  });

  test('the number of keys has "at least" if the list of top keys is incomplete', () => {
    expect(keysText(top(1))).toBe('1 key');
    expect(keysText(top(12))).toBe('12 keys');
    expect(keysText(top(200))).toBe('at least 200 keys');
    expect(keysText(top(50, { othersAtMost: 3 }))).toBe('at least 50 keys');
  });

  test('a top key with a lower bound of zero is not counted', () => {
    const keys = [
      { key: 'a', atLeast: 3, atMost: 3 },
      { key: 'b', atLeast: 0, atMost: 2 },
    ];
    expect(keysText(top(0, { keys, othersAtMost: 2 }))).toBe('at least 1 key');
  });
});
