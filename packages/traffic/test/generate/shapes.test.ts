/** Measures that generated traffic has the named shape. */
import { createLimiter, ManualClock } from 'sluice';
import { addressKey } from 'sluice/http';
import { describe, expect, test } from 'vitest';
import {
  type GeneratedRequest,
  GenerateError,
  generateTraffic,
  SHAPE_NAMES,
  type ShapeName,
  type TrafficOptions,
} from '../../src/index.ts';

const generated = (
  shape: ShapeName,
  options: Omit<TrafficOptions, 'shape'> = {},
): GeneratedRequest[] => [...generateTraffic({ shape, ...options })];

function countsBy<T>(list: readonly T[], keyOf: (each: T) => string | number) {
  const counts = new Map<string | number, number>();
  for (const each of list) counts.set(keyOf(each), (counts.get(keyOf(each)) ?? 0) + 1);
  return counts;
}

const START_MS = 1_767_225_600_000;
const MINUTE_MS = 60_000;

describe.each(SHAPE_NAMES)('the traffic shape %s', (shape) => {
  const requests = generated(shape, { requests: 5000, clients: 50, seed: 4 });

  test(`${shape} traffic has the given number of requests, in order and in the duration`, () => {
    expect(requests).toHaveLength(5000);
    const times = requests.map(({ timeMs }) => timeMs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(times.every(Number.isInteger)).toBe(true);
    const durationMs = shape === 'diurnal' ? 24 * 60 * MINUTE_MS : 10 * MINUTE_MS;
    expect(times[0]).toBeGreaterThanOrEqual(START_MS);
    expect(times.at(-1)).toBeLessThan(START_MS + durationMs);
  });

  test(`${shape} traffic has the given number of ordinary clients`, () => {
    const ordinary = requests.filter(({ client }) =>
      /^10\.(?:\d\d?|1[01]\d|12[0-7])\./.test(client),
    );
    const six = requests.filter(({ client }) => /^2001:db8:[\da-f]{1,2}:/.test(client));
    const clients = new Set([...ordinary, ...six].map(({ client }) => client));
    expect(clients.size).toBe(50);
  });

  test(`another seed generates different ${shape} traffic`, () => {
    const other = generated(shape, { requests: 5000, clients: 50, seed: 5 });
    expect(other.map(({ timeMs }) => timeMs)).not.toEqual(requests.map(({ timeMs }) => timeMs));
  });

  test(`${shape} traffic can have one request of one client, or none`, () => {
    const options = { requests: 1, clients: 1, durationMs: 1000, windowMs: 60 };
    expect(generated(shape, options)).toHaveLength(1);
    expect(generated(shape, { ...options, requests: 0 })).toHaveLength(0);
  });
});

test('steady traffic has a constant rate and a few heavy clients', () => {
  const requests = generated('steady', { requests: 60_000, clients: 1000 });
  const minutes = countsBy(requests, ({ timeMs }) => Math.floor(timeMs / MINUTE_MS));
  expect(minutes.size).toBe(10);
  for (const count of minutes.values()) expect(Math.abs(count - 6000)).toBeLessThan(70);
  const clients = [...countsBy(requests, ({ client }) => client).values()].sort((a, b) => b - a);
  const busiest = clients.slice(0, 10).reduce((sum, count) => sum + count);
  expect(busiest / requests.length).toBeGreaterThan(0.08);
  expect(busiest / requests.length).toBeLessThan(0.12);
});

describe('boundary', () => {
  const limit = 20;
  const clients = 30;
  // Nine boundaries in ten minutes, and a burst of a full limit on each side.
  const requests = generated('boundary', { clients, requests: 9 * 2 * limit * clients });

  test('boundary traffic is within a second of a boundary, half before and half after', () => {
    for (const { timeMs } of requests) {
      const sinceMs = timeMs % MINUTE_MS;
      expect(sinceMs < 1000 || sinceMs >= MINUTE_MS - 1000).toBe(true);
    }
    const sides = countsBy(requests, ({ timeMs }) => Math.floor((timeMs + 30_000) / 30_000));
    expect(sides.size).toBe(18);
    for (const count of sides.values()) expect(count).toBe(limit * clients);
  });

  test('fixed-window admits twice the limit around a boundary, sliding-log never', () => {
    const worst = (algorithm: 'fixed-window' | 'sliding-log'): number => {
      const clock = new ManualClock();
      const policies = { own: { limit, window: MINUTE_MS, algorithm } };
      const limiter = createLimiter({ policies, clock });
      const [{ client }] = requests;
      const admitted: number[] = [];
      for (const request of requests) {
        clock.set(request.timeMs);
        const { allowed } = limiter.checkSync('own', request.client);
        if (allowed && request.client === client) admitted.push(request.timeMs);
      }
      const within = (endMs: number): number =>
        admitted.filter((timeMs) => timeMs > endMs - MINUTE_MS && timeMs <= endMs).length;
      return Math.max(...admitted.map(within));
    };
    expect(worst('fixed-window')).toBe(2 * limit);
    expect(worst('sliding-log')).toBe(limit);
  });

  test('boundary traffic follows the length of the window', () => {
    for (const { timeMs } of generated('boundary', {
      windowMs: 10_000,
      startMs: START_MS + 12_345,
    })) {
      const sinceMs = timeMs % 10_000;
      expect(sinceMs < 166 || sinceMs >= 10_000 - 166).toBe(true);
    }
  });

  test('boundary traffic is rejected if the duration contains no boundary', () => {
    expect(() => generateTraffic({ shape: 'boundary', durationMs: MINUTE_MS })).toThrow(
      'Expected `durationMs` to contain a boundary of 60000 ms windows, such as 120000',
    );
  });
});

describe('diurnal', () => {
  test('diurnal traffic is more than six times as high in the afternoon as at night', () => {
    const days = 3;
    const requests = generated('diurnal', {
      requests: 72_000,
      durationMs: days * 24 * 60 * MINUTE_MS,
    });
    const hours = countsBy(requests, ({ timeMs }) => Math.floor((timeMs - START_MS) / 3_600_000));
    for (let day = 0; day < days; day++) {
      const [afternoon, night] = [hours.get(24 * day + 15)!, hours.get(24 * day + 3)!];
      expect(afternoon / night).toBeGreaterThan(6);
      expect(afternoon).toBeGreaterThan(Math.max(...hours.values()) - 20);
    }
  });

  test('diurnal peaks depend on the time of day, not on the start', () => {
    const startMs = START_MS + 10 * 3_600_000;
    const requests = generated('diurnal', { requests: 24_000, startMs });
    const hours = countsBy(requests, ({ timeMs }) => Math.floor(timeMs / 3_600_000) % 24);
    const busiest = [...hours].sort(([, a], [, b]) => b - a)[0][0];
    expect([14, 15]).toContain(busiest);
  });

  test('a duration below a day contains a whole diurnal cycle', () => {
    const requests = generated('diurnal', { requests: 24_000, durationMs: 24_000 });
    const hours = countsBy(requests, ({ timeMs }) => Math.floor((timeMs - START_MS) / 1000));
    expect(hours.get(15)! / hours.get(3)!).toBeGreaterThan(6);
  });
});

describe('flash-crowd', () => {
  const requests = generated('flash-crowd', { requests: 50_000, clients: 200 });
  const crowd = requests.filter(({ path }) => path === '/offers/launch');
  const hundredth = ({ timeMs }: GeneratedRequest): number =>
    Math.floor((timeMs - START_MS) / (6 * 1000));

  test('a flash crowd multiplies the rate by ten at once', () => {
    expect(Math.min(...crowd.map(hundredth))).toBe(40);
    const rates = countsBy(requests, hundredth);
    const before = rates.get(20)!;
    const peak = Math.max(...rates.values());
    expect(peak / before).toBeGreaterThan(9);
    expect(peak / before).toBeLessThan(11);
    expect(rates.get(99)! / before).toBeLessThan(1.2);
  });

  test('a flash crowd consists of new clients with a few requests each', () => {
    const clients = countsBy(crowd, ({ client }) => client);
    const known = new Set(requests.filter((each) => hundredth(each) < 40).map((e) => e.client));
    expect([...clients.keys()].some((client) => known.has(String(client)))).toBe(false);
    expect(clients.size).toBeGreaterThan(crowd.length / 4);
    expect(Math.max(...clients.values())).toBeLessThan(20);
  });
});

test('abuser traffic has one client with half of all requests', () => {
  const requests = generated('abuser', { requests: 20_000 });
  const clients = [...countsBy(requests, ({ client }) => client)].sort(([, a], [, b]) => b - a);
  const [[abuser, most], [, second]] = clients;
  expect(most / requests.length).toBeGreaterThan(0.48);
  expect(most / requests.length).toBeLessThan(0.52);
  expect(most / second).toBeGreaterThan(5);
  const minutes = countsBy(
    requests.filter(({ client }) => client === abuser),
    ({ timeMs }) => Math.floor(timeMs / MINUTE_MS),
  );
  expect(minutes.size).toBe(10);
});

test('ipv6-rotation uses each address once, from one /64 and then sixteen of a /56', () => {
  const requests = generated('ipv6-rotation', { requests: 10_000, clients: 20 });
  const rotating = requests.filter(({ client }) => client.startsWith('2001:db8:ffff:'));
  expect(rotating.length / requests.length).toBeGreaterThan(0.27);
  expect(new Set(rotating.map(({ client }) => client)).size).toBe(rotating.length);
  const half = START_MS + 5 * MINUTE_MS;
  const networks = (bits: number, list: readonly GeneratedRequest[]): number =>
    new Set(list.map(({ client }) => addressKey(client, bits))).size;
  const first = rotating.filter(({ timeMs }) => timeMs < half);
  const later = rotating.filter(({ timeMs }) => timeMs >= half);
  expect(networks(64, first)).toBe(1);
  expect(networks(64, later)).toBe(16);
  expect(networks(56, rotating)).toBe(1);
  // Every other client has its own network, so a limit by network affects only the rotating one.
  const others = requests.filter((each) => !rotating.includes(each));
  expect(networks(64, others)).toBe(20);
});

test('the maximum number of clients have distinct addresses', () => {
  const requests = generated('steady', { requests: 100_000, clients: 2 ** 23 });
  expect(new Set(requests.map(({ client }) => client)).size).toBeGreaterThan(90_000);
  const few = generated('boundary', { requests: 100_000, clients: 100_000 });
  expect(new Set(few.map(({ client }) => client)).size).toBe(100_000);
});

test.each([
  [{ clients: 0 }, 'Expected `clients` to be an integer from 1 to 8388608, got `0`'],
  [{ clients: 2 ** 23 + 1 }, 'Expected `clients`'],
  [{ requests: -1 }, 'Expected `requests` to be an integer from 0'],
  [{ requests: 1.5 }, 'Expected `requests`'],
  [{ seed: Number.NaN }, 'Expected `seed`'],
  [{ durationMs: 0 }, 'Expected `durationMs`'],
  [{ startMs: -1 }, 'Expected `startMs`'],
  [{ shape: 'round' as ShapeName }, 'Expected `shape` to be one of steady, boundary, diurnal'],
])('generateTraffic rejects the settings %j', (options, message) => {
  expect(() => generateTraffic({ shape: 'steady', ...options })).toThrow(GenerateError);
  expect(() => generateTraffic({ shape: 'steady', ...options })).toThrow(message);
});
