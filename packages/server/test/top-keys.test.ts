import fc from 'fast-check';
import { memoryStore } from 'sluice';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { DecisionService } from '../src/decision-service.ts';
import {
  HeavyHitters,
  type HitsData,
  KEPT_KEYS,
  MAX_KEYS,
  MAX_SUMMARY_BYTES,
  MIN_SUMMARY_BYTES,
  SummaryBudget,
} from '../src/observe/heavy-hitters.ts';
import { OF_REQUESTS } from '../src/observe/policy-labels.ts';
import { GENERATION_MS, TopKeys, topReport } from '../src/observe/top-keys.ts';
import { policy, type Running, startRunning } from './running.ts';
import { randomOf } from './seeded-random.ts';

/** Yields keys with a Zipf distribution: the n-th key is n times as rare as the first. */
function* zipf(count: number, keys: number, next: () => number): Generator<string> {
  const upTo: number[] = [];
  for (let rank = 1; rank <= keys; rank++) upTo.push((upTo.at(-1) ?? 0) + 1 / rank);
  for (let hit = 0; hit < count; hit++) {
    const drawn = next() * upTo[keys - 1];
    let [low, high] = [0, keys - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (upTo[middle] < drawn) low = middle + 1;
      else high = middle;
    }
    yield `user:${low}`;
  }
}

