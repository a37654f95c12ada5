/**
 * The keys of a policy with the `block` option: a table of their states, and a record for each key
 * that is blocked or was blocked recently. The record is kept for the policy's `forget` time after
 * the end of the block, because another block within this time may be longer. A record takes about
 * 220 bytes. If there are more than `maxBlocks` records, the oldest is deleted. Its key is then
 * limited by the window only.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, PeekRecord } from '../../decision.ts';
import type { BlockParams } from '../../policy.ts';
import type { Adjustment, KeyState } from '../../store.ts';
import type { LimitTable, PolicyTable } from './policy-table.ts';
import { Records, type TableRecord } from './records.ts';

/** `id` is the hash of the key. */
interface BlockRecord extends TableRecord {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The number of blocks in a row, without blocks that were started by `limiter.block`. */
  readonly count: number;
}

/** Returns the length of a block after `count` blocks in a row. */
function lengthOf({ forMs, factor, maxMs }: BlockParams, count: number): number {
  let ms = forMs;
  // Multiplies step by step: `factor ** count` could be inexact.
  if (factor > 1) for (let at = 0; at < count && ms < maxMs; at++) ms *= factor;
  return Math.min(ms, maxMs);
}

export class BlockTable implements LimitTable {
  readonly base: PolicyTable;
  readonly #windowMs: number;
  readonly #params: BlockParams;
  readonly #blocks: Records<BlockRecord>;

  constructor(windowMs: number, params: BlockParams, base: PolicyTable, maxBlocks: number) {
    this.base = base;
    this.#windowMs = windowMs;
    this.#params = params;
    base.records ??= new Records(maxBlocks);
    this.#blocks = base.records as Records<BlockRecord>;
  }

  takeSync(params: LimitParams, key: string, cost: number, nowMs = systemClock.now()): CheckResult {
    if (this.#find(key, nowMs) !== undefined) {
      const peeked = this.peekSync(params, key, cost, nowMs);
      if (peeked.blockedUntilMs !== undefined) return peeked;
    }
    const result = this.base.takeSync(params, key, cost, nowMs);
    return result.allowed ? result : this.onDenied(result);
  }

  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult {
    return this.#withBlock(this.base.peekSync(params, key, cost, nowMs));
  }

  /** Starts a block, unless one is running. Returns the result with the block. */
  onDenied(result: CheckResult): CheckResult {
    if (result.blockedUntilMs !== undefined) return result;
    const { key, atMs } = result;
    const count = this.#find(key, atMs)?.count ?? 0;
    this.#set(key, atMs, lengthOf(this.#params, count), count + 1);
    return this.#withBlock(result);
  }

  /** Blocks a key for `forMs`; 0 ends its block. */
  block(key: string, forMs: number, nowMs: number): void {
    if (forMs === 0) this.#blocks.delete(this.base.hashOf(key));
    else this.#set(key, nowMs, forMs, this.#find(key, nowMs)?.count ?? 0);
  }

  adjust(adjustment: Adjustment, nowMs: number): number {
    return this.base.adjust(adjustment, nowMs);
  }

  inspect(params: LimitParams, key: string, nowMs: number): KeyState | undefined {
    const block = this.#find(key, nowMs);
    const state = this.base.inspect(params, key, nowMs, block !== undefined);
    if (state === undefined || block === undefined) return state;
    const { remaining, resetAfterMs, blockedUntilMs } = this.peekSync(params, key, 0, nowMs);
    return { ...state, remaining, resetAfterMs, blockedUntilMs, blocks: block.count };
  }

  reset(key: string, nowMs: number): void {
    this.base.reset(key, nowMs);
    this.block(key, 0, nowMs);
  }

  /**
   * Returns the record of a key, or undefined if there is none that has an effect. Ignores a record
   * whose block begins more than a window after `timeMs`, because a wrong clock has written it.
   */
  #find(key: string, timeMs: number): BlockRecord | undefined {
    if (this.#blocks.size === 0) return undefined;
    const block = this.#blocks.get(this.base.hashOf(key));
    if (block === undefined || block.sinceMs - timeMs > this.#windowMs) return undefined;
    return timeMs - block.untilMs > this.#params.forgetMs ? undefined : block;
  }

  #set(key: string, sinceMs: number, forMs: number, count: number): void {
    const untilMs = sinceMs + forMs;
    const expiresMs = untilMs + this.#params.forgetMs + 1;
    this.#blocks.add({ id: this.base.hashOf(key), sinceMs, untilMs, count, expiresMs });
  }

  /** Adds the running block of a key to a result. */
  #withBlock(result: CheckResult): CheckResult {
    const { policy, key, cost, limit, atMs } = result;
    const blockedUntilMs = this.#find(key, atMs)?.untilMs ?? 0;
    const waitMs = blockedUntilMs - atMs;
    if (waitMs <= 0) return result;
    const retryAfterMs = Math.max(result.retryAfterMs, waitMs);
    const rest = { free: 0, resetAfterMs: Math.max(result.resetAfterMs, waitMs) };
    const blocked = new PeekRecord(policy, key, cost, limit, retryAfterMs, atMs, rest);
    return Object.assign(blocked, { blockedUntilMs });
  }
}
