/**
 * Calls that timed out and were then admitted by a fallback. The store may have charged them too,
 * and its reply may still arrive. A refund or `settle` of such a call adjusts the charge of the
 * fallback at once, and the charge in the store as soon as the store has replied.
 *
 * The receipt contains a token, so it can be settled after it was stored or sent as JSON. Only this
 * process keeps the calls. It keeps each call for at least an hour, or until calls with 10,000 more
 * limits have timed out. After that, the charge in the store is not adjusted.
 */
import type { Clock } from '../clock.ts';
import type { CheckResult, LimitDecision } from '../decision.ts';
import { type Adjustment, type Limit, refundOf } from '../store.ts';

/** Limits of the calls in a generation. A call may have 64 limits, so calls are not counted. */
const GENERATION_SIZE = 10_000;
const GENERATION_MS = 3_600_000;

export type AdjustLater = (adjustments: readonly Adjustment[], nowMs: number | undefined) => void;

export class LateCharge {
  readonly #limits: readonly Limit[];
  readonly #adjustLater: AdjustLater;
  /** How the store charged each limit; undefined until it has replied. */
  #charged: readonly LimitDecision[] | undefined = undefined;
  #adjustments: readonly Adjustment[] | undefined = undefined;
  #nowMs: number | undefined = undefined;

  constructor(limits: readonly Limit[], adjustLater: AdjustLater) {
    this.#limits = limits;
    this.#adjustLater = adjustLater;
  }

  /** Call this when the store has replied that it charged the call. */
  charged(result: CheckResult): void {
    if (this.#charged !== undefined) return;
    this.#charged = result.limits;
    this.#reconcile();
  }

  /** Call this when the caller has settled or refunded the call. Only the first time counts. */
  settle(adjustments: readonly Adjustment[], nowMs: number | undefined): void {
    if (this.#adjustments !== undefined) return;
    this.#adjustments = adjustments;
    this.#nowMs = nowMs;
    this.#reconcile();
  }

  #reconcile(): void {
    const charged = this.#charged;
    if (charged === undefined || this.#adjustments === undefined) return;
    const due = this.#adjustments.flatMap(({ policy, params, charge, delta }) => {
      const { key, cost } = charge;
      const place = this.#limits.findIndex(
        (limit) => limit.policy.name === policy.name && limit.key === key && limit.cost === cost,
      );
      if (place < 0 || delta === 0) return [];
      return [{ ...refundOf({ policy, params, key, cost }, charged[place]), delta }];
    });
    if (due.length > 0) this.#adjustLater(due, this.#nowMs);
  }
}

/**
 * The late charges of this process, by token. Two generations bound the memory: when the newer one
 * is full or an hour old, it replaces the older one.
 */
export class LateCharges {
  readonly #clock: Clock;
  readonly #adjustLater: AdjustLater;
  /** Distinguishes the tokens of this process from those of other processes and earlier runs. */
  readonly #name = Math.random().toString(36).slice(2);
  #count = 0;
  #newer = new Map<string, LateCharge>();
  #older = new Map<string, LateCharge>();
  /** The number of limits in the newer generation. */
  #size = 0;
  #startedMs: number;

  constructor(clock: Clock, adjustLater: AdjustLater) {
    this.#clock = clock;
    this.#adjustLater = adjustLater;
    this.#startedMs = clock.now();
  }

  nextToken(): string {
    this.#count++;
    return `${this.#name}.${this.#count}`;
  }

  /** Returns the late charge of a token. If the token is new, adds a late charge. */
  open(token: string, limits: readonly Limit[]): LateCharge {
    const known = this.#find(token);
    if (known !== undefined) return known;
    this.#rotate();
    const entry = new LateCharge(limits, this.#adjustLater);
    this.#newer.set(token, entry);
    this.#size += limits.length;
    return entry;
  }

  /** Also applies the adjustments of a receipt to the charge that the store made or will make. */
  settle(adjustments: readonly Adjustment[], nowMs: number | undefined): void {
    const byToken = new Map<string, Adjustment[]>();
    for (const adjustment of adjustments) {
      const { late } = adjustment.charge;
      // A renewal does not end a call. If the store has taken a hold too, that hold expires.
      if (late === undefined || adjustment.renew) continue;
      const part = byToken.get(late);
      if (part === undefined) byToken.set(late, [adjustment]);
      else part.push(adjustment);
    }
    for (const [token, part] of byToken) this.#find(token)?.settle(part, nowMs);
  }

  #find(token: string): LateCharge | undefined {
    return this.#newer.get(token) ?? this.#older.get(token);
  }

  /** Starts a new generation if the newer one is full or old. */
  #rotate(): void {
    const nowMs = this.#clock.now();
    const isOld = nowMs - this.#startedMs >= GENERATION_MS;
    if (this.#size < GENERATION_SIZE && !isOld) return;
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#size = 0;
    this.#startedMs = nowMs;
  }
}
