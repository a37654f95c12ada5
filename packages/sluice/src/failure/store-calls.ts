/** The two kinds of calls to a store: checks, which have a fallback, and all others. */
import type { CheckResult, Receipt } from '../decision.ts';
import { keyText } from '../key.ts';
import { type Check, type OnSent, refundOf, type Store } from '../store.ts';
import { Call, type InFlight, type Reason } from './call.ts';
import type { FailureDomain, FailureDomains } from './failure-domains.ts';
import { type Fallback, unavailable } from './fallback.ts';
import type { LateCharge, LateCharges } from './late-charges.ts';

export interface CallContext {
  readonly store: Store;
  readonly fallback: Fallback;
  readonly inFlight: InFlight;
  readonly lateCharges: LateCharges;
}

/** A check. If the store fails, the fallback decides. */
export class CheckCall extends Call<readonly CheckResult[]> {
  /** Set when a fallback admitted the call and the store may still charge it. */
  private lateCharge: LateCharge | undefined = undefined;

  constructor(
    private readonly context: CallContext,
    private readonly check: Check,
    private readonly nowMs: number | undefined,
  ) {
    super(context.inFlight);
  }

  protected override findDomains(): readonly FailureDomain[] {
    const { id, limits } = this.check;
    if (id !== undefined) keyText(id, '`id`');
    return this.context.inFlight.domains.ofLimits(limits);
  }

  protected override send(): void {
    const { store } = this.context;
    if (store.submit !== undefined) store.submit(this.check, this.nowMs, this);
    else this.await(() => store.decide([this.check], this.nowMs));
  }

  protected override fallBack(
    reason: Reason,
    cause: unknown,
    notDone: boolean,
  ): readonly CheckResult[] {
    const { fallback, lateCharges } = this.context;
    const { check, nowMs } = this;
    const waitMs = Math.max(...this.domains.map(({ breaker }) => breaker.waitMs));
    const token = reason === 'timeout' && !check.peek ? lateCharges.nextToken() : undefined;
    const failure = { reason, cause, notDone, waitMs, late: token };
    const result = fallback.decide(check, nowMs, failure);
    // For a retry with the same idempotency id, the receipt and its token are those of the first
    // call.
    const late = token && (result as { receipt?: Receipt }).receipt?.charges[0].late;
    if (late) this.lateCharge = lateCharges.open(late, check.limits);
    return [result];
  }

  /** A cached denial shows nothing about the store. */
  protected override evidence(results: readonly CheckResult[] | undefined) {
    const result = results?.[0];
    if (typeof result !== 'object') return 'broken';
    return result.cached === true ? 'nothing' : 'works';
  }

  /**
   * Handles a charge that the store made too late. If the fallback denied the call, refunds the
   * charge. If the fallback admitted it, reports the charge to `LateCharge`.
   */
  protected override late(
    results: readonly CheckResult[],
    fallback: readonly CheckResult[] | undefined,
  ): void {
    const { limits, peek, id } = this.check;
    const result = results?.[0];
    if (peek || !result?.allowed) return;
    if (fallback?.[0].allowed) this.lateCharge?.charged(result);
    else if (id === undefined) {
      const refunds = limits.map((limit, place) => refundOf(limit, result.limits[place]));
      void this.context.inFlight.domains.adjustLater(refunds, this.nowMs);
    }
  }
}

/** A call without a fallback: if the store fails, it rejects. */
export class RequiredCall<T> extends Call<T> {
  constructor(
    { inFlight }: CallContext,
    private readonly domainsOf: (domains: FailureDomains) => readonly FailureDomain[],
    private readonly work: (onSent: OnSent) => Promise<T>,
  ) {
    super(inFlight);
  }

  protected override findDomains(): readonly FailureDomain[] {
    return this.domainsOf(this.inFlight.domains);
  }

  protected override send(): void {
    this.await(() => this.work((command) => this.sent(command)));
  }

  protected override fallBack(reason: Reason, cause: unknown, notDone: boolean): never {
    throw unavailable(reason, cause, notDone);
  }
}
