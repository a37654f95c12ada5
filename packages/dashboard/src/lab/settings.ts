/** Settings of the lab: traffic, limit and algorithms. */
import { optionOf, windowAlgorithmNames } from 'sluice/engine';
import type { WindowAlgorithmName } from '../api/types.ts';

/**
 * Traffic sources: generated shapes, the worst case of an algorithm (`adversary`), and calls that
 * the user draws or types.
 */
export const TRAFFIC_NAMES = [
  'boundary',
  'steady',
  'bursts',
  'flash-crowd',
  'abuser',
  'adversary',
  'drawn',
  'typed',
] as const;
export type TrafficName = (typeof TRAFFIC_NAMES)[number];

export interface TypedCall {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabSettings {
  readonly traffic: TrafficName;
  readonly seed: number;
  /** Number of generated calls. */
  readonly calls: number;
  /** Duration of the traffic, in windows. */
  readonly windows: number;
  /**
   * Unix time, in ms, at which the traffic starts. Clock-aligned windows begin at multiples of
   * `windowMs`.
   */
  readonly startMs: number;
  /** Cost of each call. Typed calls have their own costs instead. */
  readonly cost: number;
  /** The algorithm attacked by `adversary`. */
  readonly against: WindowAlgorithmName;
  /** Calls per slot, for drawn traffic. */
  readonly slots: readonly number[];
  /** Typed calls, in order of time. */
  readonly typed: readonly TypedCall[];
  readonly limit: number;
  readonly windowMs: number;
  /** Capacity of a token bucket (default: the limit). */
  readonly burst: number | undefined;
  readonly buckets: number;
  readonly algorithms: readonly WindowAlgorithmName[];
  /** The algorithm of the policy that the page shows as a configuration file. */
  readonly policy: WindowAlgorithmName;
}

/** Number of time slots in the traffic strip, where the user draws calls. */
export const SLOTS = 60;
export const MAX_CALLS = 2000;
export const MAX_IN_SLOT = 500;
export const MAX_WINDOWS = 20;

const DAY_MS = 86_400_000;

/** Smallest and largest value of each setting. */
export const BOUNDS = {
  seed: [0, 2 ** 32 - 1],
  calls: [1, MAX_CALLS],
  windows: [1, MAX_WINDOWS],
  startMs: [0, 4_102_444_800_000],
  cost: [1, 1_000_000],
  limit: [1, 1_000_000],
  windowMs: [1, 30 * DAY_MS],
  burst: [1, 1_000_000],
  buckets: [1, 10_000],
} as const satisfies Record<string, readonly [number, number]>;
export type NumberName = keyof typeof BOUNDS;

/**
 * By default, 50 calls arrive right before a window boundary and 50 right after it, with a limit of
 * 50. The start is midnight UTC, where a clock-aligned window of the default length begins.
 */
export const DEFAULTS: LabSettings = {
  traffic: 'boundary',
  seed: 1,
  calls: 100,
  windows: 2,
  startMs: 1_767_225_600_000,
  cost: 1,
  against: 'sliding-counter',
  slots: [],
  typed: [],
  limit: 50,
  windowMs: 10_000,
  burst: undefined,
  buckets: 60,
  algorithms: windowAlgorithmNames,
  policy: 'sliding-log',
};

export const isWithin = (name: NumberName, value: number): boolean =>
  Number.isSafeInteger(value) && value >= BOUNDS[name][0] && value <= BOUNDS[name][1];

export function policyOptions(settings: LabSettings, algorithm: WindowAlgorithmName) {
  const { limit, windowMs } = settings;
  const option = optionOf(algorithm);
  const value = option && settings[option];
  return {
    ...{ limit, window: windowMs, algorithm },
    ...(value !== undefined && { [option!]: value }),
  };
}
