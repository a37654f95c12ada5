import { memoryStore } from 'sluice';
import { describe, expect, test } from 'vitest';
import { DecisionService } from '../../src/decision-service.ts';
import { DenialCollectors, MAX_DENIALS } from '../../src/observe/denials.ts';
import { DecisionCounters } from '../../src/observe/policy-counters.ts';
import { jointBatch } from '../../src/observe/tick-data.ts';
import { policy } from '../running.ts';
import { PendingClock } from './pending-clock.ts';

const START_MS = 1_763_200_000_000;

describe('DenialCollectors', () => {
  function collecting() {
    const clock = new PendingClock(START_MS);
    const policies = [
      policy('few', 1, '1h'),
      policy('none', 1, '1m', { shadow: true }),
      policy('logins', 1, '1m', { block: '15m' }),
    ];
    const decisionService = new DecisionService(memoryStore(), policies);
    const counters = new DecisionCounters();
    decisionService.watch(counters.watch);
    const collectors = new DenialCollectors(decisionService, counters, clock);
    /** The first call of a key is allowed, all others are denied. */
    const call = (name: string, key: string, times = 1) => {
      for (let at = 0; at < times; at++)
        decisionService.decide(decisionService.limits([{ policy: name, key }]));
    };
    return { clock, decisionService, counters, collectors, call };
  }

  test('no denials are collected without a subscriber', () => {
    const { clock, counters, collectors } = collecting();
    expect(counters.onDenial).toBeUndefined();
    collectors.add('a', {});
    expect(counters.onDenial).toBeDefined();
    clock.advance(15_000);
    expect([counters.onDenial, collectors.isOn, clock.pending]).toEqual([undefined, false, 0]);
    collectors.add('a', {});
    collectors.close();
    expect([counters.onDenial, collectors.isOn, clock.pending]).toEqual([undefined, false, 0]);
  });

  test('denials are collected until the subscriber expires', () => {
    const { clock, collectors, call } = collecting();
    collectors.add('a', {});
    collectors.add('b', {});
    for (let second = 0; second < 30; second++) {
      clock.advance(1000);
      call('few', 'x', 2);
      const [{ denials }] = collectors.take('a', [{}]);
      expect(denials).toHaveLength(1);
      expect(denials[0].repeats).toBe(second === 0 ? undefined : 1);
    }
    // The other subscriber has expired, so it starts again.
    expect(collectors.take('b', [{}])).toEqual([{ denials: [], omitted: 0 }]);
  });

  test('the denial of a blocked key has the end of the block', () => {
    const { collectors, call } = collecting();
    collectors.take('a', [{}]);
    call('logins', 'eve', 2);
    call('few', 'eve', 2);
    const [{ denials }] = collectors.take('a', [{}]);
    expect(denials.map(({ atMs, blockedUntilMs = atMs }) => blockedUntilMs - atMs)).toEqual([
      900_000, 0,
    ]);
  });

  test('a flood of one key is one denial with a count, and hides no other key', () => {
    const { collectors, call } = collecting();
    const filters = [{}, { key: 'rare' }, { key: 'ra*' }, { policy: 'none' }, { key: 'flood' }];
    collectors.take('a', filters);
    call('few', 'flood', 5001);
    call('few', 'rare', 2);
    call('few', 'flood', 4999);
    const [all, rare, pattern, other, flood] = collectors.take('a', filters);
    expect(all.denials.map(({ key, repeats }) => [key, repeats])).toEqual([
      ['flood', 9998],
      ['rare', undefined],
    ]);
    expect(all.omitted).toBe(9998);
    expect(rare).toMatchObject({ denials: [{ policy: 'few', key: 'rare' }], omitted: 0 });
    expect(pattern.denials).toEqual(rare.denials);
    expect(other).toEqual({ denials: [], omitted: 0 });
    expect(flood.omitted).toBe(9998);
    expect(collectors.take('a', filters)[0]).toEqual({ denials: [], omitted: 0 });
  });

  test('a batch of denials lists the first 50 keys and counts the denials of others', () => {
    const { collectors, call } = collecting();
    collectors.add('a', {});
    for (let round = 0; round < 3; round++) {
      for (let key = 0; key < MAX_DENIALS + 10; key++) call('few', `k${key}`);
    }
    const [batch] = collectors.take('a', [{}]);
    expect(batch.denials.map(({ key }) => key)).toEqual(
      Array.from({ length: MAX_DENIALS }, (_, at) => `k${at}`),
    );
    expect(new Set(batch.denials.map(({ repeats }) => repeats))).toEqual(new Set([1]));
    expect(batch.omitted).toBe(MAX_DENIALS + 20);
  });

  test('denials of several processes are merged by key', () => {
    const [one, other] = [collecting(), collecting()].map(({ collectors, call }) => {
      collectors.add('a', {});
      call('few', 'x', 4);
      return collectors.take('a', [{}])[0];
    });
    const joint = jointBatch([one, other]);
    expect(joint).toMatchObject({ denials: [{ key: 'x', repeats: 5 }], omitted: 5 });
    expect(joint.denials).toHaveLength(1);
    const keys = Array.from({ length: MAX_DENIALS + 5 }, (_, at) => ({
      ...{ ...one.denials[0], key: `k${at}`, repeats: 1 },
    }));
    const full = jointBatch([{ denials: keys, omitted: keys.length }]);
    expect([full.denials.length, full.omitted]).toEqual([MAX_DENIALS, MAX_DENIALS + 10]);
  });

  test('a collected denial has limit, window, algorithm and shadow mode', () => {
    const { decisionService, collectors } = collecting();
    collectors.add('a', {});
    const both = decisionService.limits([
      { policy: 'few', key: 'a' },
      { policy: 'none', key: 'b' },
    ]);
    decisionService.decide(decisionService.limits([{ policy: 'none', key: 'b' }]));
    decisionService.decide(both);
    decisionService.decide(both);
    const common = {
      ...{ atMs: expect.any(Number), cost: 1, limit: 1, remaining: 0 },
      ...{ retryAfterMs: expect.any(Number), algorithm: 'sliding-log' },
    };
    expect(collectors.take('a', [{}])[0].denials).toEqual([
      { ...common, policy: 'none', key: 'b', windowMs: 60_000, shadow: true },
      { ...common, policy: 'few', key: 'a', windowMs: 3_600_000 },
    ]);
  });

  test('a denied joint check reports only the limits that denied', () => {
    const { decisionService, collectors, call } = collecting();
    decisionService.use([policy('few', 1, '1h'), policy('more', 2, '1h'), policy('many', 9, '1h')]);
    collectors.add('a', {});
    call('few', 'a');
    call('more', 'a', 2);
    const requests = ['many', 'few', 'more'].map((each) => ({ policy: each, key: 'a' }));
    decisionService.decide(decisionService.limits(requests));
    const [{ denials }] = collectors.take('a', [{}]);
    expect(denials.map((each) => each.policy)).toEqual(['few', 'more']);
  });

  test('denials of inline limits are found by label or name', () => {
    const { decisionService, collectors } = collecting();
    const filters = [{ policy: '(request)' }, { policy: 'sluice.inline' }, { policy: 'few' }];
    collectors.take('a', filters);
    const limit = decisionService.inlineLimit('sluice.inline', { limit: 1, window: '10s' }, 'k', 1);
    decisionService.decide([limit]);
    decisionService.decide([limit]);
    const [byLabel, byName, other] = collectors.take('a', filters);
    expect(byLabel.denials).toMatchObject([{ policy: 'sluice.inline', windowMs: 10_000 }]);
    expect(byName).toEqual(byLabel);
    expect(other.denials).toEqual([]);
  });
});
