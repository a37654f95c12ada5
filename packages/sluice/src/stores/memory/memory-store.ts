/**
 * The memory store: one table of keys for each policy, and one cap on the keys of all policies.
 *
 * There is no timer. An expired key is overwritten when it is used again. With every new key and
 * every 64th decision of a policy, the store checks a few rows and deletes the expired ones.
 *
 * When the cap is reached, a key of the policy with the most keys is evicted. So each of n policies
 * that hold keys is guaranteed `maxKeys / n` keys, regardless of the others. Within a policy, the
 * least used key of a random sample is evicted, see `PolicyTable.evict`. A sketch of fixed size
 * (`EvictedKeys`) stores an upper bound of the cost that each evicted key has used. So a client
 * that floods the store with keys cannot free a key from its limit.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { isConcurrency } from '../../algorithms/index.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, jointDecision } from '../../decision.ts';
import { checkFields, checkInteger, expected } from '../../errors.ts';
import { Idempotency } from '../../idempotency/idempotency.ts';
import type { Policy } from '../../policy.ts';
import type {
  Adjustment,
  Check,
  KeyState,
  Limit,
  OnSent,
  StoreFeature,
  SyncStore,
} from '../../store.ts';
import { warnOnError } from '../../warning.ts';
import { BlockTable } from './block-table.ts';
import { KeyedHash } from './hash.ts';
import { HoldTable } from './hold-table.ts';
import { type Evictor, isWide, type LimitTable, PolicyTable } from './policy-table.ts';

/** Passed to `onEviction` when a key is evicted whose charges have not expired. */
export interface Eviction {
  readonly policy: string;
  /** Number of keys per policy that other policies cannot evict. `policy` holds more keys. */
  readonly guaranteedKeys: number;
}

export interface MemoryStoreOptions {
  /**
   * Maximum number of keys over all policies. Default 1,000,000, which takes about 43 MB, or 51 MB
   * once keys were evicted whose charges had not expired. It is also the maximum number of holds
   * of each concurrency limit, and of blocks of each policy, which take about 220 bytes each.
   *
   * @example maxKeys: 50_000
   */
  readonly maxKeys?: number;
  /**
   * Maximum bytes for idempotency ids, and the same number again for used receipts. Default
   * 33,554,432 (32 MiB): about 60,000 ids of calls with one limit, and 180,000 receipts.
   *
   * @example maxIdBytes: 2 ** 28
   */
  readonly maxIdBytes?: number;
  /**
   * Called when a key is evicted whose charges have not expired. During a flood of keys, that can
   * happen with every call. Default: evictions are only counted, in `store.evicted`.
   *
   * @example onEviction: ({ policy }) => evictions.inc({ policy })
   */
  readonly onEviction?: (eviction: Eviction) => void;
}

const DEFAULT_MAX_KEYS = 1_000_000;
/** Row numbers have 30 bits, and in a growing table up to a third of the rows are empty. */
const MAX_KEYS = 2 ** 29;
const DEFAULT_ID_BYTES = 2 ** 25;
/** Cells per guaranteed key in each row of a sketch. Its two rows take 8 bytes per key. */
const CELLS_PER_KEY = 1 / 4;
const MIN_CELLS = 64;
/** Places to sweep for each new key. Many of them are empty or hold keys that have not expired. */
const SWEPT_PER_KEY = 8;

class MemoryStore implements SyncStore, Evictor {
  readonly #maxKeys: number;
  readonly #onEviction: MemoryStoreOptions['onEviction'];
  /** A policy keeps its table if only its limit changes, for example after a reload. */
  readonly #tables = new Map<string, PolicyTable>();
  readonly #tableOfPolicy = new WeakMap<Policy, LimitTable>();
  size = 0;
  evicted = 0;
  /** True while the limits of one check are charged. No key may be evicted in between. */
  #isCharging = false;
  readonly #idempotency: Idempotency;
  /** Iterates over the tables, to sweep a different table each time. */
  #sweepOrder = this.#tables.values();

  constructor(maxKeys: number, idBytes: number, onEviction: MemoryStoreOptions['onEviction']) {
    this.#maxKeys = maxKeys;
    this.#onEviction = onEviction && warnOnError(onEviction);
    this.#idempotency = new Idempotency(new KeyedHash(), idBytes);
  }

