/**
 * The memory store: one space of keys for each policy, one cap on the keys of all.
 *
 * No timer runs. A key that has expired is overwritten when it comes back, and for each new key a
 * few rows are looked at and the expired ones forgotten. When the cap is reached a sample of keys
 * is looked at: an expired one goes first, otherwise the one that has used the least of its limit.
 * The newest key of the same policy is always in the sample, so a flood of throw-away keys pushes
 * out throw-away keys, and never one that is at its limit.
 */
import type { Terms } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { jointDecision, type Quote } from '../../decision.ts';
import { checkFields, expected } from '../../errors.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, SyncStore } from '../../store.ts';
import { isWide, type Room, Space } from './space.ts';

export interface MemoryStoreOptions {
  /** The most keys held, over all policies. Default 1,000,000, which is about 40 MB. */
  readonly maxKeys?: number;
}

const DEFAULT_MAX_KEYS = 1_000_000;
/** The index numbers its rows in 31 bits, and is at most three quarters full. */
const MOST_KEYS = 2 ** 29;
/** Keys compared when one must go. */
const SAMPLED = 16;

class MemoryStore implements SyncStore, Room {
  readonly #maxKeys: number;
  /** Policies that mean the same counters, such as before and after a reload, share a space. */
  readonly #spaces = new Map<string, Space>();
  readonly #spaceOfPolicy = new WeakMap<Policy, Space>();
  #held = 0;

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#held;
  }

  open(policy: Policy): Space {
    let space = this.#spaceOfPolicy.get(policy);
    if (space === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const id = JSON.stringify([name, algorithm, windowMs, bucketMs, isWide(policy)]);
      space = this.#spaces.get(id) ?? new Space(policy, this);
      this.#spaces.set(id, space);
      this.#spaceOfPolicy.set(policy, space);
    }
    return space;
  }

  decideSync({ limits, peek }: Check, nowMs: number): Quote {
    const ask = (way: 'takeSync' | 'peekSync'): Quote[] =>
      limits.map(({ policy, terms, key, cost }) => this.open(policy)[way](terms, key, cost, nowMs));
    if (limits.length === 1) return ask(peek ? 'peekSync' : 'takeSync')[0];
    // Nothing is charged before all have said yes, and nothing can say no after that.
    const quotes = ask('peekSync');
    const taken = !peek && quotes.every((quote) => quote.allowed);
    return jointDecision(taken ? ask('takeSync') : quotes, taken);
  }

  adjustSync(adjustment: Adjustment, nowMs: number): number {
    return this.open(adjustment.policy).adjust(adjustment, nowMs);
  }

  resetSync(policy: Policy, key: string): void {
    if (this.open(policy).reset(key)) this.#held--;
  }

  inspectSync(policy: Policy, terms: Terms, key: string, nowMs: number): KeyState | undefined {
    return this.open(policy).inspect(terms, key, nowMs);
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

  /** Nothing to let go of: the memory goes with the store. */
  async close(): Promise<void> {}

  makeRoom(space: Space, nowMs: number): void {
    const before = space.size;
    space.sweep(nowMs);
    this.#held += space.size - before;
    if (this.#held >= this.#maxKeys) this.#evict(space, nowMs);
    this.#held++;
  }

  /** Forgets an expired key of a sample, or else the one that has used the least. */
  #evict(incoming: Space, nowMs: number): void {
    let least = { space: incoming, row: -1, use: Number.POSITIVE_INFINITY };
    for (let drawn = 0; drawn <= SAMPLED && least.use >= 0; drawn++) {
      // The last one drawn is the newest of the incoming key's own policy.
      let space = incoming;
      let row = incoming.size - 1;
      if (drawn < SAMPLED || row < 0) [space, row] = this.#draw();
      const use = space.isExpired(row, nowMs) ? -1 : space.useOf(row, nowMs);
      if (use < least.use) least = { space, row, use };
    }
    least.space.forget(least.row);
    this.#held--;
  }

  /** Any key, each with the same chance. */
  #draw(): [Space, row: number] {
    let row = Math.floor(Math.random() * this.#held);
    for (const space of this.#spaces.values()) {
      if (row < space.size) return [space, row];
      row -= space.size;
    }
    return this.#draw();
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
