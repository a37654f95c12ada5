/**
 * The memory store: one space of keys for each policy, one cap on the keys of all.
 *
 * No timer runs. A key that has expired is overwritten when it comes back, and for each new key a
 * few rows are looked at and the expired ones forgotten. When the cap is reached a sample of keys
 * is looked at: the expired go first, otherwise the one that has used the least of its limit. The
 * newest key of the same policy is always in the sample, so a flood of throw-away keys pushes out
 * throw-away keys, and never one that is at its limit.
 */
import type { State, Terms } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { DecisionRecord, jointDecision, type LimitDecision, type Quote } from '../../decision.ts';
import { expected } from '../../errors.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, Limit, SyncStore } from '../../store.ts';
import { describeState } from './describe.ts';
import { Space } from './space.ts';

export interface MemoryStoreOptions {
  /** The most keys held, over all policies. Default 1,000,000, which is about 40 MB. */
  readonly maxKeys?: number;
}

const DEFAULT_MAX_KEYS = 1_000_000;
/** The index numbers its rows in 31 bits, and is at most three quarters full. */
const MOST_KEYS = 2 ** 29;
/** Keys compared when one must go. */
const SAMPLED = 16;

interface Candidate {
  readonly space: Space;
  readonly row: number;
  readonly use: number;
}