  open(policy: Policy): LimitTable {
    let table = this.#tableOfPolicy.get(policy);
    if (table === undefined) {
      const { name, algorithm, windowMs, bucketMs, block } = policy;
      const id = JSON.stringify([name, algorithm, windowMs, bucketMs, isWide(policy)]);
      const base = this.#tables.get(id) ?? new PolicyTable(policy, this);
      this.#tables.set(id, base);
      table = base;
      if (isConcurrency(policy)) table = new HoldTable(windowMs, base, this.#maxKeys);
      else if (block) table = new BlockTable(windowMs, block, base, this.#maxKeys);
      this.#tableOfPolicy.set(policy, table);
    }
    return table;
  }

  decideSync(check: Check, nowMs: number): CheckResult {
    const { limits, peek, id, label } = check;
    if (id !== undefined) {
      return this.#idempotency.decideOnce(check, nowMs, (copy) => this.decideSync(copy, nowMs));
    }
    const decideAll = (take: boolean): CheckResult[] =>
      limits.map(({ policy, params, key, cost }) => {
        const table = this.open(policy);
        if (!take) return table.peekSync(params, key, cost, nowMs);
        return table.takeSync(params, key, cost, nowMs, label);
      });
    if (limits.length === 1) return decideAll(!peek)[0];
    // Limits are charged only if all of them allow the call. An eviction in between could change
    // the result for a key without a row, so keys are evicted after all limits are charged.
    const results = decideAll(false);
    const taken = !peek && results.every((result) => result.allowed);
    if (!taken) return jointDecision(peek ? results : this.#startBlocks(limits, results), false);
    this.#isCharging = true;
    const charged = decideAll(true);
    this.#isCharging = false;
    for (const { policy } of limits) this.#evictFor(this.open(policy).base, 0, nowMs);
    return jointDecision(charged, true);
  }

  /** Starts a block for each limit with the `block` option that denied. Returns all results. */
  #startBlocks(limits: readonly Limit[], results: readonly CheckResult[]): readonly CheckResult[] {
    return results.map((result, at) =>
      result.allowed ? result : (this.open(limits[at].policy).onDenied?.(result) ?? result),
    );
  }

  adjustSync(adjustment: Adjustment, nowMs: number): number {
    return this.open(adjustment.policy).adjust(adjustment, nowMs);
  }

  adjustOnceSync(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
    client?: string,
  ): readonly number[] | undefined {
    if (!this.#idempotency.useReceipt(id, adjustments, nowMs, client)) return undefined;
    return adjustments.map((adjustment) => this.adjustSync(adjustment, nowMs));
  }

  resetSync(policy: Policy, key: string, nowMs: number): void {
    const table = this.open(policy);
    table.reset(key, nowMs);
    // A reset may add a row, see `PolicyTable.reset`.
    this.#evictFor(table.base, 0, nowMs);
    this.#idempotency.reset(policy.name, key, nowMs);
  }

  blockSync(policy: Policy, key: string, forMs: number, nowMs: number): void {
    (this.open(policy) as BlockTable).block(key, forMs, nowMs);
  }

  inspectSync(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs: number,
  ): KeyState | undefined {
    return this.open(policy).inspect(params, key, nowMs);
  }

  async decide(
    checks: readonly Check[],
    nowMs = systemClock.now(),
  ): Promise<readonly CheckResult[]> {
    return checks.map((check) => this.decideSync(check, nowMs));
  }

  async adjust(
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
  ): Promise<readonly number[]> {
    return adjustments.map((adjustment) => this.adjustSync(adjustment, nowMs));
  }

  async adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
    _onSent?: OnSent,
    client?: string,
  ): Promise<readonly number[] | undefined> {
    return this.adjustOnceSync(id, adjustments, nowMs, client);
  }

  async reset(policy: Policy, key: string, nowMs = systemClock.now()): Promise<void> {
    this.resetSync(policy, key, nowMs);
  }

  async block(policy: Policy, key: string, forMs: number, nowMs = systemClock.now()) {
    this.blockSync(policy, key, forMs, nowMs);
  }

  /** Does nothing: the store has no connections or timers. */
  async close(): Promise<void> {}

  get features(): readonly StoreFeature[] {
    return ['concurrency', 'block'];
  }

  get guaranteedKeys(): number {
    let policies = 0;
    for (const { size } of this.#tables.values()) if (size > 0) policies++;
    return Math.floor(this.#maxKeys / Math.max(policies, 1));
  }

  get evictedCells(): number {
    return Math.max(Math.ceil(this.guaranteedKeys * CELLS_PER_KEY), MIN_CELLS);
  }

  makeRoom(table: PolicyTable, nowMs: number): void {
    this.sweep(table, SWEPT_PER_KEY, nowMs);
    if (!this.#isCharging) this.#evictFor(table, 1, nowMs);
  }

  /** Sweeps `table` and the next table in turn, so that a table without calls is swept too. */
  sweep(table: PolicyTable, places: number, nowMs: number): void {
    table.sweep(places, nowMs);
    let next = this.#sweepOrder.next();
    if (next.done) {
      this.#sweepOrder = this.#tables.values();
      next = this.#sweepOrder.next();
    }
    if (next.value !== table) next.value!.sweep(places, nowMs);
  }

  /**
   * Evicts a key of the policy with the most keys, if there is no room for `more` keys. A key that
   * is about to be added counts as a key of `incoming`. So a policy within its share loses no key
   * to another policy.
   */
  #evictFor(incoming: PolicyTable, more: 0 | 1, nowMs: number): void {
    if (this.size + more <= this.#maxKeys) return;
    const sizeOf = (table: PolicyTable): number =>
      table.size && table.size + (table === incoming ? more : 0);
    let largest = incoming;
    for (const table of this.#tables.values()) if (sizeOf(table) > sizeOf(largest)) largest = table;
    if (!largest.evict(nowMs)) return;
    this.evicted++;
    const { guaranteedKeys } = this;
    this.#onEviction?.({ policy: largest.name, guaranteedKeys });
  }
}

/**
 * Creates a store in the memory of this process. Other processes do not see its counters.
 *
 *     const store = memoryStore({ maxKeys: 50_000 });
 */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  checkFields(options, ['maxKeys', 'maxIdBytes', 'onEviction']);
  const { maxKeys = DEFAULT_MAX_KEYS, maxIdBytes = DEFAULT_ID_BYTES, onEviction } = options;
  checkInteger('ERR_INVALID_OPTION', '`maxKeys`', maxKeys, 1, MAX_KEYS);
  checkInteger('ERR_INVALID_OPTION', '`maxIdBytes`', maxIdBytes, 0);
  if (onEviction !== undefined && typeof onEviction !== 'function') {
    throw expected('ERR_INVALID_OPTION', '`onEviction` to be a function', onEviction);
  }
  return new MemoryStore(maxKeys, maxIdBytes, onEviction);
}
