import { describe, expect, test } from 'vitest';
import { Overrides } from '../src/overrides.ts';
import { firstAdded, mostSpecific, PatternIndex } from '../src/pattern-index.ts';
import { RequestRules } from '../src/rules/request-rules.ts';
import { matchesWildcard } from '../src/wildcard.ts';
import { randomOf } from './seeded-random.ts';

describe('PatternIndex', () => {
  test.each([firstAdded, mostSpecific])(
    'find returns the same pattern as a linear search (%o)',
    (precedence) => {
      const random = randomOf(7);
      const below = (most: number): number => Math.floor(random() * most);
      const text = (letters: string, most: number): string =>
        Array.from({ length: below(most) }, () => letters[below(letters.length)]).join('');
      for (let round = 0; round < 300; round++) {
        const index = new PatternIndex<number>(precedence);
        const all = Array.from({ length: 12 }, (_, value) =>
          index.add(`${text('ab*', 4)}*`, value),
        );
        for (const each of all.filter(() => below(4) === 0)) {
          index.delete(each);
          all.splice(all.indexOf(each), 1);
        }
        expect(index.size).toBe(all.length);
        for (let search = 0; search < 20; search++) {
          const key = text('ab', 6);
          const accepts = (value: number): boolean => value % 3 !== 0;
          const fitting = all.filter(
            ({ pattern, value }) => matchesWildcard(pattern, key) && accepts(value),
          );
          expect(index.find(key, accepts)).toBe(fitting.sort(precedence)[0]);
        }
      }
    },
  );
});

/** Returns the time of `work` divided by that of `linear`, which is known to be linear. */
function ratio(work: () => void, linear: () => void): number {
  const timeOf = (each: () => void): number => {
    const startMs = performance.now();
    each();
    return performance.now() - startMs;
  };
  const rounds = Array.from({ length: 3 }, () => [timeOf(work), timeOf(linear)]);
  return Math.min(...rounds.map(([time]) => time)) / Math.min(...rounds.map(([, time]) => time));
}

/** Quadratic work on 10,000 entries took 300 times as long as linear work. */
const MAX_RATIO = 30;

describe('large configurations', () => {
  test.each([
    ['prefixes', (at: number) => `user-${at}-*`],
    ['suffixes', (at: number) => `*-user-${at}`],
    ['prefixes and suffixes', (at: number) => `u${at % 100}*x${at}`],
  ])(
    '10,000 override patterns with different %s are handled in linear time',
    (_description, key) => {
      const COUNT = 10_000;
      const useAll = (keyOf: (at: number) => string): void => {
        const overrides = new Overrides();
        const all = Array.from({ length: COUNT }, (_, at) => at);
        overrides.useFile(all.map((at) => ({ policy: 'p', key: keyOf(at), limit: 7 })));
        expect(overrides.list().length).toBe(COUNT);
        for (const at of all) overrides.limitFor('p', keyOf(at).replace('*', 'z'));
      };
      const exact = (at: number): string => key(at).replace('*', 'z');
      expect(
        ratio(
          () => useAll(key),
          () => useAll(exact),
        ),
      ).toBeLessThan(MAX_RATIO);
    },
  );

  test('20,000 rules with different first segments are loaded in linear time', () => {
    const COUNT = 20_000;
    const rulesOf = (path: (at: number) => string) =>
      Array.from({ length: COUNT }, (_, at) => ({
        name: `rule ${at}`,
        match: { kind: 'request' as const, path: [path(at)] },
        goOn: false,
        limits: [{ policy: 'p', key: [{ sources: [{ from: 'address' as const }] }] }],
      }));
    const [apart, together] = [rulesOf((at) => `/a${at}/*`), rulesOf((at) => `/a/${at}`)];
    const time = ratio(
      () => void new RequestRules(apart),
      () => void new RequestRules(together),
    );
    expect(time).toBeLessThan(MAX_RATIO);
  });

  test('rules for a path, its first segment or any path apply in order', () => {
    const paths = ['/a/1', '/b/*', '/a/*', '/**', '/a/1', '/c/d', '/**/1'];
    const rules = paths.map((path, at) => ({
      name: `rule ${at}`,
      match: { kind: 'request' as const, path: [path] },
      goOn: true,
      limits: [{ policy: `p${at}`, key: [{ sources: [{ from: 'address' as const }] }] }],
    }));
    const indexed = new RequestRules(rules);
    const policiesOf = (path: string): unknown =>
      indexed
        .limitsFor({
          ...{ method: 'GET', host: 'h', search: '', header: () => undefined },
          ...{ path, address: () => '192.0.2.1' },
        })
        ?.map(({ policy }) => policy);
    for (let again = 0; again < 2; again++) {
      expect(policiesOf('/a/1')).toEqual(['p0', 'p2', 'p3', 'p4', 'p6']);
      expect(policiesOf('/a/2')).toEqual(['p2', 'p3']);
      expect(policiesOf('/b/1')).toEqual(['p1', 'p3', 'p6']);
      expect(policiesOf('/c/d')).toEqual(['p3', 'p5']);
      expect(policiesOf('/z')).toEqual(['p3']);
    }
  });
});
