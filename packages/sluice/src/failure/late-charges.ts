/**
 * Calls that timed out and were then admitted by a fallback: the store may have charged them too,
 * and its reply may still come. A refund or `settle` of such a call adjusts the charge of the
 * fallback at once, and the charge in the store as soon as the store has replied.
 *
 * The receipt carries a token, so it can be settled after it was stored or sent as JSON. The calls
 * are kept in this process only: the limits of the last 10,000 to 20,000, and each for an hour at
 * least, unless there are more. After that the charge in the store stays as it was reserved.
 */
import type { Clock } from '../clock.ts';
import type { CheckResult } from '../decision.ts';
import type { Adjustment, Limit } from '../store.ts';

/** In limits, not calls: a call may have 64 of them, with long keys. */
const GENERATION_SIZE = 10_000;
const GENERATION_MS = 3_600_000;

export type AdjustLater = (adjustments: readonly Adjustment[], nowMs: number | undefined) => void;

export class LateCharge {
  readonly #limits: readonly Limit[];
  readonly #adjustLater: AdjustLater;
  /** When the store charged each limit; undefined until it has replied. */
  #chargedMs: readonly number[] | undefined = undefined;
  #adjustments: readonly Adjustment[] | undefined = undefined;
  #nowMs: number | undefined = undefined;

  constructor(limits: readonly Limit[], adjustLater: AdjustLater) {
    this.#limits = limits;
    this.#adjustLater = adjustLater;
  }

  /** The store has replied that it charged the call. */
  charged(result: CheckResult): void {
    if (this.#chargedMs !== undefined) return;
    this.#chargedMs = result.limits.map(({ atMs }) => atMs);
    this.#reconcile();
  }

  /** The caller has settled or refunded the call. Only the first time counts. */
  settle(adjustments: readonly Adjustment[], nowMs: number | undefined): void {
    if (this.#adjustments !== undefined) return;
    this.#adjustments = adjustments;
    this.#nowMs = nowMs;
    this.#reconcile();
  }

  #reconcile(): void {
    const chargedMs = this.#chargedMs;
    if (chargedMs === undefined || this.#adjustments === undefined) return;
    const due = this.#adjustments.flatMap(({ policy, params, charge, delta }) => {
      const { key, cost } = charge;
      const place = this.#limits.findIndex(
        (limit) => limit.policy.name === policy.name && limit.key === key && limit.cost === cost,
      );
      if (place < 0 || delta === 0) return [];
      const own = { policy: policy.name, key, cost, atMs: chargedMs[place] };
      return [{ policy, params, charge: own, delta }];
    });
    if (due.length > 0) this.#adjustLater(due, this.#nowMs);
  }
}

/** Bounded by two generations: when the newer one is full or old, it replaces the older one. */
export class LateCharges {
  readonly #clock: Clock;
  readonly #adjustLater: AdjustLater;
  /** Tokens of another process, such as this one before a restart, are different. */
  readonly #name = Math.random().toString(36).slice(2);
  #count = 0;
  #newer = new Map<string, LateCharge>();
  #older = new Map<string, LateCharge>();
  /** How many limits the newer generation has. */
  #size = 0;
  #begunMs: number;

  constructor(clock: Clock, adjustLater: AdjustLater) {
    this.#clock = clock;
    this.#adjustLater = adjustLater;
    this.#begunMs = clock.now();
  }

  nextToken(): string {
    this.#count++;
    return `${this.#name}.${this.#count}`;
  }

  /** The entry for a token; a new one unless the token is known. */
  open(token: string, limits: readonly Limit[]): LateCharge {
    const known = this.#find(token);
    if (known !== undefined) return known;
    this.#turn();
    const entry = new LateCharge(limits, this.#adjustLater);
    this.#newer.set(token, entry);
    this.#size += limits.length;
    return entry;
  }

  /** Applies the adjustments of a receipt also to what the store charged, or will charge. */
  settle(adjustments: readonly Adjustment[], nowMs: number | undefined): void {
    const byToken = new Map<string, Adjustment[]>();
    for (const adjustment of adjustments) {
      const { late } = adjustment.charge;
      if (late === undefined) continue;
      const part = byToken.get(late);
      if (part === undefined) byToken.set(late, [adjustment]);
      else part.push(adjustment);
    }
    for (const [token, part] of byToken) this.#find(token)?.settle(part, nowMs);
  }

  #find(token: string): LateCharge | undefined {
    return this.#newer.get(token) ?? this.#older.get(token);
  }

  #turn(): void {
    const nowMs = this.#clock.now();
    const isOld = nowMs - this.#begunMs >= GENERATION_MS;
    if (this.#size < GENERATION_SIZE && !isOld) return;
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#size = 0;
    this.#begunMs = nowMs;
  }
}