function exactCounts(keys: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function summaryOf(keys: Iterable<string>, budget?: SummaryBudget): HeavyHitters {
  const summary = new HeavyHitters(budget);
  for (const key of keys) summary.add(key);
  return summary;
}

/** Compares the guarantees of a summary with the exact counts of all keys. */
function expectBounds(
  data: HitsData,
  exact: Map<string, number>,
  parts = 1,
  keptKeys = KEPT_KEYS,
): void {
  const { hits, lacking, keys } = data;
  const total = [...exact.values()].reduce((sum, count) => sum + count, 0);
  expect(hits).toBe(total);
  expect(lacking).toBeLessThanOrEqual(total / (keptKeys + 1) + parts);
  expect(keys.length).toBeLessThanOrEqual(MAX_KEYS);
  const found = new Map(keys);
  for (const [key, least] of keys) {
    expect(least).toBeLessThanOrEqual(exact.get(key) ?? 0);
    expect(least + lacking).toBeGreaterThanOrEqual(exact.get(key) ?? 0);
  }
  for (const [key, count] of exact) if (count > lacking) expect(found.has(key)).toBe(true);
}

describe('HeavyHitters', () => {
  test('a summary counts exactly while all keys fit', () => {
    const keys = Array.from({ length: MAX_KEYS }, (_, key) => `key-${key}`);
    const { hits, lacking, keys: found } = summaryOf([...keys, ...keys]).data();
    expect([hits, lacking, found.length]).toEqual([2 * MAX_KEYS, 0, MAX_KEYS]);
    expect(found.every(([, count]) => count === 2)).toBe(true);
  });

  test('a summary of skewed traffic keeps its bounds and lists the frequent keys', () => {
    const keys = [...zipf(200_000, 50_000, randomOf(1))];
    const exact = exactCounts(keys);
    const data = summaryOf(keys).data();
    expectBounds(data, exact);
    const most = [...exact].sort(([, a], [, b]) => b - a).map(([key]) => key);
    expect(new Set(data.keys.slice(0, 20).map(([key]) => key))).toEqual(new Set(most.slice(0, 20)));
  });

  test('a flood of single hits evicts no key with more than 1 in 201 hits', () => {
    const keys: string[] = [];
    for (let hit = 0; hit < 100_000; hit++) {
      keys.push(`throw-away-${hit}`);
      if (hit % 150 === 0) keys.push('heavy');
    }
    const data = summaryOf(keys).data();
    expectBounds(data, exactCounts(keys));
    expect(data.keys[0][0]).toBe('heavy');
  });

  test('a flood after the last hit of frequent keys does not evict those keys', () => {
    const heavy = Array.from({ length: 50_000 }, (_, hit) => `heavy-${hit % 10}`);
    const flood = Array.from({ length: 50_000 }, (_, hit) => `throw-away-${hit}`);
    const data = summaryOf([...heavy, ...flood]).data();
    expectBounds(data, exactCounts([...heavy, ...flood]));
    expect(data.keys.slice(0, 10).every(([key]) => key.startsWith('heavy'))).toBe(true);
  });

  test('a summary keeps its bounds in the worst order of hits', () => {
    // One key more than fits, so that each key arrives just after its eviction.
    const keys = Array.from({ length: 150_000 }, (_, hit) => `key-${hit % (MAX_KEYS + 1)}`);
    expectBounds(summaryOf(keys).data(), exactCounts(keys));
  });

  test('a summary of any traffic keeps its bounds, also when merged', () => {
    const weights = fc.array(fc.tuple(fc.nat(900), fc.integer({ min: 1, max: 40 })), {
      minLength: 600,
      maxLength: 1500,
    });
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 5 }), (runs, parts) => {
        const keys = runs.flatMap(([key, times]) => Array<string>(times).fill(`key-${key}`));
        const exact = exactCounts(keys);
        expectBounds(summaryOf(keys).data(), exact);
        const merged = new HeavyHitters();
        for (let part = 0; part < parts; part++) {
          merged.merge(summaryOf(keys.filter((_, at) => at % parts === part)).data());
        }
        expectBounds(merged.data(), exact, parts);
      }),
      { numRuns: 30 },
    );
  });

  test('a summary with any budget and key length keeps its bounds', () => {
    const hits = fc.array(fc.tuple(fc.nat(60), fc.integer({ min: 1, max: 9 })), {
      minLength: 100,
      maxLength: 600,
    });
    const lengths = fc.array(fc.constantFrom(1, 8, 60, 300, 1024), { minLength: 1, maxLength: 5 });
    const budget = fc.constantFrom(0, 1000, 5000, 20_000, MAX_SUMMARY_BYTES);
    fc.assert(
      fc.property(hits, lengths, budget, fc.integer({ min: 1, max: 3 }), (runs, long, bytes, n) => {
        const keys = runs.flatMap(([key, times]) =>
          Array<string>(times).fill(`${key}`.padEnd(long[key % long.length], '\u20ac')),
        );
        const exact = exactCounts(keys);
        const shared = new SummaryBudget(bytes);
        const parts = Array.from({ length: n }, (_, part) =>
          summaryOf(
            keys.filter((_key, at) => at % n === part),
            shared,
          ).data(),
        );
        for (const [part, data] of parts.entries()) {
          expectBounds(data, exactCounts(keys.filter((_key, at) => at % n === part)), 1, 0);
        }
        const merged = new HeavyHitters();
        for (const data of parts) merged.merge(data);
        expectBounds(merged.data(), exact, n, 0);
      }),
      { numRuns: 60 },
    );
  });

  test('a summary that cannot grow lists every key with more than a third of the hits', () => {
    const keys: string[] = [];
    for (let hit = 0; hit < 10_000; hit++) keys.push(hit % 5 < 2 ? 'heavy' : `throw-away-${hit}`);
    const data = summaryOf(keys, new SummaryBudget(0)).data();
    expectBounds(data, exactCounts(keys), 1, 2);
    expect(data.keys[0][0]).toBe('heavy');
  });

  test('summaries that share a budget do not exceed it', () => {
    const bytes = 100_000;
    const budget = new SummaryBudget(bytes);
    const keys = Array.from({ length: 1000 }, (_, at) => `${at}`.padEnd(1024, '\u20ac'));
    const summaries = Array.from({ length: 20 }, () => summaryOf([...keys, ...keys], budget));
    const held = summaries.flatMap((each) => each.data().keys.map(([key]) => key));
    const nameBytes = held.reduce((sum, key) => sum + 2 * key.length, 0);
    expect(nameBytes).toBeLessThanOrEqual(bytes + 20 * MIN_SUMMARY_BYTES);
    expect(budget.take(MAX_SUMMARY_BYTES)).toBe(false);
  });

  test('a key that is a slice of a long string does not retain the string', () => {
    const before = process.memoryUsage().heapUsed;
    const summary = new HeavyHitters();
    for (let key = 0; key < MAX_KEYS; key++) {
      const text = `${'x'.repeat(1_000_000)}key-number-${key}`;
      summary.add(text.slice(-17));
    }
    expect(summary.data().keys.length).toBe(MAX_KEYS);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200_000_000);
  });
});

