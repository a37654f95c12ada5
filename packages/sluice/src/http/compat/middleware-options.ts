/** Options that only the middleware of express-rate-limit has, and their defaults. */
import { dateOf, systemClock } from '../../clock.ts';
import { expected } from '../../errors.ts';
import type { FailureAction } from '../../policy.ts';
import type { KeyState, Store } from '../../store.ts';
import {
  type ClientRateLimitInfo,
  type CounterStore,
  isCounterStore,
  type LegacyStore,
  sluiceStore,
} from './counter-store.ts';
import type { Log } from './logger.ts';

type Given = Readonly<Record<string, unknown>>;

const DEFAULT_LIMIT = 5;
const DEFAULT_WINDOW_MS = 60_000;
const DEFAULT_MESSAGE = 'Too many requests, please try again later.';

/** Options that define a limit. */
const LIMIT_FIELDS = ['limit', 'max', 'limits', 'limiter', 'policy', 'window', 'windowMs'];

/** Options that need a store that decides. */
const NOT_COUNTABLE = ['limits', 'cost', 'settle', 'algorithm', 'burst', 'buckets'];

/** What happens to a request that a store could not count. */
const OUTCOMES: Readonly<Record<FailureAction, string>> = {
  allow: 'allowing the request without a limit',
  deny: 'denying the request',
  local: 'limiting the request in this process alone',
  throw: 'failing the request',
};

/**
 * Applies the defaults of express-rate-limit: without a limit and a window, 5 requests per minute.
 * Replaces a store of its interface, and the old boolean `headers`. Removes undefined options.
 */
export function withExpressDefaults(options: object, log: Log): Given {
  const { logger, headers, ...given } = options as Given;
  const hasLimit = LIMIT_FIELDS.some((name) => given[name] !== undefined);
  const { store, ...rest } = given;
  return definedOnly({
    ...rest,
    ...(!hasLimit && { windowMs: DEFAULT_WINDOW_MS }),
    ...(typeof headers !== 'boolean'
      ? { headers }
      : { legacyHeaders: given.legacyHeaders ?? headers }),
    onWarning: given.onWarning ?? (logger && log.warn),
    store: isCounterStore(store) ? adapted(store, given, log) : store,
  });
}

function definedOnly(options: Given): Given {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function adapted(store: CounterStore | LegacyStore, given: Given, log: Log): Store {
  const misplaced = NOT_COUNTABLE.find((name) => given[name] !== undefined);
  if (misplaced !== undefined) {
    const what = `no \`${misplaced}\` with a store of express-rate-limit, which only counts`;
    throw expected('ERR_INVALID_OPTION', what, given[misplaced]);
  }
  const isPassed = given.passOnStoreError === true;
  const action = isPassed ? 'allow' : ((given.onFailure as FailureAction | undefined) ?? 'local');
  const count = given.count ?? 'all';
  const refunds =
    count !== 'all' || [given.skipFailedRequests, given.skipSuccessfulRequests].some(Boolean);
  const adaptedStore = sluiceStore(store, {
    onError: (error) => log.error(error, `Sluice: the store failed, ${OUTCOMES[action]}`),
    refunds,
  });
  log.warn({
    code: 'WARN_FIXED_WINDOW_STORE',
    message:
      'The store counts in fixed windows, so up to twice the limit is admitted around the end of ' +
      'a window. For a sliding window, omit `store` or use `redisStore` of sluice/redis.',
  });
  return adaptedStore;
}

/** Options as `handler` and `init` of a store receive them: those given, with defaults. */
export interface UsedOptions {
  /** The window of the first limit. */
  readonly windowMs: number;
  /** Undefined if `limits` or `limiter` is set. */
  readonly limit: unknown;
  readonly statusCode: number;
  readonly message: unknown;
  readonly requestPropertyName: string;
}

export function usedOptions(options: object, windowMs: number): UsedOptions {
  const given = definedOnly(options as Given);
  const limit = given.limit ?? given.max;
  const isDefault = LIMIT_FIELDS.every((name) => name === 'windowMs' || given[name] === undefined);
  return {
    statusCode: 429,
    message: DEFAULT_MESSAGE,
    requestPropertyName: 'rateLimit',
    ...given,
    limit: isDefault ? DEFAULT_LIMIT : limit,
    windowMs,
  };
}

/** Calls `init` of a store. Its errors are logged, because `rateLimit` cannot wait for it. */
export function initStore(store: unknown, options: UsedOptions, log: Log): void {
  if (!isCounterStore(store) || !('increment' in store)) return;
  const failed = (error: unknown): void => log.error(error, 'Sluice: `init` of the store failed');
  try {
    Promise.resolve(store.init?.(options as never)).catch(failed);
  } catch (error) {
    failed(error);
  }
}

/** Throws if a store of express-rate-limit cannot return the count of a key. */
export function checkReadable(store: unknown): void {
  if (!isCounterStore(store) || ('get' in store && store.get !== undefined)) return;
  throw expected('ERR_INVALID_OPTION', '`store` to have the method `get`', store);
}

/** Returns the count of a key in the form of express-rate-limit. */
export async function countOf(
  inspected: Promise<KeyState | undefined>,
): Promise<ClientRateLimitInfo | undefined> {
  const state = await inspected;
  if (state === undefined) return undefined;
  return { totalHits: state.used, resetTime: dateOf(systemClock.now() + state.resetAfterMs) };
}
