import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DescriptorConfig, RuleConfig } from '../../src/config/model.ts';
import { DescriptorRules, type Entries, keyOf } from '../../src/rules/descriptor-rules.ts';

/** `at('user=ann', limit)`, `at('user', limit)`, `at('user=a*', undefined, at(...))` */
function at(step: string, policy?: string, ...descriptors: DescriptorConfig[]): DescriptorConfig {
  const [key, value] = step.split('=');
  return {
    key,
    ...(value !== undefined && { value }),
    ...(policy !== undefined && { limit: { unlimited: false, policy, replaces: [] } }),
    descriptors,
  };
}

/** `of('user=ann', 'path=/')` */
const of = (...steps: string[]): Entries =>
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

/** The policies and keys that are found. */
function found(rules: DescriptorRules, entries: Entries): readonly string[] | string | undefined {
  const limits = rules.find('d', entries);
  if (limits?.kind !== 'limited') return limits?.kind;
  return limits.limits.map(({ policy, key }) => `${policy} ${key}`);
}

describe('a tree of descriptors', () => {
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
  ])('%s matches the exact value, else the first pattern, else the key', (step, expected) => {
    expect(found(rules, of(step))).toEqual([expected]);
  });

  test('is searched without backtracking', () => {
    expect(found(rules, of('b=x', 'd=1'))).toBeUndefined();
    expect(found(rules, of('b=y', 'd=1'))).toEqual(['d under b b:y:d:1']);
    expect(found(rules, of('b=x'))).toBeUndefined();
  });

  test('matches all entries in order', () => {
    expect(found(rules, of('b=y', 'c=1'))).toEqual(['under b b:y:c:1']);
    expect(found(rules, of('c=1', 'b=y'))).toBeUndefined();
    expect(found(rules, of('b=y', 'c=1', 'c=1'))).toBeUndefined();
  });

  test('does not apply to other domains', () => {
    expect(rules.hasDomain('d')).toBe(true);
    for (const domain of ['e', '', '__proto__', 'constructor']) {
      expect(rules.hasDomain(domain)).toBe(false);
      expect(rules.find(domain, of('a=1'))).toBeUndefined();
    }
  });

  test('does not match names of Object.prototype', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'get', 'size']) {
      expect(found(rules, of(`${name}=x`))).toBeUndefined();
      expect(found(rules, of(`b=${name}`, `${name}=1`))).toBeUndefined();
      expect(found(treeOf(at(name, 'p')), of(`${name}=x`))).toEqual([`p ${name}:x`]);
      expect(found(treeOf(at(`k=${name}`, 'p')), of(`k=${name}`))).toEqual([`p k:${name}`]);
    }
  });

  test('is merged from two files, and the first has precedence', () => {
    const both = new DescriptorRules(
      [],
      [
        { domain: 'd', descriptors: [at('a', 'first')] },
        { domain: 'd', descriptors: [at('a', 'second'), at('b', 'other')] },
      ],
    );
    expect(found(both, of('a=1'))).toEqual(['first a:1']);
    expect(found(both, of('b=1'))).toEqual(['other b:1']);
  });

  test('counts all values of a shared pattern together, also in children', () => {
    const shared = { ...at('r=api/*', 'all', at('m', 'below')), shared: true };
    expect(found(treeOf(shared), of('r=api/v1'))).toEqual(['all r:api/*']);
    expect(found(treeOf(shared), of('r=api/v1', 'm=GET'))).toEqual(['below r:api/*:m:GET']);
  });

  test('has unlimited and blocked descriptors', () => {
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
    expect(rules.find('d', of('a=1'))).toMatchObject({
      kind: 'unlimited',
      name: 'n',
      replaces: ['x'],
    });
    expect(rules.find('d', of('b=1'))).toMatchObject({
      ...{ kind: 'blocked', policy: 'p', windowMs: 1000, shadow: true, soft: true },
    });
  });
});

