/**
 * The memory store: one space of keys for each policy, one cap on the keys of all.
 *
 * No timer runs. A key that has expired is overwritten when it comes back, and with every new key
 * and every 64th decision a few rows are looked at and the expired ones deleted.
 *
 * When the cap is reached, a key of the policy with the most keys is evicted. So each of n policies
 * that hold keys is guaranteed `maxKeys / n` of them, whatever is done to the others. Within a
 * policy the least used key of a sample goes, see `Space.evict`. What evicted keys have used is
 * kept in a sketch of fixed size (`EvictedKeys`) that may overcount and never undercounts: no flood
 * frees a key from its limit.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, jointDecision } from '../../decision.ts';
import { checkFields, checkInteger, expected } from '../../errors.ts';
import { Idempotency } from '../../idempotency/idempotency.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, Limit, SyncStore } from '../../store.ts';
import { contained } from '../../warning.ts';
import { KeyedHash } from './hash.ts';
import { type Evictor, isWide, PolicyTable } from './policy-table.ts';

/** A key that was evicted while it still counted. */
export interface Eviction {
  /** The name of its policy. */
  readonly policy: string;
  /** How many keys of each policy are not evicted: this policy holds more. */
  readonly guaranteedKeys: number;
}

export interface MemoryStoreOptions {
  /**
   * The most keys held, over all policies. Default 1,000,000, which is about 43 MB, and
   * 51 MB once keys are evicted that still count.
   *
   *     memoryStore({ maxKeys: 50_000 })
   */
  readonly maxKeys?: number;
  /**
   * The most bytes for remembered ids, and as many again for used receipts. Default 33,554,432
   * (32 MiB): about 60,000 ids of calls with one limit, or 200,000 receipts.
   *
   *     memoryStore({ maxIdBytes: 2 ** 28 })
   */
  readonly maxIdBytes?: number;
  /**
   * Called when a key is evicted that still counts, which may be with every call of a flood.
   * Default: none; `store.evicted` counts them.
   *
   *     memoryStore({ onEviction: ({ policy }) => evictions.inc({ policy }) })
   */
  readonly onEviction?: (eviction: Eviction) => void;
}

const DEFAULT_MAX_KEYS = 1_000_000;
/** A table numbers its places in 30 bits, and up to a third of them are empty. */
const MAX_KEYS = 2 ** 29;
const DEFAULT_ID_BYTES = 2 ** 25;
/** Cells in a row of a sketch, for each key that a policy is guaranteed: 8 bytes a key in all. */
const CELLS_PER_KEY = 1 / 4;
const MIN_CELLS = 64;
/** Places to look at for each key that comes: some are empty, and some have live keys. */
const SWEPT_PER_KEY = 8;

class MemoryStore implements SyncStore, Evictor {
  readonly #maxKeys: number;
  readonly #onEviction: MemoryStoreOptions['onEviction'];
  /** Policies that mean the same counters, such as before and after a reload, share a space. */
  readonly #spaces = new Map<string, PolicyTable>();
  readonly #spaceOfPolicy = new WeakMap<Policy, PolicyTable>();
  size = 0;
  evicted = 0;
  /** Set while several limits are charged: nothing may be evicted between them. */
  #isCharging = false;
  readonly #idempotency: Idempotency;
  /** Goes round the spaces, to sweep one after the other. */
  #hand = this.#spaces.values();

  constructor(maxKeys: number, idBytes: number, onEviction: MemoryStoreOptions['onEviction']) {
    this.#maxKeys = maxKeys;
    this.#onEviction = onEviction && contained(onEviction);
    this.#idempotency = new Idempotency(new KeyedHash(), idBytes);
  }

  open(policy: Policy): PolicyTable {
    let table = this.#spaceOfPolicy.get(policy);
    if (table === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const id = JSON.stringify([name, algorithm, windowMs, bucketMs, isWide(policy)]);
      table = this.#spaces.get(id) ?? new PolicyTable(policy, this);
      this.#spaces.set(id, table);
      this.#spaceOfPolicy.set(policy, table);
    }
    return table;
  }

