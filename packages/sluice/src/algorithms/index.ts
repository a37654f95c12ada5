/**
 * The registry of algorithms. To add one, add its import and its line in both tables: `algorithms`
 * is what stores need, and `algorithmInfo`, which applications do not load, is for readers.
 */
import { countText } from '../format.ts';
import type { Algorithm, LimitParams } from './algorithm.ts';
import type { AlgorithmInfo, DescribedState, KeyDescription } from './description.ts';
import { fixedWindow, fixedWindowInfo } from './fixed-window.ts';
import { slidingBuckets, slidingBucketsInfo } from './sliding-buckets.ts';
import { slidingCounter, slidingCounterInfo } from './sliding-counter.ts';
import { slidingLog, slidingLogInfo } from './sliding-log.ts';
import { tokenBucket, tokenBucketInfo } from './token-bucket.ts';

export const algorithms = {
  'fixed-window': fixedWindow,
  'sliding-log': slidingLog,
  'sliding-counter': slidingCounter,
  'sliding-buckets': slidingBuckets,
  'token-bucket': tokenBucket,
} satisfies Readonly<Record<string, Algorithm>>;

export type AlgorithmName = keyof typeof algorithms;

export const algorithmInfo: Readonly<Record<AlgorithmName, AlgorithmInfo>> = {
  'fixed-window': fixedWindowInfo,
  'sliding-log': slidingLogInfo,
  'sliding-counter': slidingCounterInfo,
  'sliding-buckets': slidingBucketsInfo,
  'token-bucket': tokenBucketInfo,
};

export const algorithmNames = Object.keys(algorithms) as readonly AlgorithmName[];

/** Returns the policy option that only this algorithm has: `burst` or `buckets`. */
export const optionOf = (name: AlgorithmName): Algorithm['option'] => algorithms[name].option;

/**
 * Describes an inspected key at `nowMs`, as if nothing was charged since its inspection. The texts
 * about a decision are those of a call of `cost`. Pass undefined for a key that has no state.
 */
export function describeKey(
  name: AlgorithmName,
  state: DescribedState | undefined,
  params: LimitParams,
  nowMs: number,
  cost = 1,
): KeyDescription {
  const description = algorithmInfo[name].describe(state, params, nowMs, cost);
  if (cost <= params.capacity) return description;
  return { ...description, freesText: `never: at most ${countText(params.capacity)} fits` };
}
