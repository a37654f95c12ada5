/** The limit that applies to a key, and its state as the algorithm describes it. */
import { describeKey, type KeyDescription } from 'sluice/engine';
import type { KeyReport, LimitParams, PolicyDefinition } from '../api/types.ts';

const DEFAULT_BUCKETS = 60;

/** An override replaces the limit; a burst stays. */
export function paramsOf(report: KeyReport, policy: PolicyDefinition | undefined): LimitParams {
  const { windowMs, limit: capacity, override } = report;
  const buckets = Math.min(policy?.buckets ?? DEFAULT_BUCKETS, windowMs);
  return {
    ...{ windowMs, capacity },
    limit: override?.limit ?? policy?.limit ?? capacity,
    bucketMs: Math.ceil(windowMs / buckets),
  };
}

/** Describes a key at a time since the report, assuming that no call was admitted since. */
export const describe = (report: KeyReport, params: LimitParams, nowMs: number): KeyDescription =>
  describeKey(report.algorithm, report, params, nowMs);
