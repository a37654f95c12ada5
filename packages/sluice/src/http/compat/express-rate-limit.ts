/** Compatibility with express-rate-limit: its option names, and its `request.rateLimit`. */
import { dateOf } from '../../clock.ts';
import type { Decision } from '../../decision.ts';
import { expected } from '../../errors.ts';
import type { FailureAction } from '../../policy.ts';
import type { HeaderForm } from '../headers.ts';
import type { KeySource, RequestLimit, RequestOptions } from '../options.ts';

/** The option names of express-rate-limit. An option must not be set under both of its names. */
export interface ExpressRateLimitOptions<R> {
  /**
   * `window` in ms. Default 60,000. Without `limit` or `max`, the limit is 5.
   *
   * @example windowMs: 15 * 60 * 1000
   */
  readonly windowMs?: number;
  /**
   * Same as `limit`.
   *
   * @example max: 100
   */
  readonly max?: RequestLimit<R>['limit'];
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (request) => request.headers['x-user']
   */
  readonly keyGenerator?: (
    request: R,
    response: never,
  ) => string | number | undefined | Promise<string | number | undefined>;
  /**
   * Same as `headers`; `true` is `'draft-6'`, `'draft-8'` is `'draft'`. Default: see `headers`.
   *
   * @example standardHeaders: 'draft-8'
   */
  readonly standardHeaders?: boolean | 'draft-6' | 'draft-7' | 'draft-8';
  /**
   * Whether to send `X-RateLimit-*`. Default: true if `standardHeaders` is set.
   *
   * @example legacyHeaders: false
   */
  readonly legacyHeaders?: boolean;
  /**
   * `true` is `count: 'failures'`. Default false.
   *
   * @example skipSuccessfulRequests: true
   */
  readonly skipSuccessfulRequests?: boolean;
  /**
   * `true` is `count: 'successes'`. Default false.
   *
   * @example skipFailedRequests: true
   */
  readonly skipFailedRequests?: boolean;
  /**
   * `true` is `onFailure: 'allow'`. Default false.
   *
   * @example passOnStoreError: true
   */
  readonly passOnStoreError?: boolean;
  /**
   * Same as `name`.
   *
   * @example identifier: 'login'
   */
  readonly identifier?: string;
  /**
   * Same as `ipv6Prefix`; `false` is 128, the whole address.
   *
   * @example ipv6Subnet: 56
   */
  readonly ipv6Subnet?: number | false;
}

export const EXPRESS_RATE_LIMIT_FIELDS = [
  ...['windowMs', 'max', 'keyGenerator', 'standardHeaders', 'legacyHeaders'],
  ...['skipSuccessfulRequests', 'skipFailedRequests', 'passOnStoreError'],
  ...['identifier', 'ipv6Subnet'],
];

const DEFAULT_LIMIT = 5;

function reject(what: string, got: unknown): never {
  throw expected('ERR_INVALID_OPTION', what, got);
}

/** Returns the option that is set. Throws if both are set, even to the same value. */
function either<T>(own: T | undefined, other: T | undefined, names: string): T | undefined {
  if (own !== undefined && other !== undefined) reject(`one of ${names}, not both`, other);
  return own ?? other;
}

/** Returns the options with the names of express-rate-limit replaced by Sluice's. */
export function withSluiceNames<R>(
  given: RequestOptions<R> & ExpressRateLimitOptions<R>,
): Omit<RequestOptions<R>, 'headers'> {
  const { windowMs, limits, ipv6Subnet } = given;
  const limit = either(given.limit, given.max, 'limit and max');
  const prefix = ipv6Subnet === false ? 128 : ipv6Subnet;
  const action: FailureAction | undefined = given.passOnStoreError ? 'allow' : undefined;
  const key = given.keyGenerator as KeySource<R> | undefined;
  const own: RequestOptions<R> = Object.fromEntries(
    Object.entries(given).filter(([name]) => !EXPRESS_RATE_LIMIT_FIELDS.includes(name)),
  );
  const renamed = {
    limit: limit ?? (windowMs !== undefined && limits === undefined ? DEFAULT_LIMIT : undefined),
    window: either(given.window, windowMs, 'window and windowMs'),
    key: either(given.key, key, 'key and keyGenerator'),
    name: either(given.name, given.identifier, 'name and identifier'),
    ipv6Prefix: either(given.ipv6Prefix, prefix, 'ipv6Prefix and ipv6Subnet'),
    onFailure: either(given.onFailure, action, 'onFailure and passOnStoreError'),
    count: either(given.count, skippedCount(given as never), 'count and those that skip requests'),
  };
  const present = Object.entries(renamed).filter(([, value]) => value !== undefined);
  return { ...own, ...Object.fromEntries(present) };
}

function skippedCount({
  skipSuccessfulRequests,
  skipFailedRequests,
}: ExpressRateLimitOptions<never>): 'failures' | 'successes' | undefined {
  if (skipSuccessfulRequests && skipFailedRequests) {
    reject('one of skipSuccessfulRequests and skipFailedRequests, not both', true);
  }
  if (skipSuccessfulRequests) return 'failures';
  return skipFailedRequests ? 'successes' : undefined;
}

const STANDARD_FORMS: Record<string, HeaderForm> = {
  true: 'draft-6',
  false: 'none',
  'draft-6': 'draft-6',
  'draft-7': 'draft-7',
  'draft-8': 'draft',
};

/** Returns the header forms to send. Does not validate `headers`. */
export function headerFormsOf({
  headers,
  standardHeaders,
  legacyHeaders,
}: RequestOptions<never> & ExpressRateLimitOptions<never>): readonly HeaderForm[] {
  if (standardHeaders === undefined && legacyHeaders === undefined) return [headers ?? 'draft'];
  if (headers !== undefined) reject('one of headers and standardHeaders, not both', headers);
  const form = STANDARD_FORMS[String(standardHeaders ?? false)];
  if (form === undefined) reject('`standardHeaders` to be a boolean or a draft', standardHeaders);
  return (legacyHeaders ?? true) ? [form, 'legacy'] : [form];
}

/** The value of `request.rateLimit` in Express. */
export interface RateLimitInfo {
  readonly limit: number;
  readonly used: number;
  /** Same as `used`; its name in old versions of express-rate-limit. */
  readonly current: number;
  readonly remaining: number;
  /** When the full limit is available again. */
  readonly resetTime: Date;
  readonly key: string;
  /** The decision. The JSON of this object does not contain it. */
  readonly decision: Decision;
}

export class DecisionInfo implements RateLimitInfo {
  readonly limit: number;
  readonly used: number;
  readonly current: number;
  readonly remaining: number;
  readonly key: string;
  readonly #decision: Decision;

  constructor(decision: Decision) {
    this.limit = decision.limit;
    this.used = decision.limit - decision.remaining;
    this.current = this.used;
    this.remaining = decision.remaining;
    this.key = decision.key;
    this.#decision = decision;
  }

  get decision(): Decision {
    return this.#decision;
  }

  get resetTime(): Date {
    return dateOf(this.#decision.atMs + this.#decision.resetAfterMs);
  }

  toJSON(): object {
    return { ...this, resetTime: this.resetTime };
  }
}
