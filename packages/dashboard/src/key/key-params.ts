/** The limit parameters of a key, and the algorithm's description of the key's state. */
import { describeKey, type KeyDescription } from 'sluice/engine';
import type { KeyReport, LimitParams, PolicyDefinition } from '../api/types.ts';

const DEFAULT_BUCKETS = 60;

/** Returns the parameters that apply to a key. An override replaces the limit but not the burst. */
export function paramsOf(report: KeyReport, policy: PolicyDefinition | undefined): LimitParams {
  const { windowMs, limit: capacity, override } = report;
  const buckets = Math.min(policy?.buckets ?? DEFAULT_BUCKETS, windowMs);
  return {
    ...{ windowMs, capacity },
    limit: override?.limit ?? policy?.limit ?? capacity,
    bucketMs: Math.ceil(windowMs / buckets),
  };
}

/**
 * Returns the algorithm's description of the reported state, by default at the time of the report.
 * For a later time, assumes that no call has been admitted since the report.
 */
export const describeAt = (
  report: KeyReport,
  params: LimitParams,
  timeMs = report.atMs,
): KeyDescription => describeKey(report.algorithm, report, params, timeMs);