const POLICIES = [
  policy('few', 2, '1h'),
  policy('many', 100, '1h'),
  policy('watched', 1, '1h', { shadow: true }),
];

describe('TopKeys', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  function setUp() {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000_000 });
    const clock = {
      now: () => Date.now(),
      set: (nowMs: number) => vi.setSystemTime(nowMs),
      advance: (timeMs: number) => vi.setSystemTime(Date.now() + timeMs),
    };
    const decisionService = new DecisionService(memoryStore(), POLICIES);
    const topKeys = new TopKeys();
    decisionService.watch(topKeys.watch);
    const check = (...policies: readonly string[]) => {
      const [key = ''] = policies.slice(-1);
      const requests = policies.slice(0, -1).map((each) => ({ policy: each, key }));
      return decisionService.decide(decisionService.limits(requests));
    };
    return { clock, decisionService, topKeys, check };
  }

  const keysOf = (report: { keys: readonly { key: string; atLeast: number }[] }) =>
    Object.fromEntries(report.keys.map(({ key, atLeast }) => [key, atLeast]));

  test('top keys list denied and allowed keys separately', () => {
    const { topKeys, check } = setUp();
    for (let call = 0; call < 5; call++) check('few', 'a');
    check('few', 'b');
    expect(keysOf(topKeys.top('few'))).toEqual({ a: 3 });
    expect(keysOf(topKeys.top('few', { by: 'allowed' }))).toEqual({ a: 2, b: 1 });
    expect(topKeys.top('few', { by: 'allowed', count: 1 }).keys).toEqual([
      { key: 'a', atLeast: 2, atMost: 2 },
    ]);
  });

  test('in a denied check, only limits without capacity count as denied in the top keys', () => {
    const { topKeys, check } = setUp();
    for (let call = 0; call < 5; call++) check('few', 'many', 'a');
    expect(keysOf(topKeys.top('few'))).toEqual({ a: 3 });
    expect(keysOf(topKeys.top('many'))).toEqual({});
    expect(keysOf(topKeys.top('many', { by: 'allowed' }))).toEqual({ a: 2 });
  });

  test('top keys include keys that are denied in shadow mode', () => {
    const { topKeys, check } = setUp();
    for (let call = 0; call < 3; call++) check('many', 'watched', 'a');
    expect(keysOf(topKeys.top('watched'))).toEqual({ a: 2 });
  });

  test('top keys do not include peeks', () => {
    const { decisionService, topKeys } = setUp();
    decisionService.decide(decisionService.limits([{ policy: 'few', key: 'a' }]), { peek: true });
    expect(topKeys.top('few', { by: 'allowed' }).hits).toBe(0);
  });

  test('the top keys of all inline limits are listed under one label', () => {
    const { decisionService, topKeys } = setUp();
    for (const [name, key] of [
      ['sluice.one', 'a'],
      ['sluice.two', 'b'],
    ] as const) {
      decisionService.decide([
        decisionService.inlineLimit(name, { limit: 1, window: '1m' }, key, 1),
      ]);
    }
    expect(keysOf(topKeys.top(OF_REQUESTS, { by: 'allowed' }))).toEqual({ a: 1, b: 1 });
  });

  test('top keys expire after five to ten minutes', () => {
    const { clock, topKeys, check } = setUp();
    check('few', 'early');
    clock.advance(GENERATION_MS - 100);
    check('few', 'later');
    clock.advance(100);
    check('few', 'latest');
    const by = 'allowed';
    expect(Object.keys(keysOf(topKeys.top('few', { by })))).toEqual(['early', 'later', 'latest']);
    expect(topKeys.top('few', { by }).sinceMs).toBe(1_000_000_000);
    clock.advance(GENERATION_MS);
    expect(Object.keys(keysOf(topKeys.top('few', { by })))).toEqual(['latest']);
    clock.advance(3 * GENERATION_MS);
    expect(topKeys.top('few', { by }).hits).toBe(0);
  });

  test('a clock that is set back starts a new generation of top keys', () => {
    const { clock, topKeys, check } = setUp();
    check('few', 'a');
    clock.set(clock.now() - 86_400_000);
    check('few', 'b');
    expect(keysOf(topKeys.top('few', { by: 'allowed' }))).toEqual({ b: 1 });
    expect(topKeys.top('few').sinceMs).toBe(clock.now());
  });

  test('top keys of several processes are merged', () => {
    const [one, other] = [setUp(), setUp()];
    for (let call = 0; call < 4; call++) one.check('few', 'a');
    for (let call = 0; call < 5; call++) other.check('few', 'a');
    other.clock.advance(1);
    const parts = [one, other].map(({ topKeys }) =>
      JSON.parse(JSON.stringify(topKeys.data('few', 'denied'))),
    );
    expect(topReport('few', 'denied', 10, parts)).toEqual({
      policy: 'few',
      by: 'denied',
      sinceMs: 1_000_000_000,
      hits: 5,
      othersAtMost: 0,
      keys: [{ key: 'a', atLeast: 5, atMost: 5 }],
    });
  });
});

