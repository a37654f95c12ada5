/** Validates the options of `rateLimit` and applies the defaults. */
import { checkMethods, expected, isInteger, isRecord } from '../errors.ts';
import type { LimiterCore } from '../limiter.ts';
import { checkAction } from '../policy.ts';
import type { Store } from '../store.ts';
import { checkOptionNames } from './check-options.ts';
import { ADDRESS_FIELDS, type AddressOptions, clientKeys } from './client-address.ts';
import {
  EXPRESS_RATE_LIMIT_FIELDS,
  type ExpressRateLimitOptions,
  headerFormsOf,
  withSluiceNames,
} from './compat/express-rate-limit.ts';
import { warnOfHeaderKeys } from './header-keys.ts';
import { headerForms } from './headers.ts';
import type {
  ConcurrencyLimit,
  KeySource,
  PolicyLimit,
  RequestLimit,
  RequestOptions,
  ResolvedLimit,
  ResolvedOptions,
} from './options.ts';

type GivenOptions<R> = RequestOptions<R> & ExpressRateLimitOptions<R>;

/** Options of a single limit. If `limits` is set, they must be in its entries instead. */
const POLICY_FIELDS = ['name', 'window', 'algorithm', 'buckets', 'burst', 'key', 'cost'] as const;
const POLICY_LIMIT_FIELDS = ['policy', 'key', 'cost', 'shadow'] as const;
const LIMIT_FIELDS = ['limit', ...POLICY_FIELDS, 'shadow', 'onFailure'];
const CONCURRENCY_FIELDS = ['concurrency', 'lease'] as const;
const CONCURRENCY_LIMIT_FIELDS = [
  ...CONCURRENCY_FIELDS,
  ...['name', 'key', 'cost', 'shadow', 'onFailure'],
];
const SINGLE_LIMIT_FIELDS = [
  ...[...POLICY_FIELDS, ...CONCURRENCY_FIELDS],
  ...['policy', 'windowMs', 'keyGenerator', 'identifier'],
];
const REQUEST_FIELDS = [
  ...['limits', 'limiter', 'policy', 'store', 'skip', 'allow', 'deny', 'count', 'settle'],
  ...['headers', 'onDecision', 'onShadow'],
];
/** Options that the policies and the store of `limiter` replace. */
const REPLACED_FIELDS = [
  ...['limit', 'max', 'name', 'identifier', 'window', 'windowMs', 'store'],
  ...['algorithm', 'buckets', 'burst', ...CONCURRENCY_FIELDS],
];
/** Options that are functions, in any adapter. */
const FUNCTION_FIELDS = [
  ...['skip', 'settle', 'keyGenerator', 'handler', 'address', 'onError', 'requestWasSuccessful'],
  ...['onDecision', 'onShadow'],
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

/** Checks `limiter` and `policy`, and that no option contradicts them. */
function checkLimiter<R>(given: GivenOptions<R>): void {
  const { limiter, policy, limits } = given;
  const { policies } = (limiter ?? {}) as { policies?: { policy?: unknown } };
  if (typeof policies?.policy !== 'function') {
    reject('`limiter` to be a limiter of `createLimiter`', limiter);
  }
  if ((limits === undefined) === (policy === undefined)) {
    reject('`policy` or `limits` beside `limiter`', policy);
  }
  const replaced = Object.entries(given).find(
    ([name, value]) => value !== undefined && REPLACED_FIELDS.includes(name),
  );
  if (replaced === undefined) return;
  reject(`\`${replaced[0]}\` in \`limiter\`, not beside it`, replaced[1]);
}

function resolveKey<R>(key: KeySource<R>): KeySource<R> {
  if (key === 'address' || typeof key === 'function') return key;
  if (isRecord(key) && typeof key.header === 'string' && key.header !== '') {
    checkOptionNames(key, ['header', 'authenticated']);
    const { authenticated = false } = key;
    if (typeof authenticated !== 'boolean') {
      reject('`authenticated` to be true or false', authenticated);
    }
    return { header: key.header.toLowerCase() };
  }
  return reject("`key` to be 'address', { header: 'name' } or a function", key);
}

function resolveLimit<R>(
  given: RequestLimit<R> | ConcurrencyLimit<R>,
  defaultName: string,
): ResolvedLimit<R> {
  if ('concurrency' in given) return resolveConcurrency(given, defaultName);
  checkOptionNames(given, LIMIT_FIELDS);
  const { name = defaultName, limit, key, cost, shadow, ...rest } = given;
  const policy = { ...rest, window: rest.window === undefined ? '1m' : rest.window };
  return { name: checkName(name), policy, limit, ...resolveUse(given) };
}

function resolveConcurrency<R>(given: ConcurrencyLimit<R>, defaultName: string): ResolvedLimit<R> {
  checkOptionNames(given, CONCURRENCY_LIMIT_FIELDS);
  const { name = defaultName, key, cost, shadow, ...policy } = given;
  if (!isInteger(policy.concurrency, 1)) {
    throw expected('ERR_INVALID_LIMIT', '`concurrency` to be an integer >= 1', policy.concurrency);
  }
  return { name: checkName(name), policy, limit: undefined, ...resolveUse(given) };
}

function checkName(name: unknown): string {
  if (typeof name === 'string' && name !== '') return name;
  return reject('`name` to be a non-empty string', name);
}

/** Resolves a limit by a policy of `limiter`, which validates the name. */
function resolvePolicyLimit<R>(given: PolicyLimit<R>): ResolvedLimit<R> {
  checkOptionNames(given, POLICY_LIMIT_FIELDS);
  const { policy: name } = given;
  return { name, policy: undefined, limit: undefined, ...resolveUse(given) };
}

/** Resolves the options that both kinds of limits have. */
function resolveUse<R>(
  given: Pick<RequestLimit<R>, 'key' | 'cost' | 'shadow'>,
): Pick<ResolvedLimit<R>, 'key' | 'cost' | 'shadow'> {
  const { key = 'address', cost = 1, shadow = false } = given;
  if (typeof cost !== 'function' && !isInteger(cost, 0)) {
    throw expected('ERR_INVALID_COST', '`cost` to be an integer >= 0 or a function', cost);
  }
  if (typeof shadow !== 'boolean') reject('`shadow` to be true or false', shadow);
  return { key: resolveKey(key), cost, shadow };
}

/** Resolves the limits of `options`: the entries of `limits`, or the single limit. */
function resolveLimits<R>(options: RequestOptions<R>): readonly ResolvedLimit<R>[] {
  const { limiter, limits, shadow: isShadow = false } = options;
  const own = limiter ? [pick(options, POLICY_LIMIT_FIELDS)] : ownLimits(options);
  const first = limiter ? '' : defaultName(options.store);
  const entries = (limits ?? own) as readonly { shadow?: boolean; key?: KeySource<R> }[];
  const resolved = entries.map((each, index) => {
    const given = { ...each, shadow: isShadow || (each.shadow ?? false) };
    if (limiter !== undefined) return resolvePolicyLimit(given as PolicyLimit<R>);
    const name = index === 0 ? first : `${first}-${limits ? index + 1 : 'concurrency'}`;
    return resolveLimit(given as RequestLimit<R>, name);
  });
  if (!isShadow) warnOfHeaderKeys(entries, options.onWarning);
  const names = resolved.map(({ name }) => name);
  if (new Set(names).size < names.length) reject('a unique `name` for each limit', names.join(' '));
  return resolved;
}

/** Returns the limits of options without `limits`: by `limit`, `concurrency` or both. */
function ownLimits<R>(options: RequestOptions<R>): object[] {
  const { limit, concurrency, name } = options;
  if (concurrency === undefined) {
    return [{ ...pick(options, POLICY_FIELDS), ...pick(options, ['lease']), limit }];
  }
  const held = pick(options, [...CONCURRENCY_FIELDS, 'key']);
  // The option `cost` applies to the window limit. In the concurrency limit, a request costs 1.
  if (limit !== undefined) {
    const second = name === undefined ? held : { ...held, name: `${name}-concurrency` };
    return [{ ...pick(options, POLICY_FIELDS), limit }, second];
  }
  return [{ ...pick(options, POLICY_FIELDS), ...held }];
}

function pick<T extends object, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  const present = names.filter((name) => from[name] !== undefined);
  return Object.fromEntries(present.map((name) => [name, from[name]])) as Pick<T, K>;
}

