/**
 * For those who call somebody else's API: spends a budget before each call, waits or gives up as
 * told, and believes what the API itself says about when to come back.
 */
import type { Limiter, Policies } from '../api.ts';
import { type Clock, systemClock } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { checkFields, expected } from '../errors.ts';
import type { Key } from '../key.ts';
import { parseRateLimit } from './parse-rate-limit.ts';

type Fetch = typeof globalThis.fetch;
type Input = Parameters<Fetch>[0];
type Init = Parameters<Fetch>[1];

export interface LimitFetchOptions {
  /** Which policy of the limiter is spent. */
  readonly policy: string;
  /** Whose budget it is, for each call. Default: the host that is called. */
  readonly key?: Key | ((input: Input, init: Init) => Key);
  /** What a call costs. Default 1. */
  readonly cost?: number | ((input: Input, init: Init) => number);
  /** How long a call may wait for its turn, in ms. Default 0: it does not wait. */
  readonly maxWaitMs?: number;
  /**
   * What becomes of a call that may not be made: an answer of 429 with `Retry-After` as if the API
   * had refused it (default), or an error with the code `ERR_RATE_LIMITED`.
   */
  readonly onDenied?: 'respond' | 'throw';
}

const FIELDS = ['policy', 'key', 'cost', 'maxWaitMs', 'onDenied'];
const TOO_MANY = 429;
const UNAVAILABLE = 503;
/** More keys than that are not remembered: the oldest word is forgotten first. */
const MAX_HOLDS = 10_000;

/** Until when the other side wants to be left alone, by key. */
class Holds {
  readonly #clock: Clock;
  readonly #untilMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  waitMs(name: string): number {
    const waitMs = (this.#untilMs.get(name) ?? 0) - this.#clock.now();
    if (waitMs <= 0) this.#untilMs.delete(name);
    return Math.max(waitMs, 0);
  }

  /** Takes an answer's word for it: a refusal, or a budget there that is used up. */
  learn(name: string, response: Response): void {
    const nowMs = this.#clock.now();
    const { retryAfterMs, limits } = parseRateLimit(response.headers, { nowMs });
    const isRefused = response.status === TOO_MANY || response.status === UNAVAILABLE;
    const waits = isRefused && retryAfterMs !== undefined ? [retryAfterMs] : [];
    for (const { remaining, resetAfterMs } of limits) {
      if (remaining === 0 && resetAfterMs !== undefined) waits.push(resetAfterMs);
    }
    if (waits.length === 0) return;
    const untilMs = Math.max(nowMs + Math.max(...waits), this.#untilMs.get(name) ?? 0);
    this.#untilMs.delete(name);
    this.#untilMs.set(name, untilMs);
    if (this.#untilMs.size > MAX_HOLDS) {
      this.#untilMs.delete(this.#untilMs.keys().next().value!);
    }
  }
}

function hostOf(input: Input): string {
  return new URL(input instanceof Request ? input.url : input).host;
}

/** The signal of a call, wherever it was given. */
const signalOf = (input: Input, init: Init): AbortSignal | undefined =>
  init?.signal ?? (input instanceof Request ? input.signal : undefined);

function pause(clock: Clock, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      stop();
      reject(signal!.reason);
    };
    const stop = clock.schedule(waitMs, () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    });
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/**
 * A `fetch` that keeps to a budget.
 *
 *     const limited = limitFetch(fetch, limiter, { policy: 'quota', maxWaitMs: 5000 });
 *     const response = await limited('https://api.example.com/items');
 */
export function limitFetch<P extends Policies>(
  fetch: Fetch,
  limiter: Limiter<P>,
  options: LimitFetchOptions & { readonly policy: keyof P & string },
): Fetch {
  checkFields(options, FIELDS);
  const { policy, key = hostOf, cost = 1, maxWaitMs = 0, onDenied = 'respond' } = options;
  if (onDenied !== 'respond' && onDenied !== 'throw') {
    throw expected('ERR_INVALID_OPTION', '`onDenied` to be respond or throw', onDenied);
  }
  const holds = new Holds(systemClock);

  return async (input, init) => {
    const whose = typeof key === 'function' ? key(input, init) : key;
    const name = JSON.stringify(whose);
    const signal = signalOf(input, init);
    const startMs = systemClock.now();
    const heldMs = holds.waitMs(name);
    if (heldMs > maxWaitMs) return refused(heldMs, onDenied);
    if (heldMs > 0) await pause(systemClock, heldMs, signal);
    const left = Math.max(maxWaitMs - (systemClock.now() - startMs), 0);
    const price = typeof cost === 'function' ? cost(input, init) : cost;
    const waiting = { cost: price, maxWaitMs: left, ...(signal && { signal }) };
    const decision: Decision = await limiter.acquire(policy, whose, waiting as never);
    if (!decision.allowed) return refused(decision.retryAfterMs, onDenied);
    const response = await fetch(input, init);
    holds.learn(name, response);
    return response;
  };
}

/** What the API would have said, had it been asked. */
function refused(waitMs: number, onDenied: 'respond' | 'throw'): Response {
  if (onDenied === 'throw') {
    const what = 'a call within the budget';
    const error = expected('ERR_RATE_LIMITED', what, `one that fits in ${waitMs} ms`);
    throw Object.assign(error, { retryAfterMs: waitMs });
  }
  const headers = { 'Retry-After': String(Math.ceil(waitMs / 1000)) };
  return new Response(null, { status: TOO_MANY, headers });
}
