/**
 * Decisions: the result of a check, and the receipt to refund or settle it.
 *
 * Most callers read only two fields of a decision. `limits` and `receipt` are built when they are
 * read, which avoids allocating objects that no caller uses.
 */

/** The result of one limit of a check. */
export interface LimitDecision {
  /** The policy's name. */
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  /** Whether this limit alone has room for the cost. */
  readonly allowed: boolean;
  /** The capacity: the policy's limit, or `burst` for a token bucket. */
  readonly limit: number;
  /** The largest cost that still fits after this decision. */
  readonly remaining: number;
  /** 0 if allowed; else the shortest wait, in ms, after which the same check passes. */
  readonly retryAfterMs: number;
  /** Time in ms until the key has its full limit again, if no other call is admitted. */
  readonly resetAfterMs: number;
  /** When the store decided, in ms since the epoch. */
  readonly atMs: number;
  /**
   * Set if a concurrency limit was admitted: an integer above those of all earlier holds of the
   * key. A resource that compares it can reject a holder whose lease has ended.
   */
  readonly fence?: number;
  /** Set while a block is running: when it ends, in ms since the epoch by the store's clock. */
  readonly blockedUntilMs?: number;
  /** Set if this process admitted the call with borrowed units: identifies the lease. */
  readonly lease?: number;
}

/**
 * The result of a check. `remaining` is the smallest of all its limits, and `retryAfterMs` and
 * `resetAfterMs` are the longest. `policy`, `key`, `cost` and `limit` are those of one limit: if
 * denied, the limit with the longest wait; if allowed, the limit with the least remaining. Its
 * `blockedUntilMs` is included. `fence` is that of the first concurrency limit.
 */
export interface CheckResult extends LimitDecision {
  /** The result of each limit, in the order of the check. */
  readonly limits: readonly LimitDecision[];
  /** Set if the store could not decide: the reason, and the action applied instead. */
  readonly degraded?: Degraded;
  /** Set if a denial was repeated from this process's cache. `remaining` may be out of date. */
  readonly cached?: true;
  /** `false` if the limits are on several nodes. If one limit denies, the others are refunded. */
  readonly atomic?: false;
  /**
   * Set if this process admitted the call with units that it had borrowed. `remaining` and
   * `resetAfterMs` are bounds: at least `remaining` is left, for at most `resetAfterMs`.
   */
  readonly leased?: true;
  /** Set with an idempotency id: the `client` of the call that was charged. */
  readonly client?: string;
}

export interface Degraded {
  /** Deadline passed; store error; circuit breaker open; too many calls in flight. */
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

/** A cost that was charged to one key. */
export interface Charge {
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  readonly atMs: number;
  /** Set if a fallback admitted the call, so that the store did not charge the cost. */
  readonly degraded?: true;
  /** Set if the local fallback of this process charged the cost. */
  readonly local?: true;
  /**
   * Set if the store did not reply in time and may have charged the call too. With this token, a
   * refund or `settle` also adjusts the charge in the store.
   */
  readonly late?: string;
  /** Set if it is a hold of a concurrency limit, which it identifies. */
  readonly fence?: number;
  /** Set if it was made with borrowed units: identifies the lease. */
  readonly lease?: number;
}

/**
 * The argument of `refund`, `settle`, `release` and `renew`. Plain data, which can be stored as
 * JSON.
 */
export interface Receipt {
  readonly charges: readonly Charge[];
}

/**
 * The receipts of decisions. Every read of `receipt` returns the same object, because the object
 * itself is marked when it is used.
 */
const receipts = new WeakMap<CheckResult, Receipt>();
/** The results of each limit, for decisions with several limits. */
const jointLimits = new WeakMap<CheckResult, readonly LimitDecision[]>();

/** The decision of a check. If `allowed` is true, the cost has been charged. */
export class DecisionRecord implements CheckResult {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly resetAfterMs: number;
  // Not assigned by the constructor: most decisions have none of them.
  declare readonly fence?: number;
  declare readonly blockedUntilMs?: number;
  declare readonly lease?: number;

  constructor(
    readonly policy: string,
    readonly key: string,
    readonly cost: number,
    readonly limit: number,
    readonly retryAfterMs: number,
    readonly atMs: number,
    result: { readonly free: number; readonly resetAfterMs: number },
  ) {
    this.allowed = retryAfterMs === 0;
    this.remaining = Math.max(result.free, 0);
    this.resetAfterMs = result.resetAfterMs;
  }

  get limits(): readonly LimitDecision[] {
    return jointLimits.get(this) ?? [{ ...this }];
  }

  get receipt(): Receipt | undefined {
    if (!this.allowed) return undefined;
    let receipt = receipts.get(this);
    if (receipt === undefined) {
      const charges = this.limits.map(({ policy, key, cost, atMs, fence, lease }) => ({
        policy,
        key,
        cost,
        atMs,
        ...(fence !== undefined && { fence }),
        ...(lease !== undefined && { lease }),
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

/** The result of a peek, or of a check with several limits that was denied. Has no receipt. */
export class PeekRecord extends DecisionRecord {
  override get receipt(): undefined {
    return undefined;
  }
}

/** Combines the results of several limits. `taken` means that all of them were charged. */
export function jointDecision(limits: readonly LimitDecision[], taken: boolean): CheckResult {
  const free = Math.min(...limits.map((limit) => limit.remaining));
  const retryAfterMs = Math.max(...limits.map((limit) => limit.retryAfterMs));
  const resetAfterMs = Math.max(...limits.map((limit) => limit.resetAfterMs));
  const { policy, key, cost, limit, atMs, blockedUntilMs } = limits.find((each) =>
    retryAfterMs > 0 ? each.retryAfterMs === retryAfterMs : each.remaining === free,
  )!;
  const kind = taken ? DecisionRecord : PeekRecord;
  const decision = new kind(policy, key, cost, limit, retryAfterMs, atMs, {
    free,
    resetAfterMs,
  });
  const fence = limits.find((each) => each.fence !== undefined)?.fence;
  Object.assign(decision, fence && { fence }, blockedUntilMs && { blockedUntilMs });
  jointLimits.set(
    decision,
    limits.map((each) => ({ ...each })),
  );
  return decision;
}
