/** What is asked of the script, and how much of a batch it takes up. */
import type { Limit, Recipient } from '../../store.ts';
import type { Reply } from './reply.ts';

/** As many entries as a log has before it becomes a hash. */
const SHORT_LOG = 36;

/** The kinds of runs, as decide.lua describes them. */
export type Kind = Counted | 'adjust' | 'spend' | 'unspend' | 'inspect';
/** Of these one run does several that are alike. */
type Counted = 'check' | 'peek' | 'once' | 'forget' | 'reset';

export const COUNTED: readonly Kind[] = ['check', 'peek', 'once', 'forget', 'reset'];

/**
 * What is asked of the script: a run of decide.lua, and what to make of its answer. Methods rather
 * than functions: there is one for every decision, and each function is an object.
 */
export abstract class RedisOperation<T = unknown> {
  /** Whether it has been sent twice. */
  repeated = false;
  recipient!: Recipient<T>;

  constructor(
    readonly kind: Kind,
    readonly limits: readonly Limit[],
    readonly keys: readonly string[],
    /** The numbers that end the run: how long to remember what was done. */
    readonly numbers = '',
    /** The id of the call or the receipt. */
    readonly id?: string,
    /** For each limit, how to adjust it: when it was charged, by how much, the cost charged. */
    readonly changes: readonly string[] = [],
  ) {}

  /**
   * How much of a batch it takes up: 1 for each key, or more if Redis needs longer than for a
   * check. A refund in a log of 100,000 entries takes about 150 us, an inspection 450 us.
   */
  get weight(): number {
    const { kind, limits, keys } = this;
    if (COUNTED.includes(kind) || !limits.some(canBeLong)) return keys.length;
    return kind === 'inspect' ? 64 : 22 * limits.length;
  }

  /** Takes from the reply what belongs to this operation. */
  abstract read(reply: Reply): T;
}

/** Whether a limit keeps a log that can be longer than one string of the script. */
function canBeLong({ policy, params }: Limit): boolean {
  const { limit, windowMs, bucketMs } = params;
  if (policy.algorithm === 'sliding-log') return limit > SHORT_LOG;
  return policy.algorithm === 'sliding-buckets' && Math.min(limit, windowMs / bucketMs) > SHORT_LOG;
}
