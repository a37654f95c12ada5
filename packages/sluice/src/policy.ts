/** Policies: their options, and the validation of these options. */
import type { LimitParams } from './algorithms/algorithm.ts';
import {
  type AlgorithmName,
  algorithms,
  isConcurrency,
  optionOf,
  type WindowAlgorithmName,
  windowAlgorithmNames,
} from './algorithms/index.ts';
import { durationMs, MAX_WINDOW_MS } from './duration.ts';
import {
  checkFields,
  checkInteger,
  type ErrorCode,
  expected,
  isInteger,
  isRecord,
  SluiceError,
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

/** Options of all policies. */
export interface SharedPolicyOptions {
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

/** A limit on the cost that is admitted per window. */
export interface WindowPolicyOptions extends SharedPolicyOptions {
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
  readonly algorithm?: WindowAlgorithmName;
  /**
   * `sliding-buckets` only: the number of buckets in a window. Default 60, but at most one per ms.
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
   * How long a key is blocked when this limit denies a check: a duration, or an object for blocks
   * that become longer. Default: not at all.
   *
   * @example block: '15m'
   * @example block: { for: '1m', factor: 2, max: '1h' }
   */
  readonly block?: Duration | BlockOptions;
  /**
   * Lets processes borrow units of frequent keys, and admit calls with them without a call to the
   * store. Only with `redisStore(client, { leases })`, for `sliding-log` and `sliding-buckets`. All
   * processes must have the same setting. Default: no leases.
   *
   * @example lease: true
   * @example lease: { maxShare: 0.1, maxMs: '500ms' }
   */
  readonly lease?: boolean | LeaseOptions;
}

/** How much a process may borrow, and for how long. */
export interface LeaseOptions {
  /**
   * The largest part of the free units that one request may borrow, from 0.001 to 0.25. Default
   * 0.25.
   *
   * @example maxShare: 0.1
   */
  readonly maxShare?: number;
  /**
   * The longest lease. Default: the store's `leases.maxMs`. Never longer than 1/32 of the window.
   *
   * @example maxMs: '500ms'
   */
  readonly maxMs?: Duration;
}

/** A block that becomes longer each time: `min(for * factor^k, max)` after k blocks in a row. */
export interface BlockOptions {
  /**
   * The length of the first block. Required.
   *
   * @example for: '15m'
   */
  readonly for: Duration;
  /**
   * How many times longer each block in a row is than the one before: an integer. Default 1.
   *
   * @example factor: 2
   */
  readonly factor?: number;
  /**
   * The longest block. Default: one day, or `for` if that is longer.
   *
   * @example max: '1h'
   */
  readonly max?: Duration;
  /**
   * How long after the end of a block the next one still counts as in a row. Default: one day, or
   * `for` if that is longer.
   *
   * @example forget: '12h'
   */
  readonly forget?: Duration;
}

/** A limit on the cost that is held at the same time. */
export interface ConcurrencyPolicyOptions extends SharedPolicyOptions {
  /**
   * The cost that can be held at the same time: an integer, or a function of the key. Required.
   *
   * @example concurrency: 10
   */
  readonly concurrency: number | LimitOfKey;
  /**
   * How long a hold counts if it is neither released nor renewed. Default `'30s'`.
   *
   * @example lease: '5m'
   */
  readonly lease?: Duration;
}

/** The fields of `T` as fields that must be absent. `lease` has a meaning in both kinds. */
type Without<T> = {
  readonly [Field in Exclude<keyof T, keyof SharedPolicyOptions | 'lease'>]?: undefined;
};

/** A limit per window, or a limit on what is held at the same time. */
export type PolicyOptions =
  | (WindowPolicyOptions & Without<ConcurrencyPolicyOptions>)
  | (ConcurrencyPolicyOptions & Without<WindowPolicyOptions>);

/** `'100/1m'`, `'100/min'` or `'100 per hour'`, or an object with more options. */
export type PolicyInput = string | PolicyOptions;

/** The type of the operation names in the `costs` of a policy. */
export type OperationOf<P> = P extends { readonly costs?: infer C }
  ? keyof NonNullable<C> & string
  : never;

/** The validated `block` option. */
export interface BlockParams {
  readonly forMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly forgetMs: number;
}

/** The validated `lease` option of a limit per window. */
export interface LeaseParams {
  readonly thousandths: number;
  /** Undefined for the store's default. */
  readonly maxMs: number | undefined;
}

/** A validated policy. */
export interface Policy {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  /** The length of the window, or the lease of a concurrency limit. */
  readonly windowMs: number;
  readonly bucketMs: number;
  readonly costs: ReadonlyMap<string, number>;
  readonly onFailure: FailureAction | undefined;
  /** How long a denied key is blocked. Undefined if denials start no block. */
  readonly block?: BlockParams | undefined;
  /** Undefined if processes may not borrow units of the limit. */
  readonly lease?: LeaseParams | undefined;
  /** The parameters for every key; undefined if the limit is a function of the key. */
  readonly params: LimitParams | undefined;
  /** Returns the parameters for a key. */
  paramsFor(key: string): LimitParams;
}

const SHARED_FIELDS = ['costs', 'onFailure'];
const WINDOW_FIELDS = [
  ...['limit', 'window', 'algorithm', 'buckets', 'burst', 'block', 'lease'],
  ...SHARED_FIELDS,
];
const CONCURRENCY_FIELDS = ['concurrency', 'lease', ...SHARED_FIELDS];
const LEASE_FIELDS = ['maxShare', 'maxMs'];
const BLOCK_FIELDS = ['for', 'factor', 'max', 'forget'];
export const FAILURE_ACTIONS: readonly FailureAction[] = ['allow', 'deny', 'local', 'throw'];
const DEFAULT_BUCKETS = 60;
const MAX_BUCKETS = 10_000;
const MAX_FACTOR = 1000;
const DAY_MS = 86_400_000;
/** The largest part of the free units that one process may borrow at a time. */
const MAX_SHARE = 0.25;

/** Returns the options of a policy. Parses text such as `'100/1m'`. */
function optionsOf(where: string, input: unknown): PolicyOptions {
  const parts = typeof input === 'string' && /^(\d{1,16})(?:\/| per )(\w+)$/.exec(input);
  if (parts) return { limit: Number(parts[1]), window: parts[2] };
  const isHeld = isRecord(input) && input.concurrency !== undefined;
  const fields = isHeld ? CONCURRENCY_FIELDS : WINDOW_FIELDS;
  checkFields(input, fields, 'ERR_INVALID_POLICY', `${where} to be text like '100/1m' or `);
  return input as PolicyOptions;
}

/** Throws if `count x windowMs` is not an exact integer. `what` names both: `limit x window`. */
function checkProduct(where: string, what: string, count: number, windowMs: number): void {
  if (count * windowMs <= Number.MAX_SAFE_INTEGER) return;
  const most = `${what} of ${where} to be at most 2^53 - 1`;
  throw expected('ERR_LIMIT_TOO_LARGE', most, `${count} x ${windowMs} ms`);
}

/** Returns a duration in milliseconds. Throws if it is invalid. */
export function checkDuration(
  code: ErrorCode,
  what: string,
  duration: unknown,
  leastMs = 1,
): number {
  const ms = typeof duration === 'string' ? durationMs(duration) : duration;
  if (isInteger(ms, leastMs) && ms <= MAX_WINDOW_MS) return ms;
  throw expected(code, `${what} to be a duration from ${leastMs}ms to 36500d`, duration);
}

/** Returns the numbers of the `block` option. */
function blockOf(where: string, block: unknown): BlockParams | undefined {
  if (block === undefined) return undefined;
  const code = 'ERR_INVALID_BLOCK';
  const what = `\`block\` of ${where}`;
  const options = isRecord(block) ? block : { for: block };
  checkFields(options, BLOCK_FIELDS, code, `${what} to be a duration or `);
  const { for: first, factor = 1 } = options;
  const forMs = checkDuration(code, isRecord(block) ? `\`for\` in ${what}` : what, first);
  const { max = Math.max(forMs, DAY_MS), forget = Math.max(forMs, DAY_MS) } = options;
  return {
    forMs,
    factor: checkInteger(code, `\`factor\` in ${what}`, factor, 1, MAX_FACTOR),
    maxMs: checkDuration(code, `\`max\` in ${what}`, max, forMs),
    forgetMs: checkDuration(code, `\`forget\` in ${what}`, forget, 0),
  };
}

/** Returns the numbers of the `lease` option of a limit per window. */
function leaseOf(where: string, options: WindowPolicyOptions): LeaseParams | undefined {
  const { lease, algorithm = 'sliding-log', block } = options;
  if (lease === undefined || lease === false) return undefined;
  const code = 'ERR_INVALID_LEASE';
  const what = `\`lease\` of ${where}`;
  if (algorithms[algorithm].keepsEntries !== true) {
    const names = windowAlgorithmNames.filter((name) => algorithms[name].keepsEntries).join(' or ');
    const reason = `with others a window could exceed the limit, got '${algorithm}'`;
    throw new SluiceError(code, `Expected ${what} only with the algorithm ${names}: ${reason}`);
  }
  if (block !== undefined) {
    const reason = 'a process could admit calls during a block';
    throw new SluiceError(code, `Expected ${what} without \`block\`: ${reason}`);
  }
  if (lease !== true) checkFields(lease, LEASE_FIELDS, code, `${what} to be a boolean or `);
  const { maxShare = MAX_SHARE, maxMs } = lease === true ? {} : lease;
  if (typeof maxShare !== 'number' || !(maxShare >= 0.001 && maxShare <= MAX_SHARE)) {
    throw expected(code, `\`maxShare\` in ${what} to be from 0.001 to ${MAX_SHARE}`, maxShare);
  }
  return {
    thousandths: Math.floor(maxShare * 1000),
    maxMs: maxMs === undefined ? undefined : checkDuration(code, `\`maxMs\` in ${what}`, maxMs),
  };
}

/** Returns an option that only one algorithm has. Throws if the policy has another algorithm. */
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
  const algorithm = windowAlgorithmNames.find((name) => optionOf(name) === field);
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

/** Returns `action` if it is a failure action or undefined, and throws otherwise. */
export const checkAction = (action: unknown): FailureAction | undefined =>
  action === undefined
    ? action
    : checkName('ERR_INVALID_OPTION', '`onFailure`', action, FAILURE_ACTIONS);

/** Returns the name of the limit and of its duration in messages, and their values. */
function limitOf(where: string, options: PolicyOptions) {
  if (options.concurrency === undefined) {
    const { limit, window, algorithm = 'sliding-log' } = options;
    const what = `the algorithm of ${where}`;
    checkName('ERR_INVALID_ALGORITHM', what, algorithm, windowAlgorithmNames);
    const windowMs = checkDuration('ERR_INVALID_WINDOW', `the window of ${where}`, window);
    return { names: ['limit', 'window'], limit, windowMs, algorithm };
  }
  const { concurrency: limit, lease = '30s' } = options;
  const windowMs = checkDuration('ERR_INVALID_LEASE', `the lease of ${where}`, lease);
  return { names: ['concurrency', 'lease'], limit, windowMs, algorithm: 'concurrency' as const };
}

/** Returns a validated policy. Throws a `SluiceError` if the input is invalid. */
export function definePolicy(name: string, input: PolicyInput): Policy {
  const where = `policy \`${name}\``;
  const options = optionsOf(where, input);
  const { costs = {} } = options;
  const { names, limit, windowMs, algorithm } = limitOf(where, options);
  const buckets = ownNumber(where, options, 'buckets', 'ERR_INVALID_BUCKETS', MAX_BUCKETS);
  const bucketMs = isConcurrency({ algorithm })
    ? windowMs
    : Math.ceil(windowMs / Math.min(buckets ?? DEFAULT_BUCKETS, windowMs));
  const burst = ownNumber(where, options, 'burst', 'ERR_INVALID_BURST');
  checkProduct(where, 'burst x window', burst ?? 1, windowMs);
  const paramsOf = (whose: string, count: number): LimitParams => {
    // Accepts any integer, because `checkProduct` has a more specific message for large ones.
    if (!Number.isInteger(count) || count < 1) {
      const what = `the ${names[0]} of ${whose} to be an integer >= 1`;
      throw expected('ERR_INVALID_LIMIT', what, count);
    }
    checkProduct(whose, names.join(' x '), count, windowMs);
    return { limit: count, windowMs, bucketMs, capacity: burst ?? count };
  };
  const params = typeof limit === 'function' ? undefined : paramsOf(where, limit);
  const limitOfKey = limit as LimitOfKey;
  return {
    name,
    algorithm,
    windowMs,
    bucketMs,
    costs: costsOf(where, costs, params?.capacity),
    onFailure: checkAction(options.onFailure),
    block: blockOf(where, options.block),
    lease: isConcurrency({ algorithm })
      ? undefined
      : leaseOf(where, options as WindowPolicyOptions),
    params,
    paramsFor: (key: string) => params ?? paramsOf(`${where} for this key`, limitOfKey(key)),
  };
}
