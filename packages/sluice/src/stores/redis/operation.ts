/** The base class of operations, each of which is a run of decide.lua. */
import { algorithms } from '../../algorithms/index.ts';
import type { Limit, Recipient } from '../../store.ts';
import type { Reply } from './reply.ts';

/** A log with more entries than this is stored as a hash. */
const SHORT_LOG = 36;

/** The kinds of runs, as decide.lua describes them. */
export type Kind = Counted | 'adjust' | 'spend' | 'unspend' | 'inspect';
/** Kinds of which one run can do several equal operations. */
type Counted = 'check' | 'peek' | 'once' | 'forget' | 'reset';

export const COUNTED: readonly Kind[] = ['check', 'peek', 'once', 'forget', 'reset'];

/**
 * An operation and how to read its reply. A class with methods, because there is one per decision
 * and each closure is an object.
 */
export abstract class RedisOperation<T = unknown> {
  /** Whether it was sent a second time. */
  repeated = false;
  recipient!: Recipient<T>;

  constructor(
    readonly kind: Kind,
    readonly limits: readonly Limit[],
    readonly keys: readonly string[],
    /** The last arguments of the run: how long to keep its records. */
    readonly numbers = '',
    /** The id of the call or the receipt. */
    readonly id?: string,
    /** For each limit: when it was charged, the change, and the cost charged. */
    readonly changes: readonly string[] = [],
  ) {}

  /**
   * Its share of a batch: 1 for each key, or more if it takes Redis longer than a check. A refund
   * in a log of 100,000 entries takes about 150 us, an inspection 450 us.
   */
  get weight(): number {
    const { kind, limits, keys } = this;
    if (COUNTED.includes(kind) || !limits.some(canBeLong)) return keys.length;
    return kind === 'inspect' ? 64 : 22 * limits.length;
  }

  /** Reads the values of this operation from the reply. */
  abstract read(reply: Reply): T;
}

/** Whether a limit has a log that can become a hash. */
function canBeLong({ policy, params }: Limit): boolean {
  const { limit, windowMs, bucketMs } = params;
  const { keepsEntries, option } = algorithms[policy.algorithm];
  const buckets = option === 'buckets' ? windowMs / bucketMs : limit;
  return keepsEntries && Math.min(limit, buckets) > SHORT_LOG;
}