/** Validates and resolves options. `adapterFields` are the names of the adapter's own options. */
export function resolveOptions<R>(
  given: GivenOptions<R>,
  adapterFields: readonly string[] = [],
): ResolvedOptions<R> {
  checkOptionNames(given, [
    ...new Set([...LIMIT_FIELDS, ...CONCURRENCY_FIELDS, ...REQUEST_FIELDS, ...ADDRESS_FIELDS]),
    ...EXPRESS_RATE_LIMIT_FIELDS,
    ...adapterFields,
  ]);
  checkTypes(given);
  const options = withSluiceNames(given);
  const { limits, store, skip, allow = [], deny = [], count = 'all', settle } = options;
  const { limiter, limit = options.concurrency } = options;
  if (limiter !== undefined || usesLimiter(given)) checkLimiter(given);
  else if ((limits === undefined) === (limit === undefined)) {
    reject('`limit` with `window`, `concurrency`, or `limits`', limits ?? limit);
  }
  if (limits !== undefined) checkLimits(given, limits);
  return {
    limits: resolveLimits(options),
    address: pick<AddressOptions, keyof AddressOptions>(options, ADDRESS_FIELDS),
    store,
    limiter: limiter as unknown as LimiterCore | undefined,
    onFailure: checkAction(options.onFailure),
    skip,
    allow,
    deny,
    count,
    settle,
    onDecision: options.onDecision,
    onShadow: options.onShadow,
    succeeded: undefined,
    forms: headerFormsOf(given as never),
  };
}