describe('GET /v1/top', () => {
  const adminToken = 'a token of enough letters';
  let running: Running;
  beforeAll(async () => {
    running = await startRunning({ config: { policies: POLICIES }, settings: { adminToken } });
    for (let call = 0; call < 5; call++) {
      await running.post('/v1/check', { policy: 'few', key: '__proto__' });
    }
  });
  afterAll(() => running.close());
  const top = (query: string) =>
    running.get(`/v1/top?${query}`, { authorization: `Bearer ${adminToken}` });

  test('GET /v1/top lists keys with the bounds of their hits', async () => {
    const { status, json } = await top('policy=few');
    expect(status).toBe(200);
    expect(json).toMatchObject({ policy: 'few', by: 'denied', hits: 3, othersAtMost: 0 });
    expect(json.keys).toEqual([{ key: '__proto__', atLeast: 3, atMost: 3 }]);
    expect((await top('policy=few&by=allowed&count=1')).json.keys[0].atLeast).toBe(2);
  });

  test('GET /v1/top is empty for a policy without traffic', async () => {
    expect((await top('policy=many')).json).toMatchObject({ hits: 0, keys: [] });
  });

  test.each([
    ['policy=none', 404, 'ERR_UNKNOWN_POLICY'],
    ['', 404, 'ERR_UNKNOWN_POLICY'],
    ['policy=few&by=unknown', 400, 'ERR_INVALID_OPTION'],
    ['policy=few&count=0', 400, 'ERR_INVALID_OPTION'],
    ['policy=few&count=201', 400, 'ERR_INVALID_OPTION'],
    ['policy=few&count=ten', 400, 'ERR_INVALID_OPTION'],
    ['policy=few&cuont=10', 400, 'ERR_INVALID_OPTION'],
  ])('GET /v1/top rejects the query %j with %i', async (query, status, code) => {
    const response = await top(query);
    expect([response.status, response.json.code]).toEqual([status, code]);
  });
});
