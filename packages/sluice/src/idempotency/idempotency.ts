/**
 * Records of a store in this process that prevent counting twice: decisions by idempotency id, and
 * used receipts. Records are named by a keyed hash, so only their total bytes are limited.
 */
import type { CheckResult } from '../decision.ts';
import { copyOf } from '../key.ts';
import { type Adjustment, type Limit, receiptLifetimeMs } from '../store.ts';
import type { KeyedHash } from '../stores/memory/hash.ts';
import { ExpiringRecords } from './expiring-records.ts';

/** Estimated bytes of a decision, of each of its limits besides the key, and of a mark. */
const DECISION_BYTES = 200;
const LIMIT_BYTES = 300;
const MARK_BYTES = 160;
/** The group of the reset counters. */
const RESETS = '';

export class Idempotency {
  readonly #hash: KeyedHash;
  /** Decisions by call and, in the group `RESETS`, how often keys were reset. */
  readonly #records: ExpiringRecords<CheckResult | number>;
  readonly #receipts: ExpiringRecords<true>;
  /** The longest lifetime of any record. */
  #longestMs = 1;

  /** Decisions and resets take at most `maxBytes`, and receipts take at most as many. */
  constructor(hash: KeyedHash, maxBytes: number) {
    this.#hash = hash;
    this.#records = new ExpiringRecords(maxBytes);
    this.#receipts = new ExpiringRecords(maxBytes);
  }

  /**
   * Returns the decision admitted under `id` for the same limits and costs within their longest
   * window. If there is none, returns the result of `decide`, and records it if it is admitted.
   */
  decideOnce(
    id: string,
    limits: readonly Limit[],
    nowMs: number,
    decide: (limits: readonly Limit[]) => CheckResult,
  ): CheckResult {
    const call = limits.map(({ policy, key, cost }) => [
      ...[policy.name, policy.algorithm, policy.windowMs, policy.bucketMs, key, cost],
      this.#resetsOf(policy.name, key),
    ]);
    const name = this.#nameOf([id, call]);
    const { name: group, windowMs } = limits
      .map(({ policy }) => policy)
      .reduce((a, b) => (b.windowMs > a.windowMs ? b : a));
    const known = this.#records.get(group, name) as CheckResult | undefined;
    if (known !== undefined && nowMs - known.atMs < windowMs) return known;
    const result = decide(limits.map((limit) => ({ ...limit, key: copyOf(limit.key) })));
    if (result.allowed) {
      let bytes = DECISION_BYTES;
      for (const { key } of limits) bytes += LIMIT_BYTES + 2 * key.length;
      this.#longestMs = Math.max(this.#longestMs, windowMs);
      this.#records.set(group, name, result, bytes, windowMs, nowMs);
    }
    return result;
  }

  /** Marks a receipt as used. Returns false if it was used before, or may have been. */
  useReceipt(id: string, adjustments: readonly Adjustment[], nowMs: number): boolean {
    const { policy, key } = adjustments[0].charge;
    const name = this.#nameOf([id, this.#resetsOf(policy, key)]);
    const chargedMs = Math.min(...adjustments.map(({ charge }) => charge.atMs));
    // The mark of an older receipt may have been dropped. Rejecting it never admits too much.
    const isOlder = chargedMs < this.#receipts.droppedMs(policy);
    if (isOlder || this.#receipts.get(policy, name)) return false;
    const lifetimeMs = Math.max(...adjustments.map(receiptLifetimeMs));
    this.#longestMs = Math.max(this.#longestMs, lifetimeMs);
    this.#receipts.set(policy, name, true, MARK_BYTES, lifetimeMs, nowMs);
    return true;
  }

  /** Invalidates all records of a key: its reset counter is part of their names. */
  reset(policy: string, key: string, nowMs: number): void {
    const count = this.#resetsOf(policy, key) + 1;
    const name = this.#nameOf([policy, key]);
    this.#records.set(RESETS, name, count, MARK_BYTES, this.#longestMs, nowMs);
  }

  #resetsOf(policy: string, key: string): number {
    const name = this.#nameOf([policy, key]);
    return (this.#records.get(RESETS, name) as number | undefined) ?? 0;
  }

  /** Returns 53 bits of a keyed hash. */
  #nameOf(parts: readonly unknown[]): number {
    this.#hash.hash(JSON.stringify(parts));
    return (this.#hash.high >>> 11) * 2 ** 32 + (this.#hash.low >>> 0);
  }
}
