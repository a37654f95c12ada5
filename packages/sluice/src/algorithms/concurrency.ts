/**
 * concurrency: limits the cost that is held at the same time to N. A hold of cost c that was taken
 * or renewed at t counts while `now < t + lease`, unless it is released. A cost c fits when
 * `cost(counting holds) + c <= N`.
 *
 * This is a sliding log whose window is the lease. Besides the log, the store keeps a record of
 * each hold: the holds of one millisecond share an entry of the log, so only the record shows
 * whether a hold can still be released.
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
  // A hold may be released at any time, so it is not certain that earlier calls delay this call.
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
