import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definePolicy, type PolicyInput } from '../../src/index.ts';
import { KeyNames, slotOf } from '../../src/stores/redis/keys.ts';
import { isFull } from './campaign.ts';

const names = new KeyNames('s:');
const named = (name: string, input: PolicyInput, key = 'user:42'): string =>
  names.of(definePolicy(name, input), key);

/** Any text, also with lone surrogates, which UTF-8 cannot encode. */
const anyText = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  minLength: 1,
});
/** Text that is likely to collide: it consists of the special characters of a name. */
const trickyText = fc.string({
  unit: fc.constantFrom('{', '}', '%', '=', '/', 'L', '1', 'm', '0', '\ud83d'),
  minLength: 1,
});
const text = fc.oneof(anyText, trickyText);

describe('the name of a key', () => {
  it('the name of a Redis key contains the key, policy, algorithm and window', () => {
    expect(named('perMinute', '100/1m')).toBe('s:{user:42}perMinuteL1m');
    expect(named('p', { limit: 5, window: 90_000, algorithm: 'sliding-counter' })).toBe(
      's:{user:42}pC90s',
    );
    expect(named('p', { limit: 5, window: '1h', algorithm: 'sliding-buckets', buckets: 6 })).toBe(
      's:{user:42}pB1h/600000',
    );
    expect(named('p', { limit: 5, window: '36500d', algorithm: 'token-bucket' })).toBe(
      's:{user:42}pT36500d',
    );
    expect(named('p', { limit: 5, window: 1, algorithm: 'fixed-window' })).toBe('s:{user:42}pF1ms');
  });

  it('different policies, keys and records have different names in Redis', () => {
    const seen = new Map<string, string>();
    const expectUnique = (name: string, what: string): void => {
      // The bytes that Redis receives.
      const bytes = Buffer.from(name, 'utf8').toString('latin1');
      expect(seen.get(bytes) ?? what).toBe(what);
      seen.set(bytes, what);
    };
    fc.assert(
      fc.property(text, text, (policy, key) => {
        const name = named(policy, '5/1m', key);
        expectUnique(name, JSON.stringify([policy, key]));
        expectUnique(names.ofRecords(name), JSON.stringify([policy, key, 'records']));
      }),
      { numRuns: isFull ? 3000 : 500 },
    );
  });

  it('all Redis keys of one limited key are in one slot', () => {
    fc.assert(
      fc.property(text, text, (policy, key) => {
        const name = named(policy, '5/1m', key);
        const inBraces = name.slice(name.indexOf('{') + 1, name.indexOf('}'));
        expect(name.indexOf('{')).toBe('s:'.length);
        expect(inBraces.length).toBeGreaterThan(0);
        expect(slotOf(name)).toBe(slotOf(named('other', '5/1h', key)));
      }),
      { numRuns: isFull ? 1000 : 300 },
    );
  });
});

describe('the slot of a key', () => {
  it.each([
    ['123456789', 0x31c3],
    ['foo', 12182],
    ['user1000', 3443],
  ])('slotOf returns for {%s} the slot %i, as Redis does', (tag, slot) => {
    expect(slotOf(`prefix{${tag}}rest`)).toBe(slot % 16_384);
  });
});
