import { memoryStore } from 'sluice';
import { describe, expect, test } from 'vitest';
import { DecisionService } from '../src/decision-service.ts';
import {
  MAX_SHADOW_OVERRIDES,
  type ShadowChange,
  ShadowOverrides,
  shadowOverrideOf,
} from '../src/shadow-overrides.ts';
import { policy } from './running.ts';

const policies = [policy('few', 2, '1h'), policy('watched', 1, '1h', { shadow: true })];

describe('ShadowOverrides', () => {
  test('listeners receive each change of a shadow override and its origin', () => {
    const shadowOverrides = new ShadowOverrides();
    const changes: ShadowChange[] = [];
    shadowOverrides.onChange((change) => changes.push(change));
    shadowOverrides.set({ policy: 'b', shadow: true });
    shadowOverrides.set({ policy: 'a', shadow: false }, { isRemote: true });
    shadowOverrides.set({ policy: 'b', shadow: null });
    expect(changes).toEqual([
      { policy: 'b', shadow: true, isRemote: false },
      { policy: 'a', shadow: false, isRemote: true },
      { policy: 'b', shadow: null, isRemote: false },
    ]);
    expect(shadowOverrides.list()).toEqual([{ policy: 'a', shadow: false }]);
  });

  test('shadow overrides are in effect before listeners are called', () => {
    const decisionService = new DecisionService(memoryStore(), policies);
    const seen: boolean[][] = [];
    decisionService.shadowOverrides.onChange(({ policy }) => {
      seen.push([decisionService.policies.isShadow(policy), decisionService.policies.hasShadow]);
    });
    decisionService.shadowOverrides.set({ policy: 'few', shadow: true });
    decisionService.shadowOverrides.set({ policy: 'watched', shadow: false });
    decisionService.shadowOverrides.set({ policy: 'few', shadow: null });
    decisionService.shadowOverrides.set({ policy: 'none', shadow: true });
    expect(seen).toEqual([
      [true, true],
      [false, true],
      [false, false],
      [false, false],
    ]);
  });

  test('shadow overrides of another process are accepted above the maximum', () => {
    const shadowOverrides = new ShadowOverrides();
    for (let at = 0; at < MAX_SHADOW_OVERRIDES; at++)
      shadowOverrides.set({ policy: `p${at}`, shadow: true });
    expect(() => shadowOverrides.set({ policy: 'more', shadow: true })).toThrow(
      'Expected at most 1000',
    );
    shadowOverrides.set({ policy: 'more', shadow: true }, { isRemote: true });
    expect(shadowOverrides.get('more')).toBe(true);
  });

  test.each([undefined, null, 'few', {}, { policy: 'few' }, { policy: 1, shadow: true }])(
    'shadowOverrideOf rejects %j',
    (body) => {
      expect(() => shadowOverrideOf(body)).toThrow('Expected a policy, and true, false or null');
    },
  );
});