/** Whether options define a limit, rather than defaults for the limits of routes. */
export function hasLimit(options: object): boolean {
  const names = ['limit', 'limits', 'concurrency', 'max', 'windowMs', 'policy'];
  return names.some((name) => name in options);
}

/** Validates options that define no limit. */
export function validateShared(options: object, adapterFields: readonly string[] = []): void {
  const { limiter } = options as GivenOptions<never>;
  if (limiter !== undefined) checkLimiter({ ...options, policy: 'any' });
  // Without the store, because `defaultName` would count a limiter that does not exist.
  const valid = { ...options, limit: 1, store: undefined, limiter: undefined } as never;
  const { address } = resolveOptions(valid, adapterFields);
  clientKeys(address);
}

/** Returns the shared options for a route with its own limit: all except the shared limit. */
export function inheritedOptions<T extends object>(shared: T, own: object): Partial<T> {
  const excluded = ['limit', 'limits', 'max', 'window', 'windowMs', 'name', 'identifier', 'policy'];
  excluded.push(...CONCURRENCY_FIELDS);
  excluded.push(...(usesLimiter(own) ? REPLACED_FIELDS : ['limiter']));
  if ('limits' in own) excluded.push(...SINGLE_LIMIT_FIELDS);
  if ('key' in own || 'keyGenerator' in own) excluded.push('key', 'keyGenerator');
  return Object.fromEntries(
    Object.entries(shared).filter(([name]) => !excluded.includes(name)),
  ) as Partial<T>;
}

/** Whether a limit is a policy of `limiter`. */
function usesLimiter<R>({ policy, limits }: GivenOptions<R>): boolean {
  if (policy !== undefined) return true;
  return Array.isArray(limits) && limits.some((each) => isRecord(each) && 'policy' in each);
}

/** The number of limiters without a name, by store. */
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
