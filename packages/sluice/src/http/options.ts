/** The options of `rateLimit` that all adapters share, before and after validation. */
import type { Limiter } from '../api.ts';
import type { Decision } from '../decision.ts';
import type { Key } from '../key.ts';
import type { LimiterCore } from '../limiter.ts';
import type { ConcurrencyPolicyOptions, FailureAction, WindowPolicyOptions } from '../policy.ts';
import type { Store } from '../store.ts';
import type { AddressOptions } from './client-address.ts';
import type { HeaderForm } from './headers.ts';

type Maybe<T> = T | Promise<T>;

/** Counts by the value of a header, and by address if a request does not have the header. */
export interface HeaderKey {
  /** The name of the header. */
  readonly header: string;
  /**
   * Whether requests with an invented value never reach the limit, for example because a gateway
   * verifies the API key. Default false: without a limit by address, a warning is emitted.
   *
   * @example key: { header: 'x-api-key', authenticated: true }
   */
  readonly authenticated?: boolean;
}

/** What a limit counts by: the client's address, a header's value, or a function's result. */
export type KeySource<R> =
  | 'address'
  | HeaderKey
  | ((request: R) => Maybe<Key | number | undefined>);

/** A unit of a duration, alone or after a whole number. */
type Unit = 'ms' | 's' | 'm' | 'h' | 'd' | 'w' | LongUnit;
type LongUnit = 'sec' | 'second' | 'min' | 'minute' | 'hour' | 'day' | 'week';

/**
 * The length of a window: milliseconds, or a whole number and a unit without a space, such as
 * `'90s'` or `'15min'`.
 */
// `${bigint}`, because `${number}` would also accept a space after the number, as in '1 hour'.
export type Window = number | Unit | `${bigint}${Unit}`;

/** One limit on requests. */
export interface RequestLimit<R>
  extends Omit<WindowPolicyOptions, 'limit' | 'window' | 'costs' | 'block' | 'lease'> {
  /**
   * The policy's name in headers, reports and the store. Default `'default'`; for the second of
   * several limits `'default-2'`, and so on. Limiters on one store share counters if they have the
   * same name; limiters without a name never do.
   *
   * @example name: 'login'
   */
  readonly name?: string;
  /**
   * Requests, or cost, admitted per window. A function returns the limit for each request.
   * Required, unless the options have `limits` or `limiter`.
   *
   * @example limit: 100
   * @example limit: (request) => (request.user.isPro ? 1000 : 100)
   */
  readonly limit: number | ((request: R) => Maybe<number>);
  /**
   * Length of the window, in ms or as text. Default `'1m'`.
   *
   * @example window: '15m'
   */
  readonly window?: Window;
  /**
   * What the limit counts by. Default `'address'`. If a request does not have the header, or the
   * function returns undefined, it counts by its address. Clients can invent header values:
   * authenticate them, or add a limit by address. Keys over 1,024 characters are hashed.
   *
   * @example key: { header: 'x-api-key', authenticated: true }
   * @example key: (request) => request.user.id
   */
  readonly key?: KeySource<R>;
  /**
   * Cost of a request. Default 1. A request of cost 0 passes and is never charged, not even by
   * `settle`. Its response still has the rate-limit headers.
   *
   * @example cost: (request) => (request.method === 'GET' ? 1 : 5)
   */
  readonly cost?: number | ((request: R) => Maybe<number>);
  /**
   * Shadow mode: the limit is checked and reported to `onShadow`, but never denies. Default false.
   * If set beside `limits`, `true` applies to all of them.
   *
   * @example shadow: true
   */
  readonly shadow?: boolean;
}

/** A limit on the requests that are handled at the same time. */
export interface ConcurrencyLimit<R>
  extends Pick<RequestLimit<R>, 'name' | 'key' | 'cost' | 'shadow'> {
  /**
   * Requests, or cost, handled at the same time: from the request to the end of its response.
   * If `limit` is set too, both limits apply. Default: unlimited.
   *
   * @example concurrency: 50
   */
  readonly concurrency: number;
  /**
   * How long a request counts if its process dies. The lease is renewed until the response has
   * ended. Default `'30s'`.
   *
   * @example lease: '1m'
   */
  readonly lease?: Window;
  /**
   * What to do if the store cannot decide. Default: the store's action.
   *
   * @example onFailure: 'local'
   */
  readonly onFailure?: FailureAction;
}

/** One limit on requests by a policy of the option `limiter`. */
export interface PolicyLimit<R> extends Pick<RequestLimit<R>, 'key' | 'cost' | 'shadow'> {
  /**
   * The name of a policy of `limiter`. Required.
   *
   * @example policy: 'perMinute'
   */
  readonly policy: string;
}

/** How a request ended. */
export interface ResponseOutcome<R> {
  readonly request: R;
  readonly status: number;
  /** False if the client disconnected before the response was complete. */
  readonly finished: boolean;
  /** The response's Content-Length; undefined if the header is not set. */
  readonly bytes: number | undefined;
}

