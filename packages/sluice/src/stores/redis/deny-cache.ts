/**
 * Caches denials, so that a client that retries at a full limit causes no load on Redis.
 *
 * A denial with a wait of t ms stays valid for t ms, unless a charge is refunded or the key is
 * reset. A refund or reset by this process deletes the cached denial. A refund or reset by another
 * process takes effect after at most `maxMs`. Only calls with the same cost are denied from the
 * cache: a smaller cost may be allowed, and a larger cost has to wait longer.
 *
 * A denial by a block is cached until the block has ended, because the next denial starts another
 * one. Concurrency limits are not cached, because other processes release their holds.
 *
 * With leases, other processes return units often, so a denial is cached for 1/64 of the window at
 * most. At a full limit of a hot key, units become free all the time, and processes borrow them. A
 * process that also requests them repeats a denial for 1/32 of the window. Otherwise Redis would
 * decide all calls above the limit.
 *
 * The cache entry expires t ms after the command was sent, which is before the limit in Redis has
 * room again. The returned wait counts from the arrival of the reply, so a retry after that wait
 * succeeds.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, DecisionRecord, PeekRecord } from '../../decision.ts';
import type { Limit } from '../../store.ts';

interface Denial {
  readonly result: CheckResult;
  readonly params: LimitParams;
  /** When the reply was received, by the system clock. */
  readonly receivedMs: number;
  /** When this cache entry expires, by the system clock. */
  readonly untilMs: number;
  /** The same for hot keys with leases. Not before `untilMs`. */
  readonly hotUntilMs: number;
}

class CachedDecision extends DecisionRecord {
  readonly cached = true;
}

class CachedPeek extends PeekRecord {
  readonly cached = true;
}

export class DenyCache {
  readonly #maxMs: number;
  readonly #maxKeys: number;
  readonly #denials = new Map<string, Denial>();

  constructor(maxMs: number, maxKeys: number) {
    this.#maxMs = maxMs;
    this.#maxKeys = maxKeys;
  }

  /** Returns the cached denial of a limit, with its times reduced by its age, or undefined. */
  find(
    key: string,
    { policy, params, cost, key: text }: Limit,
    peek: boolean,
    isHot = false,
  ): CheckResult | undefined {
    const denial = this.#denials.get(key);
    if (denial === undefined) return undefined;
    const { result, receivedMs, untilMs, hotUntilMs } = denial;
    const nowMs = systemClock.now();
    if (nowMs >= hotUntilMs || nowMs < receivedMs || !isSame(denial.params, params)) {
      this.#denials.delete(key);
      return undefined;
    }
    if (cost !== result.cost || (nowMs >= untilMs && !isHot)) return undefined;
    const elapsedMs = nowMs - receivedMs;
    const kind = peek ? CachedPeek : CachedDecision;
    // A hot key is not sent to Redis before `hotUntilMs`, so the same call is denied until then.
    const repeatedMs = isHot ? Math.ceil(hotUntilMs - nowMs) : 1;
    const waitMs = Math.max(result.retryAfterMs - elapsedMs, repeatedMs);
    const resetAfterMs = Math.max(result.resetAfterMs - elapsedMs, waitMs);
    const rest = { free: result.remaining, resetAfterMs };
    const atMs = result.atMs + elapsedMs;
    const cached = new kind(policy.name, text, cost, params.capacity, waitMs, atMs, rest);
    const { blockedUntilMs } = result;
    return blockedUntilMs === undefined ? cached : Object.assign(cached, { blockedUntilMs });
  }

  /** Caches a denial. `sentMs` is when its command was sent, by the system clock. */
  add(key: string, { policy, params }: Limit, result: CheckResult, sentMs: number): void {
    const { blockedUntilMs = 0, atMs } = result;
    const receivedMs = systemClock.now();
    const lastsMs = policy.block ? blockedUntilMs - atMs : result.retryAfterMs;
    const maxMs = policy.lease ? Math.min(this.#maxMs, policy.windowMs / 64) : this.#maxMs;
    const untilMs = sentMs + Math.min(lastsMs, maxMs);
    const hotUntilMs = policy.lease ? Math.max(untilMs, sentMs + policy.windowMs / 32) : untilMs;
    if (hotUntilMs <= receivedMs) return;
    this.#denials.delete(key);
    if (this.#denials.size >= this.#maxKeys) {
      this.#denials.delete(this.#denials.keys().next().value!);
    }
    this.#denials.set(key, { result, params, receivedMs, untilMs, hotUntilMs });
  }

  delete(key: string): void {
    this.#denials.delete(key);
  }
}

function isSame(a: LimitParams, b: LimitParams): boolean {
  return a === b || (a.limit === b.limit && a.capacity === b.capacity);
}
