/**
 * The memory store: one space of keys for each policy, one cap on the keys of all.
 *
 * No timer runs. A key that has expired is overwritten when it comes back, and for each new key a
 * few rows are looked at and the expired ones forgotten. When the cap is reached the key of a
 * sample goes that has used the least of its limit: the expired first, as they have used nothing.
 * A key at its limit goes only if all of the sample are, and the newest key is too; so a flood of
 * throw-away keys pushes out throw-away keys. Where the limit is a function of the key, use is
 * measured against the largest limit seen.
 */
import type { Terms } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { jointDecision, type Quote } from '../../decision.ts';
import { checkFields, expected, isInteger } from '../../errors.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, Limit, SyncStore } from '../../store.ts';
import { isWide, type Room, Space } from './space.ts';

export interface MemoryStoreOptions {
  /** The most keys held, over all policies. Default 1,000,000, which is about 43 MB. */
  readonly maxKeys?: number;
}

const DEFAULT_MAX_KEYS = 1_000_000;
/** A table numbers its places in 30 bits, and up to a third of them are empty. */
const MOST_KEYS = 2 ** 29;
/** Keys compared when one must go. */
const SAMPLED = 16;

class MemoryStore implements SyncStore, Room {
  readonly #maxKeys: number;
  /** Policies that mean the same counters, such as before and after a reload, share a space. */
  readonly #spaces = new Map<string, Space>();
  readonly #spaceOfPolicy = new WeakMap<Policy, Space>();
  #held = 0;
  evicted: number;
  /** What was admitted under an id, in order of arrival. */
  readonly #answers = new Map<string, readonly [Quote, untilMs: number]>();
  /** Goes round the spaces, to sweep one after the other. */
  #hand = this.#spaces.values();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
    this.evicted = 0;
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

  decideSync({ limits, peek, id }: Check, nowMs: number): Quote {
    if (id !== undefined) return this.#decideOnce(limits, id, nowMs);
    const ask = (way: 'takeSync' | 'peekSync'): Quote[] =>
      limits.map(({ policy, terms, key, cost }) => this.open(policy)[way](terms, key, cost, nowMs));
    if (limits.length === 1) return ask(peek ? 'peekSync' : 'takeSync')[0];
    // Nothing is charged before all have said yes, and nothing can say no after that.
    const quotes = ask('peekSync');
    const taken = !peek && quotes.every((quote) => quote.allowed);
    return jointDecision(taken ? ask('takeSync') : quotes, taken);
  }

  /** Answers again what was admitted under the same id, for as long as its longest window. */
  #decideOnce(limits: readonly Limit[], id: string, nowMs: number): Quote {
    const name = JSON.stringify([
      id,
      limits.map((each) => [each.policy.name, each.key, each.cost]),
    ]);
    const held = this.#answers.get(name);
    if (held !== undefined && held[1] > nowMs) return held[0];
    const quote = this.decideSync({ limits, peek: false }, nowMs);
    if (!quote.allowed) return quote;
    for (const [other, [, untilMs]] of this.#answers) {
      if (untilMs > nowMs && this.#answers.size < this.#maxKeys) break;
      this.#answers.delete(other);
    }
    const untilMs = nowMs + Math.max(...limits.map(({ policy }) => policy.windowMs));
    this.#answers.set(name, [quote, untilMs]);
    return quote;
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

  /** Nothing to let go of: the memory goes with the store. */
  async close(): Promise<void> {}

  makeRoom(space: Space, nowMs: number): void {
    this.#sweep(space, nowMs);
    // Policies that get no new keys any more have theirs forgotten too, one policy at a time.
    const next = this.#hand.next();
    if (next.done) this.#hand = this.#spaces.values();
    else if (next.value !== space) this.#sweep(next.value, nowMs);
    if (this.#held >= this.#maxKeys) this.#evict(space, nowMs);
    this.#held++;
  }

  #sweep(space: Space, nowMs: number): void {
    const before = space.table.size;
    space.sweep(nowMs);
    this.#held += space.table.size - before;
  }

  /** Forgets the key of a sample that has used the least of its limit; the expired have used 0. */
  #evict(incoming: Space, nowMs: number): void {
    let space = incoming;
    let row = incoming.table.newest();
    // Rather than a key at its limit the newest goes, unless it is at its limit itself.
    let least = row >= 0 && incoming.useOf(row, nowMs) < 1 ? 1 : Number.POSITIVE_INFINITY;
    for (let drawn = 0; drawn < SAMPLED; drawn++) {
      const other = this.#draw();
      const otherRow = other.table.draw();
      const use = other.useOf(otherRow, nowMs);
      if (use < least) [space, row, least] = [other, otherRow, use];
    }
    space.forget(row);
    if (least > 0) this.evicted++;
    this.#held--;
  }

  /** Any space, with a chance in proportion to its keys. */
  #draw(): Space {
    let key = Math.random() * this.#held;
    for (const space of this.#spaces.values()) {
      key -= space.table.size;
      if (key < 0) return space;
    }
    return this.#draw();
  }
}

/** A store in this process's memory, for a limiter that is not shared with other processes. */
export function memoryStore(options: MemoryStoreOptions = {}): SyncStore {
  checkFields(options, ['maxKeys']);
  const { maxKeys = DEFAULT_MAX_KEYS } = options;
  if (!isInteger(maxKeys, 1) || maxKeys > MOST_KEYS) {
    const what = `\`maxKeys\` to be an integer from 1 to ${MOST_KEYS}`;
    throw expected('ERR_INVALID_OPTION', what, maxKeys);
  }
  return new MemoryStore(maxKeys);
}