/**
 * Options of `rateLimit`. Set `limit`, `concurrency` or both; `limits` for several limits; or
 * `limiter` to use the policies of an existing limiter.
 */
export interface RequestOptions<R>
  extends AddressOptions,
    Partial<RequestLimit<R>>,
    Pick<Partial<ConcurrencyLimit<R>>, 'concurrency' | 'lease'> {
  /**
   * Several limits, checked atomically: all are charged, or none. Default: one, by `limit`.
   *
   * @example
   * limits: [
   *   { name: 'second', limit: 10, window: '1s' },
   *   { name: 'day', limit: 10_000, window: '1d' },
   * ]
   */
  readonly limits?: readonly (RequestLimit<R> | ConcurrencyLimit<R> | PolicyLimit<R>)[];
  /**
   * An existing limiter, whose policies and store are used instead of `limit`, `window`, `store`
   * and similar options. Set `policy`, or `limits` with a `policy` in each. Default: a new limiter.
   *
   * @example
   * const limiter = createLimiter({ policies: { perMinute: '100/1m' }, store });
   * rateLimit({ limiter, policy: 'perMinute' });
   */
  // biome-ignore lint/suspicious/noExplicitAny: a limiter with any policies.
  readonly limiter?: Limiter<any>;
  /**
   * The name of the policy of `limiter` that limits requests. Default: none.
   *
   * @example policy: 'perMinute'
   */
  readonly policy?: string;
  /**
   * The store of the counters. Default: a memory store in this process.
   *
   * @example store: redisStore(client)
   */
  readonly store?: Store;
  /**
   * Returns true for requests that are neither checked nor counted. Default: none.
   *
   * @example skip: (request) => request.url === '/health'
   */
  readonly skip?: (request: R) => Maybe<boolean>;
  /**
   * Addresses and networks whose requests always pass and are not counted. Default: none. Takes
   * precedence over `deny`.
   *
   * @example allow: ['10.0.0.0/8', '::1']
   */
  readonly allow?: readonly string[];
  /**
   * Addresses and networks whose requests are always denied with status 403. Default: none.
   *
   * @example deny: ['203.0.113.0/24']
   */
  readonly deny?: readonly string[];
  /**
   * Which requests count: all, those that failed (status 400 and above, or disconnected), or those
   * that succeeded. Default `'all'`. Requests that do not count are charged when they arrive and
   * refunded when they end, so that concurrent requests cannot exceed the limit.
   *
   * @example count: 'failures' // failed logins
   */
  readonly count?: 'all' | 'failures' | 'successes';
  /**
   * Returns the actual cost of a request when its response has ended; undefined keeps the cost.
   * Default: none.
   *
   * @example settle: ({ bytes }) => bytes && Math.ceil(bytes / 1024)
   */
  readonly settle?: (outcome: ResponseOutcome<R>) => Maybe<number | undefined>;
  /**
   * Receives the decision of the enforced limits for each request, before the response. Not called
   * for requests of `skip`, `allow` and `deny`. If it throws, a warning is emitted. Default: none.
   *
   * @example onDecision: ({ policy, allowed }) => allowed || logger.info({ policy }, 'denied')
   */
  readonly onDecision?: (decision: Decision, request: R) => void;
  /**
   * Receives the decision of each shadow limit, for requests that the enforced limits admit.
   * Default: none.
   *
   * @example onShadow: ({ policy, allowed }) => allowed || logger.info({ policy }, 'would deny')
   */
  readonly onShadow?: (decision: Decision, request: R) => void;
  /**
   * The form of the rate-limit headers. Default `'draft'`, the current IETF draft.
   *
   * @example headers: 'legacy' // X-RateLimit-*
   */
  readonly headers?: HeaderForm;
}

/** A limit with its defaults applied. */
export interface ResolvedLimit<R> {
  readonly name: string;
  /** The policy's options; undefined for a policy of `limiter`. */
  readonly policy: Omit<WindowPolicyOptions, 'limit'> | ConcurrencyPolicyOptions | undefined;
  readonly limit: RequestLimit<R>['limit'] | undefined;
  readonly key: KeySource<R>;
  readonly cost: number | ((request: R) => Maybe<number>);
  readonly shadow: boolean;
}

/** Validated options with their defaults applied. */
export interface ResolvedOptions<R> {
  readonly limits: readonly ResolvedLimit<R>[];
  readonly address: AddressOptions;
  readonly store: Store | undefined;
  readonly limiter: LimiterCore | undefined;
  readonly onFailure: FailureAction | undefined;
  readonly skip: RequestOptions<R>['skip'] | undefined;
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  readonly count: 'all' | 'failures' | 'successes';
  readonly settle: RequestOptions<R>['settle'] | undefined;
  readonly onDecision: RequestOptions<R>['onDecision'] | undefined;
  readonly onShadow: RequestOptions<R>['onShadow'] | undefined;
  /** Returns whether a request succeeded. If undefined, the status of the response decides. */
  readonly succeeded: ((outcome: ResponseOutcome<R>) => Maybe<boolean>) | undefined;
  readonly forms: readonly HeaderForm[];
}
