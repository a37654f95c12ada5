/**
 * Decisions: the answer to a check, and the receipt that lets it be taken back.
 *
 * A decision is made for every call, and most callers read two of its fields. So the parts that
 * are objects themselves, `limits` and `receipt`, are built when they are first read.
 */

/** What one limit of a check says. */
export interface LimitDecision {
  /** The policy's name. */
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  /** Whether this limit alone has room for the cost. */
  readonly allowed: boolean;
  /** The capacity: the policy's limit, or `burst` for a token bucket. */
  readonly limit: number;
  /** After this decision, the largest cost that would still fit at this instant. */
  readonly remaining: number;
  /** 0 if allowed; else the shortest wait, in ms, after which the same check passes. */
  readonly retryAfterMs: number;
  /** In how many ms the key is as good as new if nothing else happens. */
  readonly resetAfterMs: number;
  /** The time at which it was decided, ms since the epoch. */
  readonly atMs: number;
}

/**
 * What a whole check says. The fields of `LimitDecision` speak of all its limits together (the
 * least remaining, the longest waits); `policy`, `key`, `cost` and `limit` are those of the limit
 * that matters most: denied, the one that makes the caller wait longest; allowed, the one with
 * the least remaining; in a tie the first.
 */
export interface CheckResult extends LimitDecision {
  /** What each limit of the check says, in the order asked. */
  readonly limits: readonly LimitDecision[];
  /** Set when the store could not decide: why not, and what was done instead. */
  readonly degraded?: Degraded;
  /** Set when a denial is repeated from this process's memory: `remaining` is as of then. */
  readonly cached?: true;
  /** `false` when the limits lay on several nodes: each was reserved, and given back if denied. */
  readonly atomic?: false;
}

export interface Degraded {
  /** No answer in time; an error; too many failures, so not asked; too many asked at once. */
  readonly reason: 'timeout' | 'error' | 'open' | 'overload';
  readonly action: 'allow' | 'deny' | 'local';
}

/** Every limit had room, and every limit has been charged. */
export interface Admitted extends CheckResult {
  readonly allowed: true;
  readonly receipt: Receipt;
}

/** At least one limit had no room, and none has been charged. */
export interface Denied extends CheckResult {
  readonly allowed: false;
  readonly receipt: undefined;
}

export type Decision = Admitted | Denied;

/** What was charged to one key, and when. */
export interface Charge {
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  readonly atMs: number;
  /** Set when it was not the store that charged it. */
  readonly degraded?: true;
  /** Set when this process's own limiter charged it in the store's place. */
  readonly local?: true;
  /**
   * Set when the store had not replied in time and may have charged the call too: the token by
   * which a refund or `settle` also adjusts the charge in the store.
   */
  readonly late?: string;
}

/** Hand it to `refund` or `settle`. Plain data: it survives JSON. */
export interface Receipt {
  readonly charges: readonly Charge[];
}

/** Always the same receipt for the same decision, so that it can be used once. */
const receipts = new WeakMap<CheckResult, Receipt>();
/** The limits of those decisions that have several; the others are their own only limit. */
const jointLimits = new WeakMap<CheckResult, readonly LimitDecision[]>();

/** A decision that was meant: if it allows, the cost has been charged. */
export class DecisionRecord implements CheckResult {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly resetAfterMs: number;

  constructor(
    readonly policy: string,
    readonly key: string,
    readonly cost: number,
    readonly limit: number,
    readonly retryAfterMs: number,
    readonly atMs: number,
    answer: { readonly free: number; readonly resetAfterMs: number },
  ) {
    this.allowed = retryAfterMs === 0;
    this.remaining = Math.max(answer.free, 0);
    this.resetAfterMs = answer.resetAfterMs;
  }

  get limits(): readonly LimitDecision[] {
    return jointLimits.get(this) ?? [{ ...this }];
  }

  get receipt(): Receipt | undefined {
    if (!this.allowed) return undefined;
    let receipt = receipts.get(this);
    if (receipt === undefined) {
      const charges = this.limits.map(({ policy, key, cost, atMs }) => ({
        policy,
        key,
        cost,
        atMs,
      }));
      receipt = { charges };
      receipts.set(this, receipt);
    }
    return receipt;
  }

  toJSON(): object {
    return { ...this, limits: this.limits, receipt: this.receipt };
  }
}

/** What a decision would have been. Nothing was charged, so there is no receipt. */
export class PeekRecord extends DecisionRecord {
  override get receipt(): undefined {
    return undefined;
  }
}

/** The decision of a check with several limits, from what each of them says. */
export function jointDecision(limits: readonly LimitDecision[], taken: boolean): CheckResult {
  const free = Math.min(...limits.map((limit) => limit.remaining));
  const retryAfterMs = Math.max(...limits.map((limit) => limit.retryAfterMs));
  const resetAfterMs = Math.max(...limits.map((limit) => limit.resetAfterMs));
  const { policy, key, cost, limit, atMs } = limits.find((each) =>
    retryAfterMs > 0 ? each.retryAfterMs === retryAfterMs : each.remaining === free,
  )!;
  const kind = taken ? DecisionRecord : PeekRecord;
  const answer = { free, resetAfterMs };
  const decision = new kind(policy, key, cost, limit, retryAfterMs, atMs, answer);
  jointLimits.set(
    decision,
    limits.map((each) => ({ ...each })),
  );
  return decision;
}
