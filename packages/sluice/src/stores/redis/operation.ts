/** The base class of the operations that the scripts execute. */
import { algorithms } from '../../algorithms/index.ts';
import type { Limit, Recipient } from '../../store.ts';
import type { FastFormat } from './fast-scripts.ts';
import type { Reply } from './reply.ts';

/** A sliding log with more entries than this is stored as a hash, see sliding-log.lua. */
const SHORT_LOG = 36;

/** The kinds of operations, as decide.lua describes them. */
export type Kind = RepeatableKind | 'adjust' | 'spend' | 'unspend' | 'inspect' | 'block' | 'lend';
/** Kinds of which one run can contain several operations. */
type RepeatableKind = 'check' | 'peek' | 'once' | 'forget' | 'reset';

export const REPEATABLE_KINDS: readonly Kind[] = ['check', 'peek', 'once', 'forget', 'reset'];

/**
 * An operation, and how to read its reply. A class with methods, not closures: there is one
 * instance per decision, and each closure would allocate another object.
 */
export abstract class RedisOperation<T = unknown> {
  /** Whether the operation has been retried. */
  isRetried = false;
  /** Set for a check or peek of one limit that has not been handed over to the general script. */
  fast: FastFormat | undefined = undefined;
  recipient!: Recipient<T>;

  constructor(
    readonly kind: Kind,
    readonly limits: readonly Limit[],
    readonly keys: readonly string[],
    /** The last numbers of the run, such as the lifetime of its records. Starts with a space. */
    readonly numbers = '',
    /** Idempotency id of the check, or id of the receipt. */
    readonly id?: string,
    /** For each limit of an adjustment: its charge and the change, see `adjustmentArgs`. */
    readonly changes: readonly string[] = [],
    /** The label of the holds that it takes. */
    readonly label = '',
  ) {}

  /**
   * The part of the maximum weight of a command that this operation uses: 1 for each key, or more
   * if it takes Redis longer than a check. In a log of 100,000 entries, a refund takes about 150 us
   * and an inspection 450 us.
   */
  get weight(): number {
    const { kind, limits, keys } = this;
    if (this.fast !== undefined) return 1;
    if (REPEATABLE_KINDS.includes(kind) || !limits.some(canBeLong)) return keys.length;
    return kind === 'inspect' ? 64 : 22 * limits.length;
  }

  /** Returns the result of this operation, from the next values of the reply. */
  abstract read(reply: Reply): T;
}

/** Whether the log of a limit can be long enough to be stored as a hash. */
function canBeLong({ policy, params }: Limit): boolean {
  const { limit, windowMs, bucketMs } = params;
  const { keepsEntries, option } = algorithms[policy.algorithm];
  const buckets = option === 'buckets' ? windowMs / bucketMs : limit;
  return keepsEntries === true && Math.min(limit, buckets) > SHORT_LOG;
}
