/**
 * Prevents that a store in this process charges a retried check twice, or applies a receipt twice.
 * Records the decisions of checks with an idempotency id, and the used receipts. Each record is
 * named by a keyed hash of the id, so a long id takes no more memory than a short one.
 */
import type { CheckResult } from '../decision.ts';
import { copyOf } from '../key.ts';
import { type Adjustment, type Check, idOf, receiptLifetimeMs } from '../store.ts';
import type { KeyedHash } from '../stores/memory/hash.ts';
import { ExpiringRecords } from './expiring-records.ts';

/** Estimated bytes of a recorded decision, without its limits. */
const DECISION_BYTES = 200;
/** Estimated bytes of each limit of a recorded decision, without the key. */
const LIMIT_BYTES = 300;
/** Estimated bytes of the record of a used receipt, or of the number of resets of a key. */
const SMALL_RECORD_BYTES = 180;

export class Idempotency {
  readonly #hash: KeyedHash;
  /** The decisions of checks with an id. In the group `''`: how often each key was reset. */
  readonly #records: ExpiringRecords<CheckResult | number>;
  readonly #receipts: ExpiringRecords<true>;
  /** The longest lifetime of a record so far. The number of resets of a key is kept this long. */
  #longestMs = 1;

  /** Decisions and resets take at most `maxBytes`, and receipts take at most as many. */
  constructor(hash: KeyedHash, maxBytes: number) {
    this.#hash = hash;
    this.#records = new ExpiringRecords(maxBytes);
    this.#receipts = new ExpiringRecords(maxBytes);
  }

  /**
   * Returns the recorded decision, if a check with the same id, limits and costs was admitted
   * within the longest window. Otherwise returns the result of `decide`, and records an admission.
   */
  decideOnce(
    { id, limits, client, label }: Check,
    nowMs: number,
    decide: (check: Check) => CheckResult,
  ): CheckResult {
    const name = this.#nameOf([
      id,
      limits.map(({ policy: { name, algorithm, windowMs, bucketMs }, key, cost }) => [
        name,
        algorithm,
        windowMs,
        bucketMs,
        key,
        cost,
        this.#resetsOf(name, key),
      ]),
    ]);
    const longest = limits.reduce((a, b) => (b.policy.windowMs > a.policy.windowMs ? b : a));
    const { name: policy, windowMs } = longest.policy;
    const known = this.#records.get(name) as CheckResult | undefined;
    if (known !== undefined && nowMs - known.atMs < windowMs) return known;
    const copies = limits.map((limit) => ({ ...limit, key: copyOf(limit.key) }));
    const result = decide({ limits: copies, peek: false, label });
    if (result.allowed) {
      if (client !== undefined) Object.assign(result, { client });
      let bytes = DECISION_BYTES;
      for (const { key } of limits) bytes += LIMIT_BYTES + 2 * key.length;
      this.#longestMs = Math.max(this.#longestMs, windowMs);
      this.#records.set(idOf(policy, client), name, result, bytes, windowMs, nowMs);
    }
    return result;
  }

  /**
   * Records that a receipt is used. Returns false if it was used before, or if a record of an
   * earlier use may have been evicted.
   */
  useReceipt(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
    client?: string,
  ): boolean {
    const { policy, key } = adjustments[0].charge;
    const group = idOf(policy, client);
    const name = this.#nameOf([policy, id, this.#resetsOf(policy, key)]);
    const chargedMs = Math.min(...adjustments.map(({ charge }) => charge.atMs));
    // If the receipt was used before, the record of that use may have been evicted. To reject an
    // unused receipt is safe, to apply a used one is not.
    const isOlder = chargedMs < this.#receipts.evictedMs(group);
    if (isOlder || this.#receipts.get(name)) return false;
    const lifetimeMs = Math.max(...adjustments.map(receiptLifetimeMs));
    this.#longestMs = Math.max(this.#longestMs, lifetimeMs);
    this.#receipts.set(group, name, true, SMALL_RECORD_BYTES, lifetimeMs, nowMs);
    return true;
  }

  /** Invalidates all records of a key: their names contain the number of resets of the key. */
  reset(policy: string, key: string, nowMs: number): void {
    const count = this.#resetsOf(policy, key) + 1;
    const name = this.#nameOf([policy, key]);
    this.#records.set('', name, count, SMALL_RECORD_BYTES, this.#longestMs, nowMs);
  }

  #resetsOf(policy: string, key: string): number {
    const name = this.#nameOf([policy, key]);
    return (this.#records.get(name) as number | undefined) ?? 0;
  }

  #nameOf(parts: readonly unknown[]): number {
    return this.#hash.hash53(JSON.stringify(parts));
  }
}
