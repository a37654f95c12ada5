/**
 * Failure domains: parts of a store that fail independently, such as the slots of one master of a
 * Cluster. Each domain has its own circuit breaker, share of the calls in flight, and queue of
 * refunds. So a dead node does not block calls to the other nodes.
 */
import type { Clock } from '../clock.ts';
import type { Policy } from '../policy.ts';
import type { Adjustment, Limit, SentCommand, Store } from '../store.ts';
import { Breaker, type BreakerState } from './breaker.ts';
import { RefundBudget, RefundQueue } from './refund-queue.ts';

/** If a store has more domains, several of them share a breaker. This bounds the memory. */
const MAX_DOMAINS = 1024;

export const domainNumber = (given = 0): number => Math.abs(Math.trunc(given)) % MAX_DOMAINS;

/** What the end of a call shows about the store. */
export type CallOutcome = 'worked' | 'failed' | 'nothing';

export class FailureDomain {
  inFlight = 0;
  readonly breaker: Breaker;
  readonly refunds: RefundQueue;
  /** A list with only this domain. Reused by its calls, which avoids allocating a list per call. */
  readonly alone: readonly FailureDomain[] = [this];
  /** The call that probes the store. */
  #prober: object | undefined = undefined;
  /**
   * The last command that succeeded. Several calls may share a command, but the breaker counts it
   * once. These calls complete in a row, so a comparison with the last command is enough.
   */
  #lastWorked: SentCommand | undefined = undefined;
  readonly #failed = new WeakSet<SentCommand>();

  constructor(
    readonly number: number,
    clock: Clock,
    budget: RefundBudget,
  ) {
    this.breaker = new Breaker(clock);
    this.refunds = new RefundQueue(budget);
  }

  /** Whether the breaker admits a call. If the call is the probe, stores it in `#prober`. */
  admits(call: object): boolean {
    const kind = this.breaker.admits();
    if (kind === 'probe') this.#prober = call;
    return kind !== undefined;
  }

  /** Reports the end of a call to the breaker, once for each command. */
  ended(call: object, outcome: CallOutcome, command: SentCommand | undefined): void {
    const isProbe = this.#prober === call;
    const kind = isProbe ? 'probe' : 'call';
    if (isProbe) this.#prober = undefined;
    if (outcome === 'nothing') this.breaker.inconclusive(kind);
    else if (outcome === 'worked') {
      if (isProbe || command === undefined || command !== this.#lastWorked) {
        this.#lastWorked = command;
        this.breaker.succeeded(kind);
      }
      this.refunds.retry();
    } else if (isProbe || command === undefined || !this.#failed.has(command)) {
      if (command !== undefined) this.#failed.add(command);
      this.breaker.failed(kind);
    }
  }
}

export class FailureDomains {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #maxInFlight: number;
  readonly #budget: RefundBudget;
  readonly #first: FailureDomain;
  readonly #byNumber = new Map<number, FailureDomain>();
  #inFlight = 0;

  constructor(store: Store, clock: Clock, maxInFlight: number) {
    this.#store = store;
    this.#clock = clock;
    this.#maxInFlight = maxInFlight;
    this.#budget = new RefundBudget(store, clock);
    this.#first = this.#ofNumber(0);
  }

  /** The worst state of the breakers: `open`, then `probing`, then `closed`. */
  get state(): BreakerState {
    let worst: BreakerState = 'closed';
    for (const { breaker } of this.#byNumber.values()) {
      const { state } = breaker;
      if (state === 'open') return state;
      if (state === 'probing') worst = state;
    }
    return worst;
  }

  ofKey(policy: Policy, key: string): FailureDomain {
    if (this.#store.domainOf === undefined) return this.#first;
    return this.#ofNumber(this.#store.domainOf(policy, key));
  }

  ofLimits(limits: readonly Limit[]): readonly FailureDomain[] {
    if (this.#store.domainOf === undefined) return this.#first.alone;
    if (limits.length === 1) return this.ofKey(limits[0].policy, limits[0].key).alone;
    return [...new Set(limits.map(({ policy, key }) => this.ofKey(policy, key)))];
  }

  ofAdjustments(adjustments: readonly Adjustment[]): readonly FailureDomain[] {
    return [...this.#byDomain(adjustments).keys()];
  }

  /**
   * Counts a call as in flight if all of its domains have room and their breakers admit it, and
   * returns undefined. Otherwise returns the reason for not sending it.
   */
  enter(call: object, domains: readonly FailureDomain[]): 'overload' | 'open' | undefined {
    if (!this.#hasRoom(domains)) return 'overload';
    for (let place = 0; place < domains.length; place++) {
      if (domains[place].admits(call)) continue;
      for (const domain of domains.slice(0, place)) domain.ended(call, 'nothing', undefined);
      return 'open';
    }
    this.#inFlight++;
    for (const domain of domains) domain.inFlight++;
    return undefined;
  }

  leave(domains: readonly FailureDomain[]): void {
    this.#inFlight--;
    for (const domain of domains) domain.inFlight--;
  }

  /** Sends adjustments that no caller waits for; see `RefundQueue`. Never rejects. */
  async adjustLater(adjustments: readonly Adjustment[], nowMs: number | undefined): Promise<void> {
    let parts: [FailureDomain, Adjustment[]][] = [];
    try {
      parts = [...this.#byDomain(adjustments)];
    } catch {
      // `domainOf` throws only for a key that cannot be sent. Such a key has no charge.
    }
    await Promise.all(parts.map(([domain, part]) => domain.refunds.add(part, nowMs)));
  }

  /** Call this when the client has connected. */
  ready(): void {
    for (const { breaker, refunds } of this.#byNumber.values()) {
      breaker.ready();
      refunds.ready();
    }
  }

  close(): void {
    for (const { refunds } of this.#byNumber.values()) refunds.close();
  }

  /**
   * Returns whether one more call may be in flight. All domains share the first half of
   * `maxInFlight`. The second half is divided equally among them, so that calls to a dead node
   * leave room for calls to other nodes.
   */
  #hasRoom(domains: readonly FailureDomain[]): boolean {
    const max = this.#maxInFlight;
    if (this.#inFlight >= max) return false;
    const { size } = this.#byNumber;
    if (size === 1 || this.#inFlight < max / 2) return true;
    return domains.every(({ inFlight }) => inFlight < Math.max(max / 2 / size, 1));
  }

  #byDomain(adjustments: readonly Adjustment[]): Map<FailureDomain, Adjustment[]> {
    const parts = new Map<FailureDomain, Adjustment[]>();
    for (const adjustment of adjustments) {
      const domain = this.ofKey(adjustment.policy, adjustment.charge.key);
      const part = parts.get(domain);
      if (part === undefined) parts.set(domain, [adjustment]);
      else part.push(adjustment);
    }
    return parts;
  }

  #ofNumber(number: number): FailureDomain {
    const bounded = domainNumber(number);
    let domain = this.#byNumber.get(bounded);
    if (domain === undefined) {
      domain = new FailureDomain(bounded, this.#clock, this.#budget);
      this.#byNumber.set(bounded, domain);
    }
    return domain;
  }
}
