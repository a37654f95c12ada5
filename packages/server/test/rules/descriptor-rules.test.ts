import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DescriptorConfig, RuleConfig } from '../../src/config/model.ts';
import { DescriptorRules, type Entries, keyOf } from '../../src/rules/descriptor-rules.ts';

/** Returns a descriptor: `at('user=ann', 'policy')`, `at('user=a*', undefined, at(...))`. */
function at(step: string, policy?: string, ...descriptors: DescriptorConfig[]): DescriptorConfig {
  const [key, value] = step.split('=');
  return {
    key,
    ...(value !== undefined && { value }),
    ...(policy !== undefined && { limit: { unlimited: false, policy, replaces: [] } }),
    descriptors,
  };
}

/** Returns the entries of a request: `entriesOf('user=ann', 'path=/')`. */
const entriesOf = (...steps: string[]): Entries =>
  steps.map((step) => {
    const [key, value = ''] = step.split('=');
    return { key, value };
  });

function ruleOf(
  entries: Record<string, string>,
  policies: readonly string[],
  goOn = false,
): RuleConfig {
  const key = Object.keys(entries).map((name) => ({
    sources: [{ from: 'descriptor', name } as const],
  }));
  return {
    name: 'rule',
    match: { kind: 'descriptor', domain: 'd', entries },
    limits: policies.map((policy) => ({ policy, key })),
    goOn,
  };
}

const treeOf = (...descriptors: DescriptorConfig[]): DescriptorRules =>
  new DescriptorRules([], [{ domain: 'd', descriptors }]);

/** Returns the found policies and keys, or the kind of the result. */
function found(rules: DescriptorRules, entries: Entries): readonly string[] | string | undefined {
  const limits = rules.find('d', entries);
  if (limits?.kind !== 'limited') return limits?.kind;
  return limits.limits.map(({ policy, key }) => `${policy} ${key}`);
}

describe('trees of descriptors', () => {
  const rules = treeOf(
    at('a', 'any'),
    at('a=1', 'one'),
    at('a=1*', 'first pattern'),
    at('a=1*9', 'second pattern'),
    at('b=x', undefined, at('c', 'under b=x')),
    at('b', 'b alone', at('c', 'under b'), at('d', 'd under b')),
  );

  test.each([
    ['a=1', 'one a:1'],
    ['a=12', 'first pattern a:12'],
    ['a=199', 'first pattern a:199'],
    ['a=2', 'any a:2'],
    ['a=', 'any a:'],
    ['a=1*', 'first pattern a:1*'],
  ])('the entry %s matches the descriptor with policy and key "%s"', (step, expected) => {
    expect(found(rules, entriesOf(step))).toEqual([expected]);
  });

  test('a tree of descriptors is searched without backtracking', () => {
    expect(found(rules, entriesOf('b=x', 'd=1'))).toBeUndefined();
    expect(found(rules, entriesOf('b=y', 'd=1'))).toEqual(['d under b b:y:d:1']);
    expect(found(rules, entriesOf('b=x'))).toBeUndefined();
  });

  test('a tree of descriptors matches all entries in order', () => {
    expect(found(rules, entriesOf('b=y', 'c=1'))).toEqual(['under b b:y:c:1']);
    expect(found(rules, entriesOf('c=1', 'b=y'))).toBeUndefined();
    expect(found(rules, entriesOf('b=y', 'c=1', 'c=1'))).toBeUndefined();
  });

  test('a tree of descriptors does not apply to other domains', () => {
    expect(rules.hasDomain('d')).toBe(true);
    for (const domain of ['e', '', '__proto__', 'constructor']) {
      expect(rules.hasDomain(domain)).toBe(false);
      expect(rules.find(domain, entriesOf('a=1'))).toBeUndefined();
    }
  });

  test('names of Object.prototype match only if they are declared', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'get', 'size']) {
      expect(found(rules, entriesOf(`${name}=x`))).toBeUndefined();
      expect(found(rules, entriesOf(`b=${name}`, `${name}=1`))).toBeUndefined();
      expect(found(treeOf(at(name, 'p')), entriesOf(`${name}=x`))).toEqual([`p ${name}:x`]);
      expect(found(treeOf(at(`k=${name}`, 'p')), entriesOf(`k=${name}`))).toEqual([`p k:${name}`]);
    }
  });

  test('descriptor trees of two files are merged, and the first has precedence', () => {
    const both = new DescriptorRules(
      [],
      [
        { domain: 'd', descriptors: [at('a', 'first')] },
        { domain: 'd', descriptors: [at('a', 'second'), at('b', 'other')] },
      ],
    );
    expect(found(both, entriesOf('a=1'))).toEqual(['first a:1']);
    expect(found(both, entriesOf('b=1'))).toEqual(['other b:1']);
  });

  test('all values of a shared pattern have one key, also in children', () => {
    const shared = { ...at('r=api/*', 'all', at('m', 'below')), shared: true };
    expect(found(treeOf(shared), entriesOf('r=api/v1'))).toEqual(['all r:api/*']);
    expect(found(treeOf(shared), entriesOf('r=api/v1', 'm=GET'))).toEqual(['below r:api/*:m:GET']);
  });

  test('unlimited and blocked descriptors are found', () => {
    const unlimited = { unlimited: true, replaces: ['x'], name: 'n' } as const;
    const blocked = {
      unlimited: false,
      blocked: true,
      policy: 'p',
      windowMs: 1000,
      shadow: true,
      quota: true,
      replaces: [],
    } as const;
    const rules = treeOf({ ...at('a'), limit: unlimited }, { ...at('b'), limit: blocked });
    expect(rules.find('d', entriesOf('a=1'))).toMatchObject({
      kind: 'unlimited',
      name: 'n',
      replaces: ['x'],
    });
    expect(rules.find('d', entriesOf('b=1'))).toMatchObject({
      ...{ kind: 'blocked', policy: 'p', windowMs: 1000, shadow: true, soft: true },
    });
  });
});