describe('rules for descriptors', () => {
  const find = (rules: readonly RuleConfig[], ...steps: string[]) =>
    found(
      new DescriptorRules(rules, [{ domain: 'd', descriptors: [at('a', 'tree')] }]),
      of(...steps),
    );

  test('match descriptors with exactly their entries, in any order', () => {
    const rules = [ruleOf({ a: '*', b: 'x*' }, ['p'])];
    expect(find(rules, 'a=1', 'b=xy')).toEqual(['p 1:xy']);
    expect(find(rules, 'b=xy', 'a=1')).toEqual(['p 1:xy']);
    for (const steps of [['a=1', 'b=y'], ['b=x'], ['a=1', 'b=x', 'c=1'], ['a=1', 'a=1']]) {
      expect(find(rules, ...steps)).toBeUndefined();
    }
  });

  test('distinguish a key with a separator from two keys', () => {
    const rules = [ruleOf({ a: '*', b: '*' }, ['p'])];
    expect(find(rules, 'a:b=1')).toBeUndefined();
    expect(find([ruleOf({ 'a:b': '*' }, ['p'])], 'a=1', 'b=1')).toBeUndefined();
  });

  test('have precedence over trees, in their order', () => {
    const rules = [ruleOf({ a: '1' }, ['first']), ruleOf({ a: '*' }, ['second'])];
    expect(find(rules, 'a=1')).toEqual(['first 1']);
    expect(find(rules, 'a=2')).toEqual(['second 2']);
    expect(find([ruleOf({ a: '1' }, ['first'])], 'a=2')).toEqual(['tree a:2']);
  });

  test('with continue add the limits of later rules and of the tree', () => {
    const rules = [ruleOf({ a: '*' }, ['p', 'q'], true), ruleOf({ a: '1' }, ['r', 'p'])];
    expect(find(rules, 'a=1')).toEqual(['p 1', 'q 1', 'r 1']);
    expect(find(rules, 'a=2')).toEqual(['p 2', 'q 2', 'tree a:2']);
  });

  test('without limits mean unlimited, unless other rules add limits', () => {
    expect(find([ruleOf({ a: '*' }, [])], 'a=1')).toBe('unlimited');
    expect(find([ruleOf({ a: '*' }, [], true)], 'a=1')).toEqual(['tree a:1']);
    expect(find([ruleOf({ b: '*' }, [], true)], 'b=1')).toBe('unlimited');
  });

  test('make keys of entries and texts only', () => {
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

  test('for requests are ignored', () => {
    const rule: RuleConfig = { ...ruleOf({}, ['p']), match: { kind: 'request' } };
    expect(find([rule], 'a=1')).toEqual(['tree a:1']);
  });
});

describe('the key of a descriptor', () => {
  const part = fc.oneof(
    fc.string({ maxLength: 6, unit: fc.constantFrom('a', ':', '\\', '') }),
    fc.string({ maxLength: 8 }),
    fc.constantFrom('', ':', '\\', '\\:', 'x'.repeat(2000), ':'.repeat(600)),
  );
  const parts = fc.array(part, { minLength: 1, maxLength: 6 });

  test('is never empty and never too long', () => {
    fc.assert(
      fc.property(parts, (each) => {
        const { length } = keyOf(each);
        expect(length).toBeGreaterThan(0);
        expect(length).toBeLessThanOrEqual(1024);
      }),
    );
  });

  test('differs for different parts', () => {
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const isSame = JSON.stringify(one) === JSON.stringify(other);
        // One empty part is written as two, as a key cannot be empty.
        const anonymous = [JSON.stringify(['']), JSON.stringify(['', ''])];
        fc.pre(
          !anonymous.includes(JSON.stringify(one)) || !anonymous.includes(JSON.stringify(other)),
        );
        expect(keyOf(one) === keyOf(other)).toBe(isSame);
      }),
    );
  });
});
