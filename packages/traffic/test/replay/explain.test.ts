import { definePolicy, type WindowAlgorithmName } from 'sluice';
import { describe, expect, test } from 'vitest';
import { Explainer, type ExplainOptions } from '../../src/replay/explain.ts';
import { entriesOf, type MadeRequest } from './traffic.ts';

const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);
const at = (second: number, client = 'a'): MadeRequest => ({
  ...{ client, timeMs: START_MS + 1000 * second },
});

function explainer(
  options: Partial<ExplainOptions> = {},
  algorithm: WindowAlgorithmName = 'sliding-log',
) {
  const policy = definePolicy('', { limit: 3, window: '1m', algorithm });
  return new Explainer({ policy, keyOf: ({ client }) => client, key: 'a', ...options });
}

const TRAFFIC = [at(0), at(5, 'b'), at(10), at(20), at(30), at(59), at(60), at(61)];

describe('an explanation', () => {
  test('an explanation counts the requests so far and states why a request was chosen', () => {
    const explained = (traffic: readonly MadeRequest[], atMs?: number) => {
      const found = explainer(atMs === undefined ? {} : { atMs });
      found.add(entriesOf(traffic));
      const { choice, seen } = found.result()!;
      return { choice, ...seen };
    };
    const quiet = [at(0), at(10), at(300)];
    expect(explained(quiet)).toEqual({ choice: 'least-remaining', requests: 2, denied: 0 });
    expect(explained(TRAFFIC, START_MS + 20_000)).toEqual({
      ...{ choice: 'at', requests: 3, denied: 0 },
    });
    const twice = [at(0), at(1), at(2), at(2), at(2)];
    expect(explained(twice, START_MS + 2000)).toEqual({
      ...{ choice: 'first-denied-at', requests: 4, denied: 1 },
    });
    expect(explained(TRAFFIC, START_MS + 25_000).choice).toBe('none-at');
  });

  test('without a given time, the first denied request is explained with its entries', () => {
    const found = explainer();
    found.add(entriesOf(TRAFFIC));
    expect(found.isDone).toBe(true);
    expect(found.result()).toMatchObject({
      seen: { requests: 4, denied: 1 },
      choice: 'first-denied',
      atMs: START_MS + 30_000,
      allowed: false,
      retryAfterMs: 30_000,
      used: 3,
      inLog: true,
      entries: [0, 10, 20].map((second) => ({ atMs: START_MS + 1000 * second, cost: 1 })),
    });
    expect(found.result()!.requests.map(({ allowed }) => allowed)).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });

  test('the request at a given time is explained, or a hypothetical request', () => {
    const atRequest = explainer({ atMs: START_MS + 60_000 });
    atRequest.add(entriesOf(TRAFFIC));
    expect(atRequest.result()).toMatchObject({ allowed: true, inLog: true, used: 2 });
    const notAsked = explainer({ atMs: START_MS + 45_000 });
    notAsked.add(entriesOf(TRAFFIC));
    expect(notAsked.result()).toMatchObject({
      ...{ allowed: false, inLog: false, atMs: START_MS + 45_000, retryAfterMs: 15_000 },
    });
  });

  test('of several requests at the given time, the first denied one is explained', () => {
    const found = explainer({ atMs: START_MS });
    found.add(entriesOf([at(0), at(0), at(0), at(0), at(0), at(1)]));
    expect(found.result()).toMatchObject({ allowed: false, used: 3 });
    expect(found.result()!.requests).toHaveLength(4);
  });

  test('without a denial, the request with the least remaining is explained', () => {
    const found = explainer();
    found.add(entriesOf([at(0), at(10), at(80), at(200)]));
    expect(found.result()).toMatchObject({ allowed: true, remaining: 1, atMs: START_MS + 10_000 });
  });

  test('the explanation of a client without requests is undefined', () => {
    const found = explainer({ key: 'unknown' });
    found.add(entriesOf(TRAFFIC));
    expect(found.result()).toBeUndefined();
    const early = explainer({ atMs: START_MS - 1 });
    early.add(entriesOf(TRAFFIC));
    expect(early.result()).toBeUndefined();
  });

  test.each(['fixed-window', 'sliding-counter', 'token-bucket', 'sliding-buckets'] as const)(
    'the retry time in an explanation of %s is exact',
    (algorithm) => {
      const found = explainer({}, algorithm);
      found.add(entriesOf(TRAFFIC));
      const { allowed, atMs, retryAfterMs } = found.result()!;
      expect(allowed).toBe(false);
      for (const [early, isIn] of [
        [1, false],
        [0, true],
      ] as const) {
        const later = explainer({ atMs: atMs + retryAfterMs - early }, algorithm);
        later.add(entriesOf(TRAFFIC.filter(({ timeMs }) => timeMs <= atMs)));
        expect(later.result()).toMatchObject({ inLog: false, allowed: isIn });
      }
    },
  );
});
