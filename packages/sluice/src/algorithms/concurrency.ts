/**
 * concurrency: what is held at the same time. A hold of cost c that was taken or renewed at t
 * counts while `now < t + lease`, unless it is released. A cost c fits when
 * `cost(counting holds) + c <= N`.
 *
 * This is a sliding log whose window is the lease. The store keeps a record of each hold besides,
 * because holds of the same millisecond share an entry, and only the record says whether a hold
 * can still be released.
 *
 * Cells: as in a sliding log.
 */
import { countText } from '../format.ts';
import { type Algorithm, fitsAfter } from './algorithm.ts';
import type { AlgorithmInfo } from './description.ts';
import { describeLog, logAlgorithm } from './sliding-log.ts';

export const concurrency: Algorithm = logAlgorithm({
  redisTag: 'H',
  stampOf: (_params, timeMs) => timeMs,
  startOf: (_params, stampMs) => stampMs,
  // A hold may be released at any time, so the calls before this one add nothing that is certain.
  queueEstimate: (_params, cost) => fitsAfter(cost, 0),
});

export const concurrencyInfo: AlgorithmInfo = {
  summary: 'Limits what is held at the same time, until it is released or its lease ends.',
  shape: 'entries',

  describe(state, params, nowMs, cost) {
    const log = describeLog(state, params, nowMs, cost);
    return {
      ...log,
      usedText: `${countText(log.used)} of ${countText(log.limit)} held`,
      freesText: log.freesText.replace('entries', 'holds').replace('entry', 'hold'),
    };
  },
};
