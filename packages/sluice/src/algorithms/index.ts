/**
 * The registry of algorithms. To add an algorithm, import it and add it to both tables. Stores use
 * `algorithms`. The command line, the reports and the dashboard use `algorithmInfo`; applications
 * do not load it.
 */
import { countText } from '../format.ts';
import type { Algorithm, LimitParams } from './algorithm.ts';
import { concurrency, concurrencyInfo } from './concurrency.ts';
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
  concurrency,
} satisfies Readonly<Record<string, Algorithm>>;

export type AlgorithmName = keyof typeof algorithms;

/** A value of the `algorithm` option. A concurrency limit has no window. */
export type WindowAlgorithmName = Exclude<AlgorithmName, 'concurrency'>;

/** Whether a policy limits what is held at the same time, instead of the cost per window. */
export const isConcurrency = ({ algorithm }: { readonly algorithm: string }): boolean =>
  algorithm === 'concurrency';

export const algorithmInfo: Readonly<Record<AlgorithmName, AlgorithmInfo>> = {
  'fixed-window': fixedWindowInfo,
  'sliding-log': slidingLogInfo,
  'sliding-counter': slidingCounterInfo,
  'sliding-buckets': slidingBucketsInfo,
  'token-bucket': tokenBucketInfo,
  concurrency: concurrencyInfo,
};

export const algorithmNames = Object.keys(algorithms) as readonly AlgorithmName[];

/** The values of the `algorithm` option. Marked as pure: a bundler may omit it if it is unused. */
export const windowAlgorithmNames = /* @__PURE__ */ algorithmNames.filter(
  (algorithm): algorithm is WindowAlgorithmName => !isConcurrency({ algorithm }),
);

/** Returns the policy option that only this algorithm has: `burst` or `buckets`. */
export const optionOf = (name: AlgorithmName): Algorithm['option'] => algorithms[name].option;

/**
 * Describes an inspected key at `nowMs`, as if nothing was charged since its inspection. `sumText`
 * and `freesText` describe a call of `cost`. For a key that has no state, pass undefined.
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
