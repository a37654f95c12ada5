/** Validates the options of `rateLimit` and applies the defaults. */
import { checkFields, checkMethods, expected, isInteger, isRecord } from '../errors.ts';
import { checkAction } from '../policy.ts';
import type { Store } from '../store.ts';
import { ADDRESS_FIELDS, type AddressOptions, wholeAddress } from './client-address.ts';
import {
  EXPRESS_RATE_LIMIT_FIELDS,
  type ExpressRateLimitOptions,
  headerFormsOf,
  withSluiceNames,
} from './express-rate-limit.ts';
import { headerForms } from './headers.ts';
import type {
  KeySource,
  RequestLimit,
  RequestOptions,
  ResolvedLimit,
  ResolvedOptions,
} from './options.ts';

type GivenOptions<R> = RequestOptions<R> & ExpressRateLimitOptions<R>;

/** Options of a single limit that the entries of `limits` have instead. */
const POLICY_FIELDS = ['name', 'window', 'algorithm', 'buckets', 'burst', 'key', 'cost'] as const;
const LIMIT_FIELDS = ['limit', ...POLICY_FIELDS, 'shadow', 'onFailure'];
const SINGLE_LIMIT_FIELDS = [...POLICY_FIELDS, 'windowMs', 'keyGenerator', 'identifier'];
const REQUEST_FIELDS = [
  ...['limits', 'store', 'skip', 'allow', 'deny', 'count', 'settle', 'headers', 'onShadow'],
];
/** Options that are functions, in any adapter. */
const FUNCTION_FIELDS = [
  ...['skip', 'settle', 'keyGenerator', 'handler', 'address', 'onError', 'requestWasSuccessful'],
  'onShadow',
];
const COUNTS = ['all', 'failures', 'successes'];

function reject(what: string, got: unknown): never {
  throw expected('ERR_INVALID_OPTION', what, got);
}

function checkTypes(given: object): void {
  const { statusCode: status } = given as { statusCode?: unknown };
  if (status !== undefined && !(isInteger(status, 100) && status < 1000)) {
    reject('`statusCode` to be an integer from 100 to 999', status);
  }
  for (const [name, value] of Object.entries(given)) {
    if (!FUNCTION_FIELDS.includes(name) || value === undefined) continue;
    if (typeof value !== 'function') reject(`\`${name}\` to be a function`, value);
  }
  const {
    allow = [],
    deny = [],
    headers = 'draft',
    count = 'all',
    store,
  } = given as GivenOptions<never>;
  for (const [name, list] of Object.entries({ allow, deny })) {
    if (!Array.isArray(list)) reject(`\`${name}\` to be a list of addresses and networks`, list);
  }
  if (!Object.hasOwn(headerForms, headers)) {
    reject(`\`headers\` to be one of ${Object.keys(headerForms).join(' ')}`, headers);
  }
  if (!COUNTS.includes(count)) reject(`\`count\` to be one of ${COUNTS.join(' ')}`, count);
  if (store !== undefined) checkMethods('`store` to be a store', store, 'decide');
}

function checkLimits(given: object, limits: unknown): void {
  if (!Array.isArray(limits) || limits.length === 0) {
    reject('`limits` to be an array of at least one limit', limits);
  }
  const misplaced = Object.entries(given).find(
    ([name, value]) => value !== undefined && SINGLE_LIMIT_FIELDS.includes(name),
  );
  if (misplaced === undefined) return;
  reject(`\`${misplaced[0]}\` in each of \`limits\`, not beside it`, misplaced[1]);
}

function resolveKey<R>(key: KeySource<R>): KeySource<R> {
  if (key === 'address' || typeof key === 'function') return key;
  if (isRecord(key) && typeof key.header === 'string' && key.header !== '') {
    return { header: key.header.toLowerCase() };
  }
  return reject("`key` to be 'address', { header: 'name' } or a function", key);
}

