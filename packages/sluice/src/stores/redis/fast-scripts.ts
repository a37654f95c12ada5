/**
 * The fast scripts: one for each algorithm, for checks and peeks of single limits. For a command
 * with one check, a fast script takes Redis a third of the time of the general script. All other
 * operations use the general script. So do checks that a fast script cannot decide and hands over.
 * Both kinds of scripts write the same bytes, so they can be mixed.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { isConcurrency, type WindowAlgorithmName } from '../../algorithms/index.ts';
import type { Policy } from '../../policy.ts';
import { SCRIPTS, type Script } from './scripts.generated.ts';

/** How the checks of a policy are sent to its fast script. */
export interface FastFormat {
  readonly script: Script;
  /** The window in ms, as text. */
  readonly window: string;
  /** Only checks of one group can share a command. All checks of a Redis key have one group. */
  readonly group: string;
  /** Returns the number after limit and cost. Undefined if the algorithm has no such number. */
  readonly third: ((params: LimitParams) => number) | undefined;
}

type FastScript = Pick<FastFormat, 'script' | 'third'>;

const FAST: Readonly<Record<WindowAlgorithmName, FastScript>> = {
  'fixed-window': { script: SCRIPTS.fixedWindow, third: undefined },
  'sliding-counter': { script: SCRIPTS.slidingCounter, third: undefined },
  'token-bucket': { script: SCRIPTS.tokenBucket, third: ({ capacity }) => capacity },
  'sliding-log': { script: SCRIPTS.log, third: () => 1 },
  'sliding-buckets': { script: SCRIPTS.log, third: ({ bucketMs }) => bucketMs },
};

const formats = new WeakMap<Policy, FastFormat>();

/** Whether a limit of the policy needs its records too: it has blocks or leases. */
export const needsRecords = ({ block, lease }: Policy): boolean =>
  block !== undefined || lease !== undefined;

/** Whether the policy needs more than its own key: concurrency limits, and limits with records. */
const needsGeneralScript = (policy: Policy): boolean =>
  needsRecords(policy) || isConcurrency(policy);

/** Returns undefined if all checks of the policy need the general script. */
export function fastFormatOf(policy: Policy): FastFormat | undefined {
  if (needsGeneralScript(policy)) return undefined;
  let format = formats.get(policy);
  if (format === undefined) {
    const { algorithm, windowMs } = policy;
    format = {
      ...FAST[algorithm as WindowAlgorithmName],
      window: String(windowMs),
      group: `${algorithm} ${windowMs}`,
    };
    formats.set(policy, format);
  }
  return format;
}
