/** Policies: their options, and their validation when they are defined. */
import type { LimitParams } from './algorithms/algorithm.ts';
import { type AlgorithmName, algorithmNames, optionOf } from './algorithms/index.ts';
import { durationMs, MAX_WINDOW_MS } from './duration.ts';
import {
  checkFields,
  checkInteger,
  type ErrorCode,
  expected,
  isInteger,
  isRecord,
} from './errors.ts';

/**
 * Milliseconds, or a whole number and a unit: `'250ms'` `'10s'` `'1m'` `'1h'` `'1d'` `'2w'`. Units
 * can be written out: `'5min'` `'1hour'` `'2week'`. A unit without a number means 1: `'hour'`.
 */
export type Duration = number | string;

/** Returns the limit of a key, for tenants on different plans. Called at every check. */
export type LimitOfKey = (key: string) => number;

/** What to do if the store cannot decide; see `sluice/failure`. */
export type FailureAction = 'allow' | 'deny' | 'local' | 'throw';

export interface PolicyOptions {
  /**
   * The cost admitted per window: an integer, or a function of the key. Required.
   *
   * @example limit: 100
   */
  readonly limit: number | LimitOfKey;
  /**
   * The length of the window, in ms or as text. Required.
   *
   * @example window: '1m'
   */
  readonly window: Duration;
  /**
   * How requests are counted. Default `'sliding-log'`, which is exact.
   *
   * @example algorithm: 'token-bucket'
   */
  readonly algorithm?: AlgorithmName;
  /**
   * `sliding-buckets` only: the number of buckets in a window. Default 60, or one per ms.
   *
   * @example buckets: 10
   */
  readonly buckets?: number;
  /**
   * `token-bucket` only: the number of tokens that the bucket holds. Default: the limit.
   *
   * @example burst: 20
   */
  readonly burst?: number;
  /**
   * Costs by operation, for `check(policy, key, { operation })`. Default: none.
   *
   * @example costs: { 'search.list': 100 }
   */
  readonly costs?: Readonly<Record<string, number>>;
  /**
   * What to do if the store cannot decide. Default: the store's `onFailure`.
   *
   * @example onFailure: 'deny'
   */
  readonly onFailure?: FailureAction;
}

/** `'100/1m'`, `'100/min'` or `'100 per hour'`, or an object with more options. */
export type PolicyInput = string | PolicyOptions;

/** The operations in the `costs` of a policy, at compile time. */
export type OperationOf<P> = P extends { readonly costs?: infer C }
  ? keyof NonNullable<C> & string
  : never;

/** A validated policy. */
export interface Policy {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly windowMs: number;
  readonly bucketMs: number;
  readonly costs: ReadonlyMap<string, number>;
  readonly onFailure: FailureAction | undefined;
  /** The numbers for every key; undefined if the limit is a function of the key. */
  readonly params: LimitParams | undefined;
  /** Returns the numbers for a key. */
  paramsFor(key: string): LimitParams;
}

const FIELDS = ['limit', 'window', 'algorithm', 'buckets', 'burst', 'costs', 'onFailure'];
export const FAILURE_ACTIONS: readonly FailureAction[] = ['allow', 'deny', 'local', 'throw'];
const DEFAULT_BUCKETS = 60;
const MAX_BUCKETS = 10_000;

/** Parses `'100/1m'` to the object form. */
function optionsOf(where: string, input: unknown): PolicyOptions {
  const parts = typeof input === 'string' && /^(\d{1,16})(?:\/| per )(\w+)$/.exec(input);
  if (parts) return { limit: Number(parts[1]), window: parts[2] };
  checkFields(input, FIELDS, 'ERR_INVALID_POLICY', `${where} to be text like '100/1m' or `);
  return input as PolicyOptions;
}

/** Throws if `count x windowMs` is not an exact integer. */
function checkProduct(where: string, what: string, count: number, windowMs: number): void {
  if (count * windowMs <= Number.MAX_SAFE_INTEGER) return;
  const most = `${what} x window of ${where} to be at most 2^53 - 1`;
  throw expected('ERR_LIMIT_TOO_LARGE', most, `${count} x ${windowMs} ms`);
}

