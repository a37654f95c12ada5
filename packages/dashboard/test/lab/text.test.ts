import { windowAlgorithmNames } from 'sluice/engine';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../../server/src/config/read.ts';
import { policyFile } from '../../src/lab/policy-file.ts';
import { DEFAULTS, MAX_CALLS } from '../../src/lab/settings.ts';
import { callsText, parseCalls, startOf } from '../../src/lab/typed-calls.ts';

const START_MS = DEFAULTS.startMs;

describe('typed calls', () => {
  test('typed calls are read from lines of a time and a cost, and sorted by time', () => {
    const text = ' 20, 3\n\n5 2 # first\n5\t1\n7;4\n1767225600009';
    expect(parseCalls(text, START_MS)).toEqual({
      calls: [
        { atMs: START_MS + 5, cost: 2 },
        { atMs: START_MS + 5, cost: 1 },
        { atMs: START_MS + 7, cost: 4 },
        { atMs: START_MS + 9, cost: 1 },
        { atMs: START_MS + 20, cost: 3 },
      ],
    });
  });

  test('typed calls round-trip through text', () => {
    const calls = [
      { atMs: START_MS, cost: 1 },
      { atMs: START_MS + 12, cost: 40 },
    ];
    expect(callsText(calls, START_MS)).toBe('0, 1\n12, 40');
    expect(parseCalls(callsText(calls, START_MS), START_MS)).toEqual({ calls });
  });

  test.each(['-1', '1.5', 'now', '5, 0', '5, 1000001', '5, 1, 2', '5, x'])(
    'the line `%s` of typed calls is rejected with its line number',
    (line) => {
      expect(parseCalls(`1, 1\n${line}`, START_MS)).toEqual({
        problem: `Expected line 2 to be a time and a cost, got \`${line}\``,
      });
    },
  );

  test('at most 2000 typed calls are accepted', () => {
    const text = (count: number) => new Array(count).fill('5').join('\n');
    expect(parseCalls(text(MAX_CALLS), START_MS).problem).toBeUndefined();
    expect(parseCalls(text(MAX_CALLS + 1), START_MS).problem).toMatch(/at most 2000 calls/);
  });

  test('a run of typed calls outside the range starts at the window boundary before them', () => {
    const at = (atMs: number) => startOf(DEFAULTS, [{ atMs, cost: 1 }]);
    expect(at(START_MS + 199_999)).toBe(START_MS);
    expect(at(START_MS + 200_005)).toBe(START_MS + 200_000);
    expect(at(1_745_000_109_000)).toBe(1_745_000_100_000);
    expect(startOf(DEFAULTS, [])).toBe(START_MS);
  });

  test('an empty text is read as no typed calls', () => {
    expect(parseCalls('', START_MS)).toEqual({ calls: [] });
  });
});

describe('the policy file', () => {
  test.each(windowAlgorithmNames)(
    'the policy file that the lab shows for %s is valid',
    (algorithm) => {
      const settings = { ...DEFAULTS, policy: algorithm, burst: 70, buckets: 12, windowMs: 90_000 };
      const text = policyFile(settings);
      const { policies } = readConfig([{ path: 'sluice.yaml', text }]);
      expect(policies).toMatchObject([
        {
          name: 'lab',
          options: {
            ...{ limit: 50, window: '90s', algorithm },
            ...(algorithm === 'token-bucket' && { burst: 70 }),
            ...(algorithm === 'sliding-buckets' && { buckets: 12 }),
          },
        },
      ]);
      expect(text.includes('burst')).toBe(algorithm === 'token-bucket');
    },
  );

  test('the policy file that the lab shows contains only the settings in use', () => {
    expect(policyFile(DEFAULTS)).toBe(
      'policies:\n  lab:\n    limit: 50\n    algorithm: sliding-log\n    window: 10s\n',
    );
  });
});