describe('rules for descriptors', () => {
  const find = (rules: readonly RuleConfig[], ...steps: string[]) =>
    found(
      new DescriptorRules(rules, [{ domain: 'd', descriptors: [at('a', 'tree')] }]),
      entriesOf(...steps),
    );

  test('a rule matches descriptors with exactly its entries in any order', () => {
    const rules = [ruleOf({ a: '*', b: 'x*' }, ['p'])];
    expect(find(rules, 'a=1', 'b=xy')).toEqual(['p 1:xy']);
    expect(find(rules, 'b=xy', 'a=1')).toEqual(['p 1:xy']);
    for (const steps of [['a=1', 'b=y'], ['b=x'], ['a=1', 'b=x', 'c=1'], ['a=1', 'a=1']]) {
      expect(find(rules, ...steps)).toBeUndefined();
    }
  });

  test('a rule distinguishes a key with a separator from two keys', () => {
    const rules = [ruleOf({ a: '*', b: '*' }, ['p'])];
    expect(find(rules, 'a:b=1')).toBeUndefined();
    expect(find([ruleOf({ 'a:b': '*' }, ['p'])], 'a=1', 'b=1')).toBeUndefined();
  });

  test('rules have precedence over trees and apply in order', () => {
    const rules = [ruleOf({ a: '1' }, ['first']), ruleOf({ a: '*' }, ['second'])];
    expect(find(rules, 'a=1')).toEqual(['first 1']);
    expect(find(rules, 'a=2')).toEqual(['second 2']);
    expect(find([ruleOf({ a: '1' }, ['first'])], 'a=2')).toEqual(['tree a:2']);
  });

  test('a rule with continue adds the limits of later rules and of the tree', () => {
    const rules = [ruleOf({ a: '*' }, ['p', 'q'], true), ruleOf({ a: '1' }, ['r', 'p'])];
    expect(find(rules, 'a=1')).toEqual(['p 1', 'q 1', 'r 1']);
    expect(find(rules, 'a=2')).toEqual(['p 2', 'q 2', 'tree a:2']);
  });

  test('a descriptor rule without limits means unlimited if no other rule adds limits', () => {
    expect(find([ruleOf({ a: '*' }, [])], 'a=1')).toBe('unlimited');
    expect(find([ruleOf({ a: '*' }, [], true)], 'a=1')).toEqual(['tree a:1']);
    expect(find([ruleOf({ b: '*' }, [], true)], 'b=1')).toBe('unlimited');
  });

  test('keys of descriptor rules contain entries and texts only', () => {
    const key = [
      {
        sources: [
          { from: 'descriptor', name: 'none' } as const,
          { from: 'text', text: 't' } as const,
        ],
      },
      { sources: [{ from: 'address' } as const, { from: 'descriptor', name: 'a' } as const] },
      { sources: [{ from: 'header', name: 'x' } as const] },
    ];
    const rule = { ...ruleOf({ a: '*' }, []), limits: [{ policy: 'p', key }] };
    expect(find([rule], 'a=1')).toEqual(['p t:1:']);
  });

  test('rules for requests do not apply to descriptors', () => {
    const rule: RuleConfig = { ...ruleOf({}, ['p']), match: { kind: 'request' } };
    expect(find([rule], 'a=1')).toEqual(['tree a:1']);
  });
});

describe('keyOf', () => {
  const part = fc.oneof(
    fc.string({ maxLength: 6, unit: fc.constantFrom('a', ':', '\\', '') }),
    fc.string({ maxLength: 8 }),
    fc.constantFrom('', ':', '\\', '\\:', 'x'.repeat(2000), ':'.repeat(600)),
  );
  const parts = fc.array(part, { minLength: 1, maxLength: 6 });

  test('the key of a descriptor is never empty and never too long', () => {
    fc.assert(
      fc.property(parts, (each) => {
        const { length } = keyOf(each);
        expect(length).toBeGreaterThan(0);
        expect(length).toBeLessThanOrEqual(1024);
      }),
    );
  });

  test('descriptors with different parts have different keys', () => {
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const isSame = JSON.stringify(one) === JSON.stringify(other);
        // One empty part is written as two, because a key cannot be empty.
        const emptyParts = [JSON.stringify(['']), JSON.stringify(['', ''])];
        fc.pre(
          !emptyParts.includes(JSON.stringify(one)) || !emptyParts.includes(JSON.stringify(other)),
        );
        expect(keyOf(one) === keyOf(other)).toBe(isSame);
      }),
    );
  });
});
