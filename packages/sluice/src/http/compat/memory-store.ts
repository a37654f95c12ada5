/** Sluice's memory store with the methods of the `MemoryStore` of express-rate-limit. */
import { dateOf, systemClock } from '../../clock.ts';
import type { CheckResult } from '../../decision.ts';
import { expected } from '../../errors.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, SyncPolicyTable, SyncStore } from '../../store.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import type { ClientRateLimitInfo } from './counter-store.ts';

/**
 * A store in this process, with an exact sliding window. It has no `increment` and `decrement`,
 * because it decides checks instead of counting.
 *
 *     const store = new MemoryStore();
 *     app.use(rateLimit({ limit: 100, store }));
 */
export class MemoryStore implements SyncStore {
  /** Keys of one instance do not affect other instances. */
  readonly localKeys = true;
  #store = memoryStore();
  readonly #policies = new Map<string, Policy>();

  constructor() {
    if (new.target === MemoryStore) return;
    // A subclass would override `increment`, which is never called.
    const what = 'no subclass of MemoryStore (implement the store interface instead)';
    throw expected('ERR_INVALID_OPTION', what, new.target);
  }

  /** Resolves to the count of a key, or undefined if the key has no charge that still counts. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const nowMs = systemClock.now();
    for (const policy of this.#policies.values()) {
      const { windowMs, bucketMs } = policy;
      const params = policy.params ?? { limit: 1, windowMs, bucketMs, capacity: 1 };
      const state = this.#store.inspectSync(policy, params, key, nowMs);
      if (state === undefined) continue;
      return { totalHits: state.used, resetTime: dateOf(nowMs + state.resetAfterMs) };
    }
    return undefined;
  }

  async resetKey(key: string): Promise<void> {
    const nowMs = systemClock.now();
    for (const policy of this.#policies.values()) this.#store.resetSync(policy, key, nowMs);
  }

  async resetAll(): Promise<void> {
    this.#store = memoryStore();
  }

  shutdown(): void {
    this.#store = memoryStore();
  }

  open(policy: Policy): SyncPolicyTable {
    this.#policies.set(policy.name, policy);
    let store = this.#store;
    let table = store.open(policy);
    // The limiter keeps the table, but `resetAll` replaces the store.
    const current = (): SyncPolicyTable => {
      if (store !== this.#store) {
        store = this.#store;
        table = store.open(policy);
      }
      return table;
    };
    return {
      takeSync: (params, key, cost, nowMs) => current().takeSync(params, key, cost, nowMs),
      peekSync: (params, key, cost, nowMs) => current().peekSync(params, key, cost, nowMs),
    };
  }

  decideSync(check: Check, nowMs: number): CheckResult {
    for (const { policy } of check.limits) this.#policies.set(policy.name, policy);
    return this.#store.decideSync(check, nowMs);
  }

  async decide(
    checks: readonly Check[],
    nowMs = systemClock.now(),
  ): Promise<readonly CheckResult[]> {
    return checks.map((check) => this.decideSync(check, nowMs));
  }

  adjustSync(adjustment: Adjustment, nowMs: number): number {
    return this.#store.adjustSync(adjustment, nowMs);
  }

  async adjust(
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
  ): Promise<readonly number[]> {
    return adjustments.map((adjustment) => this.adjustSync(adjustment, nowMs));
  }

  adjustOnceSync(
    ...call: Parameters<SyncStore['adjustOnceSync']>
  ): ReturnType<SyncStore['adjustOnceSync']> {
    return this.#store.adjustOnceSync(...call);
  }

  resetSync(policy: Policy, key: string, nowMs: number): void {
    this.#store.resetSync(policy, key, nowMs);
  }

  async reset(policy: Policy, key: string, nowMs = systemClock.now()): Promise<void> {
    this.resetSync(policy, key, nowMs);
  }

  inspectSync(...call: Parameters<SyncStore['inspectSync']>): KeyState | undefined {
    return this.#store.inspectSync(...call);
  }

  get size(): number {
    return this.#store.size;
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
