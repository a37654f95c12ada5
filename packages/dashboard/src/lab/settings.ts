/** What is tried in the lab: the traffic, the limit, and who decides about it. */
import type { AlgorithmName } from '../api/types.ts';

/** Those of `sluice-traffic`, the worst case of an algorithm, and what is made by hand. */
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

/** As they are compared, from top to bottom. */
export const ALGORITHMS: readonly AlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];

export interface TypedCall {
  readonly atMs: number;
  readonly cost: number;
}

export interface LabSettings {
  readonly traffic: TrafficName;
  readonly seed: number;
  /** How many there are, of shapes. */
  readonly calls: number;
  /** How long it is, in windows. */
  readonly windows: number;
  /** When it begins. Windows of the clock go by it. */
  readonly startMs: number;
  /** What each call costs, of those that are not typed. */
  readonly cost: number;
  /** Whose worst case is tried. */
  readonly against: AlgorithmName;
  /** How many calls come in each part of the time, if they are drawn. */
  readonly slots: readonly number[];
  /** In the order of their times. */
  readonly typed: readonly TypedCall[];
  readonly limit: number;
  readonly windowMs: number;
  /** Of a token bucket; without it, the limit. */
  readonly burst: number | undefined;
  readonly buckets: number;
  readonly algorithms: readonly AlgorithmName[];
  /** Whose policy is shown as a file. */
  readonly policy: AlgorithmName;
}

export const SLOTS = 60;
export const MAX_CALLS = 2000;
export const MAX_IN_SLOT = 500;

const DAY_MS = 86_400_000;

/** What each number may be. */
export const BOUNDS = {
  seed: [0, 2 ** 32 - 1],
  calls: [1, MAX_CALLS],
  windows: [1, 20],
  startMs: [0, 4_102_444_800_000],
  cost: [1, 1_000_000],
  limit: [1, 1_000_000],
  windowMs: [1, 30 * DAY_MS],
  burst: [1, 1_000_000],
  buckets: [1, 10_000],
} as const satisfies Record<string, readonly [number, number]>;
export type NumberName = keyof typeof BOUNDS;

/**
 * The opening scene: as many calls right before a boundary of the clock as right after it, and a
 * limit of that many. The start is a boundary of every usual window.
 */
export const OPENING: LabSettings = {
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
  algorithms: ALGORITHMS,
  policy: 'sliding-log',
};

export const isWithin = (name: NumberName, value: number): boolean =>
  Number.isSafeInteger(value) && value >= BOUNDS[name][0] && value <= BOUNDS[name][1];

/** The largest cost that an algorithm could ever let through. */
export const capacityOf = ({ limit, burst }: LabSettings, algorithm: AlgorithmName): number =>
  algorithm === 'token-bucket' ? (burst ?? limit) : limit;

/** What the engine is told. */
export function policyOptions(settings: LabSettings, algorithm: AlgorithmName) {
  const { limit, windowMs, burst, buckets } = settings;
  return {
    ...{ limit, window: windowMs, algorithm },
    ...(algorithm === 'token-bucket' && burst !== undefined && { burst }),
    ...(algorithm === 'sliding-buckets' && { buckets }),
  };
}
