import { durationCode } from 'sluice/engine';
import { describe, expect, test } from 'vitest';
import {
  formatLabQuery,
  MAX_QUERY_LENGTH,
  parseDuration,
  parseLabQuery,
  queryLength,
} from '../../src/lab/lab-query.ts';
import { DEFAULTS, type LabSettings, MAX_CALLS, SLOTS } from '../../src/lab/settings.ts';
import { parseRoute, routeText } from '../../src/route.ts';

const slots = (...counts: readonly number[]): readonly number[] =>
  Array.from({ length: SLOTS }, (_, at) => counts[at] ?? 0);

/** Encodes and parses settings. */
const roundTrip = (changes: Partial<LabSettings>): LabSettings => {
  const query = formatLabQuery({ ...DEFAULTS, slots: slots(), ...changes });
  const hash = routeText({ page: 'lab', names: [], query });
  const { settings, notices } = parseLabQuery(parseRoute(hash).query);
  expect(notices).toEqual([]);
  return settings;
};

describe('lab settings in the address', () => {
  test('default settings are omitted from the address', () => {
    expect(formatLabQuery(DEFAULTS)).toEqual({});
    expect(parseLabQuery({}).settings).toEqual({ ...DEFAULTS, slots: slots() });
  });

  test.each<[string, Partial<LabSettings>]>([
    ['a shape', { traffic: 'flash-crowd', seed: 7, calls: 500, windows: 5, cost: 3 }],
    ['an adversary', { traffic: 'adversary', against: 'token-bucket' }],
    ['a limit', { limit: 9500, windowMs: 86_400_000, burst: 2000, buckets: 6 }],
    ['an odd window', { windowMs: 997, startMs: 1_745_000_109_000 }],
    ['some algorithms', { algorithms: ['fixed-window', 'token-bucket'], policy: 'fixed-window' }],
    ['no algorithm', { algorithms: [] }],
    ['a drawing', { traffic: 'drawn', slots: slots(0, 0, 0, 5, 5, 12, 0, 0, 1) }],
    ['an empty drawing', { traffic: 'drawn' }],
    ['a full drawing', { traffic: 'drawn', slots: slots(...new Array(SLOTS).fill(500)) }],
  ])('lab settings with %s round-trip through the address', (_, changes) => {
    expect(roundTrip(changes)).toEqual({ ...DEFAULTS, slots: slots(), ...changes });
  });

  test('the address of the lab keeps typed calls to the millisecond', () => {
    const startMs = 1_745_000_000_123;
    const typed = [
      ...Array.from({ length: 50 }, () => ({ atMs: startMs, cost: 1 })),
      { atMs: startMs, cost: 2 },
      { atMs: startMs + 1, cost: 2 },
      { atMs: startMs + 86_400_000, cost: 100 },
    ];
    const changes = { traffic: 'typed', startMs, typed } as const;
    expect(roundTrip(changes)).toEqual({ ...DEFAULTS, slots: slots(), ...changes });
    expect(formatLabQuery({ ...DEFAULTS, ...changes }).times).toBe('0*50_0.2_1.2_86399999.100');
  });

  test('the address of the lab is short for bursts and too long for 2000 different calls', () => {
    const burst = (atMs: number) => Array.from({ length: 50 }, () => ({ atMs, cost: 1 }));
    const { startMs } = DEFAULTS;
    const typed = [...burst(startMs + 9000), ...burst(startMs + 11_000)];
    expect(formatLabQuery({ ...DEFAULTS, traffic: 'typed', typed }).times).toBe('9000*50_2000*50');
    const scattered = Array.from({ length: MAX_CALLS }, (_, at) => {
      return { atMs: startMs + at * (at % 7), cost: 1 + (at % 9) };
    });
    const long = formatLabQuery({ ...DEFAULTS, traffic: 'typed', typed: scattered });
    expect(queryLength(long)).toBeGreaterThan(MAX_QUERY_LENGTH);
  });

  test('the address of drawn traffic needs no escaping', () => {
    const changes = { traffic: 'drawn', slots: slots(3, 3, 3, 1), limit: 7 } as const;
    const hash = routeText({
      page: 'lab',
      names: [],
      query: formatLabQuery({ ...DEFAULTS, ...changes }),
    });
    expect(hash).toBe('#/lab?traffic=drawn&limit=7&drawn=3*3.1');
  });
});

describe('invalid lab settings', () => {
  test.each<[string, string]>([
    ['traffic', 'nothing'],
    ['limit', '0'],
    ['limit', '-5'],
    ['limit', '1e3'],
    ['limit', '1000001'],
    ['limit', ''],
    ['window', 'ten'],
    ['window', '31d'],
    ['window', '0s'],
    ['burst', '1.5'],
    ['buckets', '10001'],
    ['seed', '99999999999'],
    ['calls', '2001'],
    ['windows', '21'],
    ['cost', 'NaN'],
    ['start', '-1'],
    ['against', 'counter'],
    ['policy', 'leaky'],
    ['algorithms', 'sliding-log.leaky'],
    ['drawn', '501'],
    ['drawn', '1*61'],
    ['drawn', '1..2'],
    ['drawn', '5*-1'],
    ['times', '5.0'],
    ['times', '5_'],
    ['times', '1*2001'],
    ['times', '0*999999_0*999999'],
    ['times', '<script>'],
  ])('the lab setting %s=%s falls back to the default with a notice', (name, text) => {
    const { settings, notices } = parseLabQuery({ [name]: text });
    expect(settings).toEqual({ ...DEFAULTS, slots: slots() });
    expect(notices).toHaveLength(1);
    expect(notices[0]).toContain(`Expected \`${name}\` to be `);
    expect(notices[0]).toContain(`got \`${text.slice(0, 40)}\``);
  });

  test('an invalid lab setting leaves other settings in effect', () => {
    const { settings, notices } = parseLabQuery({ limit: 'x', window: '1m', drawn: '' });
    expect(settings.windowMs).toBe(60_000);
    expect(notices).toHaveLength(1);
  });
});

test('durations are written in the largest unit and parsed with spaces and long units', () => {
  const codes = [1, 997, 1000, 90_000, 60_000, 3_600_000, 86_400_000].map(durationCode);
  expect(codes).toEqual(['1ms', '997ms', '1s', '90s', '1m', '1h', '1d']);
  expect(codes.map(parseDuration)).toEqual([1, 997, 1000, 90_000, 60_000, 3_600_000, 86_400_000]);
  expect(['5', '10 s', '2min', ' 1 hour ', 's', '1w'].map(parseDuration)).toEqual([
    5, 10_000, 120_000, 3_600_000, 1000, 604_800_000,
  ]);
  expect(['', '1 month', '1x', '1.5s', '-1s'].map(parseDuration)).toEqual(
    new Array(5).fill(Number.NaN),
  );
});