/** Returns a window in milliseconds. */
function windowOf(where: string, window: unknown): number {
  const windowMs = typeof window === 'string' ? durationMs(window) : window;
  if (isInteger(windowMs, 1) && windowMs <= MAX_WINDOW_MS) return windowMs;
  const what = `the window of ${where} to be a duration from 1ms to 36500d`;
  throw expected('ERR_INVALID_WINDOW', what, window);
}

/** Returns an option that only one algorithm has. Throws if the policy uses another one. */
function ownNumber(
  where: string,
  options: PolicyOptions,
  field: 'buckets' | 'burst',
  code: ErrorCode,
  most?: number,
): number | undefined {
  const value = options[field];
  if (value === undefined) return undefined;
  const what = `\`${field}\` of ${where}`;
  const algorithm = algorithmNames.find((name) => optionOf(name) === field);
  if (options.algorithm === algorithm) return checkInteger(code, what, value, 1, most);
  throw expected(code, `${what} only with the algorithm '${algorithm}'`, value);
}

function costsOf(where: string, costs: unknown, most?: number): Map<string, number> {
  if (!isRecord(costs)) {
    throw expected('ERR_INVALID_COSTS', `\`costs\` of ${where} to be an object`, costs);
  }
  const entries = Object.entries(costs as Record<string, number>);
  for (const [operation, cost] of entries) {
    checkInteger('ERR_INVALID_COSTS', `the cost of \`${operation}\` in ${where}`, cost, 1, most);
  }
  return new Map(entries);
}

/** Returns `value` if it is one of `names`, and throws otherwise. */
function checkName<T>(code: ErrorCode, what: string, value: unknown, names: readonly T[]): T {
  if (names.includes(value as T)) return value as T;
  throw expected(code, `${what} to be one of ${names.join(' ')}`, value);
}

/** Throws unless the value is an action or undefined. */
export const checkAction = (action: unknown): FailureAction | undefined =>
  action === undefined
    ? action
    : checkName('ERR_INVALID_OPTION', '`onFailure`', action, FAILURE_ACTIONS);

/** Validates a policy. Throws a `SluiceError` if it is invalid. */
export function definePolicy(name: string, input: PolicyInput): Policy {
  const where = `policy \`${name}\``;
  const options = optionsOf(where, input);
  const { limit, algorithm = 'sliding-log', costs = {} } = options;
  checkName('ERR_INVALID_ALGORITHM', `the algorithm of ${where}`, algorithm, algorithmNames);
  const windowMs = windowOf(where, options.window);
  const buckets = ownNumber(where, options, 'buckets', 'ERR_INVALID_BUCKETS', MAX_BUCKETS);
  const bucketMs = Math.ceil(windowMs / Math.min(buckets ?? DEFAULT_BUCKETS, windowMs));
  const burst = ownNumber(where, options, 'burst', 'ERR_INVALID_BURST');
  checkProduct(where, 'burst', burst ?? 1, windowMs);
  const paramsOf = (whose: string, count: number): LimitParams => {
    // Any integer: for one that is too large, the message about the product says more.
    if (!Number.isInteger(count) || count < 1) {
      throw expected('ERR_INVALID_LIMIT', `the limit of ${whose} to be an integer >= 1`, count);
    }
    checkProduct(whose, 'limit', count, windowMs);
    return { limit: count, windowMs, bucketMs, capacity: burst ?? count };
  };
  const params = typeof limit === 'function' ? undefined : paramsOf(where, limit);
  const limitOf = limit as LimitOfKey;
  return {
    name,
    algorithm,
    windowMs,
    bucketMs,
    costs: costsOf(where, costs, params?.capacity),
    onFailure: checkAction(options.onFailure),
    params,
    paramsFor: (key: string) => params ?? paramsOf(`${where} for this key`, limitOf(key)),
  };
}
