/** Options that only the middleware of express-rate-limit has, and their defaults. */
import { dateOf, systemClock } from '../../clock.ts';
import { expected } from '../../errors.ts';
import type { FailureAction } from '../../policy.ts';
import type { KeyState, Store } from '../../store.ts';
import type { RequestOptions } from '../options.ts';
import {
  type ClientRateLimitInfo,
  type CounterStore,
  isCounterStore,
  type LegacyStore,
  sluiceStore,
} from './counter-store.ts';
import type { Log } from './logger.ts';
import { DAY, HOUR, MINUTE, SECOND } from './time-constants.ts';

type Given = Readonly<Record<string, unknown>>;

const DEFAULT_LIMIT = 5;
const DEFAULT_WINDOW_MS = MINUTE;
const DEFAULT_MESSAGE = 'Too many requests, please try again later.';

/** Options that define a limit. */
const LIMIT_FIELDS = [
  'limit',
  'max',
  'limits',
  'limiter',
  'policy',
  'window',
  'windowMs',
  'concurrency',
];

/** Options of Sluice that define or name a limit. */
const OWN_NAMES = ['name', 'limits', 'limiter', 'policy', 'window'];

/** Options that a store of express-rate-limit, which only counts, does not support. */
const NOT_COUNTABLE = ['limits', 'concurrency', 'cost', 'settle', 'algorithm', 'burst', 'buckets'];

/** What happens to a request that a store could not count. */
const OUTCOMES: Readonly<Record<FailureAction, string>> = {
  allow: 'allowing the request without a limit',
  deny: 'denying the request',
  local: 'limiting the request in this process alone',
  throw: 'failing the request',
};

/**
 * Applies the defaults of express-rate-limit: without a limit and a window, 5 requests per minute.
 * Adapts a store of express-rate-limit. Converts a boolean `headers`, which old versions of
 * express-rate-limit accept. Removes undefined options.
 */
export function withExpressDefaults(options: object, log: Log): Given {
  const { logger, headers, ...given } = options as Given;
  const hasLimit = LIMIT_FIELDS.some((name) => given[name] !== undefined);
  const { store, ...rest } = given;
  return definedOnly({
    ...rest,
    ...(!hasLimit && { windowMs: DEFAULT_WINDOW_MS }),
    name: given.name ?? quotaName(given),
    ...(typeof headers !== 'boolean'
      ? { headers }
      : { legacyHeaders: given.legacyHeaders ?? headers }),
    onWarning: given.onWarning ?? (logger && log.warn),
    ...(isCounterStore(store) ? adaptStore(store, given, log) : { store }),
  });
}

/**
 * Returns the name that express-rate-limit sends in the headers of draft 8, such as `5-in-1min`.
 * Returns undefined if the limit has a name. Also returns undefined if it has a store, because the
 * name would then identify the counters in the store.
 */
function quotaName(given: Given): string | undefined {
  const { limit = given.max ?? DEFAULT_LIMIT, windowMs = DEFAULT_WINDOW_MS } = given;
  const isNamed = [...OWN_NAMES, 'identifier', 'store'].some((name) => given[name] !== undefined);
  if (given.standardHeaders !== 'draft-8' || isNamed) return undefined;
  if (typeof limit !== 'number' || typeof windowMs !== 'number') return undefined;
  return `${limit}-in-${durationText(windowMs)}`;
}

function durationText(windowMs: number): string {
  if (windowMs < MINUTE) return `${windowMs / SECOND}sec`;
  if (windowMs < HOUR) return `${windowMs / MINUTE}min`;
  const [unitMs, unit] = windowMs < DAY ? [HOUR, 'hr'] : [DAY, 'day'];
  return `${windowMs / unitMs}${unit}${windowMs > unitMs ? 's' : ''}`;
}

function definedOnly(options: Given): Given {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

type Listener = NonNullable<RequestOptions<unknown>['onDecision']>;

/** Returns the store to use, and a listener that logs calls of the store that timed out. */
function adaptStore(
  store: CounterStore | LegacyStore,
  given: Given,
  log: Log,
): { store: Store; onDecision: Listener } {
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
  const onError = (error: unknown): void =>
    log.error(error, `Sluice: the store failed, ${OUTCOMES[action]}`);
  log.warn({
    code: 'WARN_FIXED_WINDOW_STORE',
    message:
      'The store counts in fixed windows, so up to twice the limit is admitted around the end of ' +
      'a window. For a sliding window, omit `store` or use `redisStore` of sluice/redis.',
  });
  const onDecision: Listener = (decision, request) => {
    if (decision.degraded?.reason === 'timeout') onError(new Error('no reply within 1 s'));
    return (given.onDecision as Listener | undefined)?.(decision, request);
  };
  return { store: sluiceStore(store, { onError, refunds }), onDecision };
}

/** The options with their defaults, as `handler` and the `init` of a store receive them. */
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

/** Calls `init` of a store. Logs its errors, because `rateLimit` cannot wait for a promise. */
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