class MemoryStore implements SyncStore {
  readonly #maxKeys: number;
  /** Policies that mean the same counters, such as after a reload, share a space. */
  readonly #spaces = new Map<string, Space>();
  readonly #spaceOfPolicy = new WeakMap<Policy, Space>();
  #lastPolicy: Policy | undefined;
  #lastSpace: Space | undefined;
  #size = 0;

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#size;
  }

  decideOneSync(
    policy: Policy,
    terms: Terms,
    key: string,
    cost: number,
    peek: boolean,
    nowMs: number,
  ): Quote {
    const space = this.#spaceOf(policy);
    const { algorithm } = space;
    let state = space.read(key, terms, nowMs);
    const { timeMs } = space;
    const free = algorithm.free(state, terms, timeMs);
    const fits = free >= cost;
    let remaining = free > 0 ? free : 0;
    let retryAfterMs = 0;
    if (!fits) retryAfterMs = algorithm.retryAfterMs(state, terms, timeMs, cost);
    else if (!peek) {
      state = this.#charge(space, state, terms, cost, nowMs);
      remaining -= cost;
    }
    const resetAfterMs = algorithm.resetAfterMs(state, terms, timeMs);
    return new DecisionRecord(
      policy.name,
      key,
      cost,
      fits,
      terms.capacity,
      remaining,
      retryAfterMs,
      resetAfterMs,
      timeMs,
      fits && !peek,
    );
  }

  decideSync({ limits, peek }: Check, nowMs: number): Quote {
    if (limits.length === 1) {
      const { policy, terms, key, cost } = limits[0];
      return this.decideOneSync(policy, terms, key, cost, peek, nowMs);
    }
    const ask = ({ policy, terms, key, cost }: Limit): LimitDecision =>
      this.decideOneSync(policy, terms, key, cost, true, nowMs);
    const quotes = limits.map(ask);
    const allowed = quotes.every((quote) => quote.allowed);
    // Nothing is charged before all have said yes, and nothing can say no after that.
    const take = ({ policy, terms, key, cost }: Limit): LimitDecision =>
      this.decideOneSync(policy, terms, key, cost, false, nowMs);
    const charged = allowed && !peek;
    return jointDecision(charged ? limits.map(take) : quotes, charged);
  }

  adjustSync({ policy, terms, charge, delta }: Adjustment, nowMs: number): number {
    const space = this.#spaceOf(policy);
    const state = space.read(charge.key, terms, nowMs);
    if (state === space.blank) return 0;
    return space.algorithm.adjust(state, terms, space.timeMs, charge.atMs, delta);
  }

  resetSync(policy: Policy, key: string): void {
    const space = this.#spaceOf(policy);
    const row = space.table.find(key);
    if (row < 0) return;
    space.forget(row);
    this.#size--;
  }

  inspectSync(policy: Policy, terms: Terms, key: string, nowMs: number): KeyState | undefined {
    const space = this.#spaceOf(policy);
    const state = space.read(key, terms, nowMs);
    if (state === space.blank) return undefined;
    return describeState(policy, space.algorithm, state, terms, space.timeMs);
  }

  async decide(checks: readonly Check[], nowMs = systemClock.now()): Promise<readonly Quote[]> {
    return checks.map((check) => this.decideSync(check, nowMs));
  }

  async adjust(
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
  ): Promise<readonly number[]> {
    return adjustments.map((adjustment) => this.adjustSync(adjustment, nowMs));
  }

  async reset(policy: Policy, key: string): Promise<void> {
    this.resetSync(policy, key);
  }

  async inspect(
    policy: Policy,
    terms: Terms,
    key: string,
    nowMs = systemClock.now(),
  ): Promise<KeyState | undefined> {
    return this.inspectSync(policy, terms, key, nowMs);
  }

  async close(): Promise<void> {
    this.#spaces.clear();
    this.#lastPolicy = undefined;
    this.#lastSpace = undefined;
    this.#size = 0;
  }

  #charge(space: Space, read: State, terms: Terms, cost: number, nowMs: number): State {
    if (!space.isHeld) this.#makeRoom(space, nowMs);
    const state = space.claim(read, terms);
    space.algorithm.charge(state, terms, space.timeMs, cost);
    return state;
  }

  #spaceOf(policy: Policy): Space {
    if (policy === this.#lastPolicy) return this.#lastSpace!;
    let space = this.#spaceOfPolicy.get(policy);
    if (space === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const id = JSON.stringify([name, algorithm, windowMs, bucketMs]);
      space = this.#spaces.get(id) ?? new Space(policy);
      this.#spaces.set(id, space);
      this.#spaceOfPolicy.set(policy, space);
    }
    this.#lastPolicy = policy;
    this.#lastSpace = space;
    return space;
  }

  /** Sees to it that one more key may come into `space`. */
  #makeRoom(space: Space, nowMs: number): void {
    const before = space.table.size;
    space.sweep(nowMs);
    this.#size += space.table.size - before;
    if (this.#size >= this.#maxKeys) this.#evict(space, nowMs);
    this.#size++;
  }

  /** Forgets the expired keys of a sample, or else the one that has used the least. */
  #evict(incoming: Space, nowMs: number): void {
    let least: Candidate | undefined;
    for (let drawn = 0; drawn <= SAMPLED; drawn++) {
      const newest = drawn === SAMPLED && incoming.table.size > 0;
      const { space, row } = newest
        ? { space: incoming, row: incoming.table.size - 1 }
        : this.#draw(Math.floor(Math.random() * this.#size));
      if (space.isExpired(row, nowMs)) {
        space.forget(row);
        this.#size--;
        return;
      }
      const use = space.useOf(row, nowMs);
      if (least === undefined || use < least.use) least = { space, row, use };
    }
    least!.space.forget(least!.row);
    this.#size--;
  }

  /** The key with that number, counted over all spaces. */
  #draw(number: number): { space: Space; row: number } {
    for (const space of this.#spaces.values()) {
      if (number < space.table.size) return { space, row: number };
      number -= space.table.size;
    }
    throw new RangeError('the count of keys is off');
  }
}

/** A store in this process's memory, for a limiter that is not shared with other processes. */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  const { maxKeys = DEFAULT_MAX_KEYS, ...stray } = options;
  const unknown = Object.keys(stray)[0];
  if (unknown !== undefined) {
    throw expected('ERR_INVALID_OPTION', '`memoryStore` to be given only `maxKeys`', unknown);
  }
  if (!Number.isSafeInteger(maxKeys) || maxKeys < 1 || maxKeys > MOST_KEYS) {
    const what = `\`maxKeys\` to be an integer from 1 to ${MOST_KEYS}`;
    throw expected('ERR_INVALID_OPTION', what, maxKeys);
  }
  return new MemoryStore(maxKeys);
}
