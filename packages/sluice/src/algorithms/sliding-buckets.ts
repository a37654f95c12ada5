/**
 * sliding-buckets: `b = ceil(W / buckets)`. Bucket i holds what was admitted at `floor(t / b) = i`,
 * and counts whole while any of it could still be inside: `(i + 1)*b - 1 > now - W`. A cost c fits
 * when `cost(counting buckets) + c <= L`.
 *
 * So it is a sliding log in which every admission is written down at the last millisecond of its
 * bucket: bounded memory, never over L in any true window, at most b ms later than the log.
 */
import { logAlgorithm } from './sliding-log.ts';

export const slidingBuckets = logAlgorithm({
  stampOf: ({ bucketMs }, timeMs) => (Math.floor(timeMs / bucketMs) + 1) * bucketMs - 1,
  startOf: ({ bucketMs }, stampMs) => stampMs - bucketMs + 1,
});
