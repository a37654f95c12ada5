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
import { checkFields, expected } from '../../errors.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, Limit, SyncStore } from '../../store.ts';
import { describeState } from './describe.ts';
import { isWide, Space } from './space.ts';

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
  private readonly maxKeys: number;
  /** Policies that mean the same counters, such as after a reload, share a space. */
  private readonly spaces = new Map<string, Space>();
  private readonly spaceOfPolicy = new WeakMap<Policy, Space>();
  /** The policy asked for last, and its space: most callers ask for one again and again. */
  private lastPolicy: Policy | undefined;
  private lastSpace: Space | undefined;
  private held = 0;

  constructor(maxKeys: number) {
    this.maxKeys = maxKeys;
  }

  get size(): number {
    return this.held;
  }

  decideOneSync(
    policy: Policy,
    terms: Terms,
    key: string,
    cost: number,
    peek: boolean,
    nowMs: number,
  ): Quote {
    const space = this.spaceOf(policy);
    const state = space.read(key, terms, nowMs);
    const { algorithm, timeMs } = space;
    const free = algorithm.free(state, terms, timeMs);
    if (peek || free < cost) return this.quote(space, state, policy, terms, key, cost, free);
    if (!space.isHeld) this.makeRoom(space, nowMs);
    const resetAfterMs = algorithm.charge(space.claim(state, terms), terms, timeMs, cost);
    return new DecisionRecord(
      policy.name,
      key,
      cost,
      true,
      terms.capacity,
      free - cost,
      0,
      resetAfterMs,
      timeMs,
      true,
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
    const space = this.spaceOf(policy);
    const state = space.read(charge.key, terms, nowMs);
    if (state === space.blank) return 0;
    return space.algorithm.adjust(state, terms, space.timeMs, charge.atMs, delta);
  }

  resetSync(policy: Policy, key: string): void {
    const space = this.spaceOf(policy);
    const row = space.table.find(key);
    if (row < 0) return;
    space.forget(row);
    this.held--;
  }

  inspectSync(policy: Policy, terms: Terms, key: string, nowMs: number): KeyState | undefined {
    const space = this.spaceOf(policy);
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
    this.spaces.clear();
    this.lastPolicy = undefined;
    this.lastSpace = undefined;
    this.held = 0;
  }

  /** The answer to a peek or a denial, about the key that was read last. */
  private quote(
    space: Space,
    state: State,
    policy: Policy,
    terms: Terms,
    key: string,
    cost: number,
    free: number,
  ): Quote {
    const { algorithm, timeMs } = space;
    return new DecisionRecord(
      policy.name,
      key,
      cost,
      free >= cost,
      terms.capacity,
      Math.max(free, 0),
      free >= cost ? 0 : algorithm.retryAfterMs(state, terms, timeMs, cost),
      algorithm.resetAfterMs(state, terms, timeMs),
      timeMs,
      false,
    );
  }

  private spaceOf(policy: Policy): Space {
    return policy === this.lastPolicy ? this.lastSpace! : this.openSpace(policy);
  }

  private openSpace(policy: Policy): Space {
    let space = this.spaceOfPolicy.get(policy);
    if (space === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const id = JSON.stringify([name, algorithm, windowMs, bucketMs, isWide(policy)]);
      space = this.spaces.get(id) ?? new Space(policy);
      this.spaces.set(id, space);
      this.spaceOfPolicy.set(policy, space);
    }
    this.lastPolicy = policy;
    this.lastSpace = space;
    return space;
  }

  /** Sees to it that one more key may come into `space`. */
  private makeRoom(space: Space, nowMs: number): void {
    const before = space.table.size;
    space.sweep(nowMs);
    this.held += space.table.size - before;
    if (this.held >= this.maxKeys) this.evict(space, nowMs);
    this.held++;
  }

  /** Forgets the expired keys of a sample, or else the one that has used the least. */
  private evict(incoming: Space, nowMs: number): void {
    let least: Candidate | undefined;
    for (let drawn = 0; drawn <= SAMPLED; drawn++) {
      const newest = drawn === SAMPLED && incoming.table.size > 0;
      const { space, row } = newest
        ? { space: incoming, row: incoming.table.size - 1 }
        : this.draw(Math.floor(Math.random() * this.held));
      if (space.isExpired(row, nowMs)) {
        space.forget(row);
        this.held--;
        return;
      }
      const use = space.useOf(row, nowMs);
      if (least === undefined || use < least.use) least = { space, row, use };
    }
    least!.space.forget(least!.row);
    this.held--;
  }

  /** The key with that number, counted over all spaces. */
  private draw(number: number): { space: Space; row: number } {
    for (const space of this.spaces.values()) {
      if (number < space.table.size) return { space, row: number };
      number -= space.table.size;
    }
    throw new RangeError('the count of keys is off');
  }
}

/** A store in this process's memory, for a limiter that is not shared with other processes. */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  checkFields(options, ['maxKeys']);
  const { maxKeys = DEFAULT_MAX_KEYS } = options;
  if (!Number.isSafeInteger(maxKeys) || maxKeys < 1 || maxKeys > MOST_KEYS) {
    const what = `\`maxKeys\` to be an integer from 1 to ${MOST_KEYS}`;
    throw expected('ERR_INVALID_OPTION', what, maxKeys);
  }
  return new MemoryStore(maxKeys);
}
