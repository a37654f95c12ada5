/**
 * Decisions: the result of a check, and the receipt to refund or settle it.
 *
 * Most callers read two fields of a decision. So `limits` and `receipt`, which are objects, are
 * built when they are first read.
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
}

/**
 * The result of a check. `remaining` is the smallest of all its limits, and `retryAfterMs` and
 * `resetAfterMs` are the longest. `policy`, `key`, `cost` and `limit` are those of one limit: if
 * denied, the one with the longest wait; if allowed, the one with the least remaining.
 */
export interface CheckResult extends LimitDecision {
  /** The result of each limit, in the order of the check. */
  readonly limits: readonly LimitDecision[];
  /** Set if the store could not decide: the reason, and the action applied instead. */
  readonly degraded?: Degraded;
  /** Set if a denial was repeated from this process's cache. `remaining` may be out of date. */
  readonly cached?: true;
  /** `false` if the limits are on several nodes. If one denies, the others are refunded. */
  readonly atomic?: false;
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
  /** Set if the store did not charge it. */
  readonly degraded?: true;
  /** Set if the local fallback of this process charged it. */
  readonly local?: true;
  /**
   * Set if the store did not reply in time and may have charged the call too. With this token, a
   * refund or `settle` also adjusts the charge in the store.
   */
  readonly late?: string;
}

/** Pass it to `refund` or `settle`. Plain data that survives JSON. */
export interface Receipt {
  readonly charges: readonly Charge[];
}

/** The receipts of decisions: always the same object, so that it can be used once. */
const receipts = new WeakMap<CheckResult, Receipt>();
/** The limits of decisions that have several. */
const jointLimits = new WeakMap<CheckResult, readonly LimitDecision[]>();

/** The decision of a check. If it allows, the cost has been charged. */
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
  const { policy, key, cost, limit, atMs } = limits.find((each) =>
    retryAfterMs > 0 ? each.retryAfterMs === retryAfterMs : each.remaining === free,
  )!;
  const kind = taken ? DecisionRecord : PeekRecord;
  const decision = new kind(policy, key, cost, limit, retryAfterMs, atMs, {
    free,
    resetAfterMs,
  });
  jointLimits.set(
    decision,
    limits.map((each) => ({ ...each })),
  );
  return decision;
}