  decideSync({ limits, peek, id }: Check, nowMs: number): CheckResult {
    if (id !== undefined) {
      const decide = (copies: readonly Limit[]): CheckResult =>
        this.decideSync({ limits: copies, peek: false }, nowMs);
      return this.#idempotency.decideOnce(id, limits, nowMs, decide);
    }
    const ask = (way: 'takeSync' | 'peekSync'): CheckResult[] =>
      limits.map(({ policy, params, key, cost }) =>
        this.open(policy)[way](params, key, cost, nowMs),
      );
    if (limits.length === 1) return ask(peek ? 'peekSync' : 'takeSync')[0];
    // Nothing is charged before all limits fit, and none may stop to fit after that. Eviction
    // changes what is known of keys without a row, so it waits until all limits are charged.
    const results = ask('peekSync');
    const taken = !peek && results.every((result) => result.allowed);
    if (!taken) return jointDecision(results, false);
    this.#isCharging = true;
    const charged = ask('takeSync');
    this.#isCharging = false;
    for (const { policy } of limits) this.#evictFor(this.open(policy), 0, nowMs);
    return jointDecision(charged, true);
  }

  adjustSync(adjustment: Adjustment, nowMs: number): number {
    return this.open(adjustment.policy).adjust(adjustment, nowMs);
  }

  adjustOnceSync(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
  ): readonly number[] | undefined {
    if (!this.#idempotency.useReceipt(id, adjustments, nowMs)) return undefined;
    return adjustments.map((adjustment) => this.adjustSync(adjustment, nowMs));
  }

  resetSync(policy: Policy, key: string, nowMs: number): void {
    const table = this.open(policy);
    table.reset(key, nowMs);
    // It may have added a row, for a key that has used nothing of what evicted keys have.
    this.#evictFor(table, 0, nowMs);
    this.#idempotency.reset(policy.name, key, nowMs);
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
  ): Promise<readonly number[] | undefined> {
    return this.adjustOnceSync(id, adjustments, nowMs);
  }

  async reset(policy: Policy, key: string, nowMs = systemClock.now()): Promise<void> {
    this.resetSync(policy, key, nowMs);
  }

  /** Nothing to let go of: the memory goes with the store. */
  async close(): Promise<void> {}

  get guaranteedKeys(): number {
    let policies = 0;
    for (const { size } of this.#spaces.values()) if (size > 0) policies++;
    return Math.floor(this.#maxKeys / Math.max(policies, 1));
  }

  get evictedCells(): number {
    return Math.max(Math.ceil(this.guaranteedKeys * CELLS_PER_KEY), MIN_CELLS);
  }

  makeRoom(table: PolicyTable, nowMs: number): void {
    this.sweep(table, SWEPT_PER_KEY, nowMs);
    if (!this.#isCharging) this.#evictFor(table, 1, nowMs);
  }

  /** Deletes some expired keys of a space, and of another one in turn: it may get no calls. */
  sweep(table: PolicyTable, places: number, nowMs: number): void {
    table.sweep(places, nowMs);
    let next = this.#hand.next();
    if (next.done) {
      this.#hand = this.#spaces.values();
      next = this.#hand.next();
    }
    if (next.value !== table) next.value!.sweep(places, nowMs);
  }

  /**
   * Evicts a key if there is no room for `more` keys of a space. It is one of the policy with the
   * most keys: a policy that holds no more than its share is never that, as `incoming` counts with
   * the keys that are about to be added.
   */
  #evictFor(incoming: PolicyTable, more: 0 | 1, nowMs: number): void {
    if (this.size + more <= this.#maxKeys) return;
    const sizeOf = (table: PolicyTable): number =>
      table.size && table.size + (table === incoming ? more : 0);
    let largest = incoming;
    for (const table of this.#spaces.values()) if (sizeOf(table) > sizeOf(largest)) largest = table;
    if (!largest.evict(nowMs)) return;
    this.evicted++;
    const { guaranteedKeys } = this;
    this.#onEviction?.({ policy: largest.name, guaranteedKeys });
  }
}

/** A store in this process's memory, for a limiter that is not shared with other processes. */
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
