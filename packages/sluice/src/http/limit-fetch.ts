/**
 * A rate-limited `fetch` for calling an API: charges a limit before each call, waits for capacity,
 * and obeys the API's own `Retry-After` and rate-limit headers.
 */
import type { Limiter, Policies } from '../api.ts';
import { type Clock, sleep, systemClock } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { expected } from '../errors.ts';
import type { Key } from '../key.ts';
import { checkOptionNames } from './check-options.ts';
import { parseRateLimit } from './parse-rate-limit.ts';

type Fetch = typeof globalThis.fetch;
type Input = Parameters<Fetch>[0];
type Init = Parameters<Fetch>[1];

export interface LimitFetchOptions {
  /**
   * The limiter's policy to charge. Required.
   *
   * @example policy: 'quota'
   */
  readonly policy: string;
  /**
   * The key to charge. Default: the host of the URL.
   *
   * @example key: 'tenant-1'
   */
  readonly key?: Key | ((input: Input, init: Init) => Key | Promise<Key>);
  /**
   * The cost of a call. Default 1. A call of cost 0 is not charged.
   *
   * @example cost: (input, init) => (init?.method === 'POST' ? 5 : 1)
   */
  readonly cost?: number | ((input: Input, init: Init) => number | Promise<number>);
  /**
   * The longest time to wait for capacity, in ms. Default 0: no waiting.
   *
   * @example maxWaitMs: 5000
   */
  readonly maxWaitMs?: number;
  /**
   * The result of a denied call: `'respond'` returns a 429 response with `Retry-After`, `'throw'`
   * throws an error with the code `ERR_RATE_LIMITED`. Default `'respond'`.
   *
   * @example onDenied: 'throw'
   */
  readonly onDenied?: 'respond' | 'throw';
}

const FIELDS = ['policy', 'key', 'cost', 'maxWaitMs', 'onDenied'];
const TOO_MANY = 429;
const UNAVAILABLE = 503;
/** Maximum number of keys with a pause. Above it, the oldest pause is evicted. */
const MAX_PAUSES = 10_000;

/** Stores for each key when calls may be sent again, if a response of the API requires a pause. */
class Pauses {
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

  /** Pauses calls if the API denied this call, or if a limit of the API has nothing remaining. */
  update(name: string, response: Response): void {
    const nowMs = this.#clock.now();
    const { retryAfterMs, limits } = parseRateLimit(response.headers, { nowMs });
    const isDenied = response.status === TOO_MANY || response.status === UNAVAILABLE;
    const waits = isDenied && retryAfterMs !== undefined ? [retryAfterMs] : [];
    for (const { remaining, resetAfterMs } of limits) {
      if (remaining === 0 && resetAfterMs !== undefined) waits.push(resetAfterMs);
    }
    if (waits.length === 0) return;
    const untilMs = Math.max(nowMs + Math.max(...waits), this.#untilMs.get(name) ?? 0);
    this.#untilMs.delete(name);
    this.#untilMs.set(name, untilMs);
    if (this.#untilMs.size > MAX_PAUSES) {
      this.#untilMs.delete(this.#untilMs.keys().next().value!);
    }
  }
}

function hostOf(input: Input): string {
  return new URL(input instanceof Request ? input.url : input).host;
}

const signalOf = (input: Input, init: Init): AbortSignal | undefined =>
  init?.signal ?? (input instanceof Request ? input.signal : undefined);

/**
 * Returns a `fetch` that charges a limit before each call.
 *
 *     const limited = limitFetch(fetch, limiter, { policy: 'quota', maxWaitMs: 5000 });
 *     const response = await limited('https://api.example.com/items');
 */
export function limitFetch<P extends Policies>(
  fetch: Fetch,
  limiter: Limiter<P>,
  options: LimitFetchOptions & { readonly policy: keyof P & string },
): Fetch {
  checkOptionNames(options, FIELDS);
  const { policy, key = hostOf, cost = 1, maxWaitMs = 0, onDenied = 'respond' } = options;
  if (onDenied !== 'respond' && onDenied !== 'throw') {
    throw expected('ERR_INVALID_OPTION', "`onDenied` to be 'respond' or 'throw'", onDenied);
  }
  const pauses = new Pauses(systemClock);

  return async (input, init) => {
    const limitKey = typeof key === 'function' ? await key(input, init) : key;
    const name = JSON.stringify(limitKey);
    const signal = signalOf(input, init);
    const startMs = systemClock.now();
    const pauseMs = pauses.waitMs(name);
    if (pauseMs > maxWaitMs) return denialResponse(pauseMs, onDenied);
    if (pauseMs > 0) await sleep(systemClock, pauseMs, signal);
    const callCost = typeof cost === 'function' ? await cost(input, init) : cost;
    const remainingMs = Math.max(maxWaitMs - (systemClock.now() - startMs), 0);
    const waiting = { cost: callCost, maxWaitMs: remainingMs, ...(signal && { signal }) };
    if (callCost !== 0) {
      const decision: Decision = await limiter.acquire(policy, limitKey, waiting as never);
      if (!decision.allowed) return denialResponse(decision.retryAfterMs, onDenied);
    }
    const response = await fetch(input, init);
    pauses.update(name, response);
    return response;
  };
}

/** Returns a 429 response. Throws instead if `onDenied` is `throw`. */
function denialResponse(waitMs: number, onDenied: 'respond' | 'throw'): Response {
  if (onDenied === 'throw') {
    const what = 'a call within the limit';
    const error = expected('ERR_RATE_LIMITED', what, `a call that has to wait ${waitMs} ms`);
    throw Object.assign(error, { retryAfterMs: waitMs });
  }
  const headers = { 'Retry-After': String(Math.ceil(waitMs / 1000)) };
  return new Response(null, { status: TOO_MANY, headers });
}
