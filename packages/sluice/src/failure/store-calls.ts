/** The calls that a store is asked, and what is answered when it fails. */
import type { CheckResult, Receipt } from '../decision.ts';
import { keyText } from '../key.ts';
import { type Check, type OnSent, refundOf, type Store } from '../store.ts';
import { Call, type InFlight, type Reason } from './call.ts';
import type { FailureDomain, FailureDomains } from './failure-domains.ts';
import { type Fallback, unavailable } from './fallback.ts';
import type { LateCharge, LateCharges } from './late-charges.ts';

/** What a call needs to know of the store and its stand-in. */
export interface CallContext {
  readonly store: Store;
  readonly fallback: Fallback;
  readonly inFlight: InFlight;
  readonly lateCharges: LateCharges;
}

/** A check, for which there is always an answer. */
export class CheckCall extends Call<readonly CheckResult[]> {
  /** Set when a fallback admitted the call and the store may still charge it. */
  private lateCharge: LateCharge | undefined = undefined;

  constructor(
    private readonly parts: CallContext,
    private readonly check: Check,
    private readonly nowMs: number | undefined,
  ) {
    super(parts.inFlight);
  }

  protected override findDomains(): readonly FailureDomain[] {
    const { id, limits } = this.check;
    if (id !== undefined) keyText(id, '`id`');
    return this.parts.inFlight.domains.ofLimits(limits);
  }

  protected override ask(): void {
    const { store } = this.parts;
    if (store.submit !== undefined) store.submit(this.check, this.nowMs, this);
    else this.await(() => store.decide([this.check], this.nowMs));
  }

  protected override instead(
    reason: Reason,
    cause: unknown,
    notDone: boolean,
  ): readonly CheckResult[] {
    const { fallback, lateCharges } = this.parts;
    const { check, nowMs } = this;
    const waitMs = Math.max(...this.domains.map(({ breaker }) => breaker.waitMs));
    const token = reason === 'timeout' && !check.peek ? lateCharges.nextToken() : undefined;
    const failure = { reason, cause, notDone, waitMs, late: token };
    const result = fallback.decide(check, nowMs, failure);
    // A call that is repeated under its id has the receipt of the first one, with its token.
    const late = token && (result as { receipt?: Receipt }).receipt?.charges[0].late;
    if (late) this.lateCharge = lateCharges.open(late, check.limits);
    return [result];
  }

  /** A denial that is repeated from this process's memory says nothing about the store. */
  protected override proof(answer: readonly CheckResult[] | undefined) {
    const result = answer?.[0];
    if (typeof result !== 'object') return 'broken';
    return result.cached === true ? 'nothing' : 'works';
  }

  /** A caller that was denied is not charged. One that was admitted may settle the charge. */
  protected override late(
    answer: readonly CheckResult[],
    told: readonly CheckResult[] | undefined,
  ): void {
    const { limits, peek, id } = this.check;
    const result = answer?.[0];
    if (peek || !result?.allowed) return;
    if (told?.[0].allowed) this.lateCharge?.charged(result);
    else if (id === undefined) {
      const refunds = limits.map((limit, place) => refundOf(limit, result.limits[place].atMs));
      void this.parts.inFlight.domains.adjustLater(refunds, this.nowMs);
    }
  }
}

/** What only the store can do: the same deadline and breaker, and then an error. */
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

  protected override ask(): void {
    this.await(() => this.work((command) => this.sent(command)));
  }

  protected override instead(reason: Reason, cause: unknown, notDone: boolean): never {
    throw unavailable(reason, cause, notDone);
  }
}