function resolveLimit<R>(given: RequestLimit<R>, defaultName: string): ResolvedLimit<R> {
  checkFields(given, LIMIT_FIELDS);
  const { name = defaultName, limit, key = 'address', cost = 1, shadow = false, ...rest } = given;
  const policy = { ...rest, window: rest.window === undefined ? '1m' : rest.window };
  if (typeof name !== 'string' || name === '') reject('`name` to be a non-empty string', name);
  if (typeof cost !== 'function' && !isInteger(cost, 1)) {
    throw expected('ERR_INVALID_COST', '`cost` to be an integer >= 1 or a function', cost);
  }
  if (typeof shadow !== 'boolean') reject('`shadow` to be true or false', shadow);
  return { name, policy, limit, key: resolveKey(key), cost, shadow };
}

/** Resolves the limits of `options`: the entries of `limits`, or the one beside them. */
function resolveLimits<R>(options: RequestOptions<R>): readonly ResolvedLimit<R>[] {
  const { limit, limits = [{ ...picked(options, POLICY_FIELDS), limit: limit! }] } = options;
  const { shadow = false } = options;
  const first = defaultName(options.store);
  const resolved = limits.map((each, index) =>
    resolveLimit(
      { ...each, shadow: shadow || (each.shadow ?? false) },
      index === 0 ? first : `${first}-${index + 1}`,
    ),
  );
  const names = resolved.map(({ name }) => name);
  if (new Set(names).size < names.length) reject('a unique `name` for each limit', names.join(' '));
  return resolved;
}

function picked<T extends object, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  const present = names.filter((name) => from[name] !== undefined);
  return Object.fromEntries(present.map((name) => [name, from[name]])) as Pick<T, K>;
}

/** Validates and resolves options. `adapterFields` are the names of the adapter's own options. */
export function resolveOptions<R>(
  given: GivenOptions<R>,
  adapterFields: readonly string[] = [],
): ResolvedOptions<R> {
  checkFields(given, [
    ...new Set([...LIMIT_FIELDS, ...REQUEST_FIELDS, ...ADDRESS_FIELDS]),
    ...EXPRESS_RATE_LIMIT_FIELDS,
    ...adapterFields,
  ]);
  checkTypes(given);
  const options = withSluiceNames(given);
  const { limit, limits, store, skip, allow = [], deny = [], count = 'all', settle } = options;
  if ((limits === undefined) === (limit === undefined)) {
    reject('`limit` with `window`, or `limits`', limits ?? limit);
  }
  if (limits !== undefined) checkLimits(given, limits);
  return {
    limits: resolveLimits(options),
    address: picked<AddressOptions, keyof AddressOptions>(options, ADDRESS_FIELDS),
    store,
    onFailure: checkAction(options.onFailure),
    skip,
    allow,
    deny,
    count,
    settle,
    onShadow: options.onShadow,
    succeeded: undefined,
    forms: headerFormsOf(given as never),
  };
}

/** Whether options define a limit, rather than defaults for the limits of routes. */
export function hasLimit(options: object): boolean {
  return ['limit', 'limits', 'max', 'windowMs'].some((name) => name in options);
}

/** Validates options that define no limit. */
export function checkShared(options: object, adapterFields: readonly string[] = []): void {
  // Without the store, because resolving would use up one of its default names.
  const valid = { ...options, limit: 1, store: undefined } as never;
  const { address } = resolveOptions(valid, adapterFields);
  wholeAddress(address);
}

/** Returns the shared options that apply to a route with its own limit: all but the limit. */
export function inherited<T extends object>(shared: T, own: object): Partial<T> {
  const excluded = ['limit', 'limits', 'max', 'window', 'windowMs', 'name', 'identifier'];
  if ('limits' in own) excluded.push(...SINGLE_LIMIT_FIELDS);
  if ('key' in own || 'keyGenerator' in own) excluded.push('key', 'keyGenerator');
  return Object.fromEntries(
    Object.entries(shared).filter(([name]) => !excluded.includes(name)),
  ) as Partial<T>;
}

/** Number of limiters without a name by store. */
const unnamedLimiters = new WeakMap<Store, number>();

/**
 * Returns `default`, `default.2` and so on for the limiters of a store, so that they do not share
 * counters by accident. Processes that build their limiters in the same order get the same names.
 */
function defaultName(store: Store | undefined): string {
  if (store === undefined) return 'default';
  const count = (unnamedLimiters.get(store) ?? 0) + 1;
  unnamedLimiters.set(store, count);
  return count === 1 ? 'default' : `default.${count}`;
}
