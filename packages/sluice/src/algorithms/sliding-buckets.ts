/**
 * sliding-buckets: `b = ceil(W / buckets)`. Bucket i holds the admissions at times t with
 * `floor(t / b) = i`. The whole bucket counts while any of its admissions could be inside the
 * window: `(i + 1)*b - 1 > now - W`. A cost c fits when `cost(counting buckets) + c <= L`.
 *
 * This is a sliding log that records every admission at the last millisecond of its bucket. Memory
 * is bounded, no true window contains more than L, and capacity is freed at most b ms later than
 * with the log.
 */
import type { Algorithm } from './algorithm.ts';
import type { AlgorithmInfo } from './description.ts';
import { describeLog, logAlgorithm } from './sliding-log.ts';

export const slidingBuckets: Algorithm = logAlgorithm({
  redisTag: 'B',
  option: 'buckets',
  stampOf: ({ bucketMs }, timeMs) => (Math.floor(timeMs / bucketMs) + 1) * bucketMs - 1,
  startOf: ({ bucketMs }, stampMs) => stampMs - bucketMs + 1,
});

export const slidingBucketsInfo: AlgorithmInfo = {
  summary: 'A sliding log rounded up to buckets: bounded memory, never over the limit.',
  shape: 'entries',
  describe: (state, params, nowMs, cost) =>
    describeLog(state, params, nowMs, cost, params.bucketMs),
};
