/**
 * The fast scripts: one for each algorithm, for checks and peeks of single limits. A lone check
 * takes Redis a third of the time that the general script takes. All other operations, and checks
 * that a fast script hands over, use the general script. Both write the same bytes, so they can be
 * mixed.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import type { AlgorithmName } from '../../algorithms/index.ts';
import type { Policy } from '../../policy.ts';
import { SCRIPTS, type Script } from './scripts.generated.ts';

/** How the checks of a policy are sent to its fast script. */
export interface FastFormat {
  readonly script: Script;
  /** The window in ms, as text. */
  readonly window: string;
  /** Checks of one group can share a command. All checks of a Redis key have the same group. */
  readonly group: string;
  /** Returns the third number of a check, or undefined if the algorithm has none. */
  readonly third: ((params: LimitParams) => number) | undefined;
}

type FastScript = Pick<FastFormat, 'script' | 'third'>;

const FAST: Readonly<Record<AlgorithmName, FastScript>> = {
  'fixed-window': { script: SCRIPTS.fixedWindow, third: undefined },
  'sliding-counter': { script: SCRIPTS.slidingCounter, third: undefined },
  'token-bucket': { script: SCRIPTS.tokenBucket, third: ({ capacity }) => capacity },
  'sliding-log': { script: SCRIPTS.log, third: () => 1 },
  'sliding-buckets': { script: SCRIPTS.log, third: ({ bucketMs }) => bucketMs },
};

const formats = new WeakMap<Policy, FastFormat>();

export function fastFormatOf(policy: Policy): FastFormat {
  let format = formats.get(policy);
  if (format === undefined) {
    const { algorithm, windowMs } = policy;
    format = { ...FAST[algorithm], window: String(windowMs), group: `${algorithm} ${windowMs}` };
    formats.set(policy, format);
  }
  return format;
}
