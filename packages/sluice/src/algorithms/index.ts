/** The five algorithms by name. */
import type { Algorithm, AlgorithmName } from './algorithm.ts';
import { fixedWindow } from './fixed-window.ts';
import { slidingBuckets } from './sliding-buckets.ts';
import { slidingCounter } from './sliding-counter.ts';
import { slidingLog } from './sliding-log.ts';
import { tokenBucket } from './token-bucket.ts';

export const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = {
  'fixed-window': fixedWindow,
  'sliding-log': slidingLog,
  'sliding-counter': slidingCounter,
  'sliding-buckets': slidingBuckets,
  'token-bucket': tokenBucket,
};
