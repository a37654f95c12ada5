/**
 * Denials that are still true, so that a client that hammers at a full limit does not reach Redis.
 *
 * A key that was denied cost c until t is denied cost c until t, whatever else happens, unless
 * something is given back: and what this process gives back clears its denials, while what others
 * give back is missed for as long as `longestMs` at the most. Larger costs are denied as well, but
 * for longer, and how long only Redis knows. A denial is kept
 * from when the question was sent, so it ends before the one that Redis meant; and the wait that
 * is told counts from when the answer came, so whoever waits that long is served.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, DecisionRecord, PeekRecord } from '../../decision.ts';
import type { Limit } from '../../store.ts';

interface Denial {
  readonly result: CheckResult;
  readonly params: LimitParams;
  readonly receivedMs: number;
  readonly untilMs: number;
}

/** A denial that is told again. */
class CachedDecision extends DecisionRecord {
  readonly cached = true;
}

class CachedPeek extends PeekRecord {
  readonly cached = true;
}

export class DenyCache {
  readonly #longestMs: number;
  readonly #mostKeys: number;
  readonly #denials = new Map<string, Denial>();

  constructor(longestMs: number, mostKeys: number) {
    this.#longestMs = longestMs;
    this.#mostKeys = mostKeys;
  }

  /** The denial that still holds for this limit, if there is one. */
  find(
    key: string,
    { policy, params, cost, key: text }: Limit,
    peek: boolean,
  ): CheckResult | undefined {
    const denial = this.#denials.get(key);
    if (denial === undefined) return undefined;
    const { result, receivedMs, untilMs } = denial;
    const nowMs = systemClock.now();
    if (nowMs >= untilMs || nowMs < receivedMs || !isSame(denial.params, params)) {
      this.#denials.delete(key);
      return undefined;
    }
    if (cost !== result.cost) return undefined;
    const elapsedMs = nowMs - receivedMs;
    const kind = peek ? CachedPeek : CachedDecision;
    const waitMs = Math.max(result.retryAfterMs - elapsedMs, 1);
    const resetAfterMs = Math.max(result.resetAfterMs - elapsedMs, waitMs);
    return new kind(policy.name, text, cost, params.capacity, waitMs, result.atMs + elapsedMs, {
      free: result.remaining,
      resetAfterMs,
    });
  }

  /** Remembers a denial. `sentMs` is when the question was sent. */
  add(key: string, params: LimitParams, result: CheckResult, sentMs: number): void {
    const receivedMs = systemClock.now();
    const untilMs = sentMs + Math.min(result.retryAfterMs, this.#longestMs);
    if (untilMs <= receivedMs) return;
    this.#denials.delete(key);
    if (this.#denials.size >= this.#mostKeys) {
      this.#denials.delete(this.#denials.keys().next().value!);
    }
    this.#denials.set(key, { result, params, receivedMs, untilMs });
  }

  forget(key: string): void {
    this.#denials.delete(key);
  }
}

function isSame(a: LimitParams, b: LimitParams): boolean {
  return a === b || (a.limit === b.limit && a.capacity === b.capacity);
}
