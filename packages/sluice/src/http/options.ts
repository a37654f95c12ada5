/**
 * What can be said about limiting requests, in our words and in those of express-rate-limit, made
 * into one form. Everything that can be wrong is refused here, when the limiter is built.
 */

import type { Decision } from '../decision.ts';
import { checkFields, checkMethods, expected, isInteger, isRecord } from '../errors.ts';
import type { Key } from '../key.ts';
import { checkAction, type Duration, type FailureAction, type PolicyOptions } from '../policy.ts';
import type { Store } from '../store.ts';
import { type AddressOptions, wholeAddress } from './client-address.ts';
import { type HeaderForm, headerForms } from './headers.ts';

type Maybe<T> = T | Promise<T>;

/** Whom a limit counts: the client's address, the value of a header, or what a function says. */
export type KeySource<R> =
  | 'address'
  | { readonly header: string }
  | ((request: R) => Maybe<Key | number>);

/** One limit on requests: a policy, whom it counts, and what a request costs. */
export interface RequestLimit<R> extends Omit<PolicyOptions, 'limit' | 'window' | 'costs'> {
  /** What the headers and reports call it. Default `'default'`, or its place among several. */
  readonly name?: string;
  readonly limit: number | ((request: R) => Maybe<number>);
  /** Default `'1m'`. */
  readonly window?: Duration;
  /** Default `'address'`. */
  readonly key?: KeySource<R>;
  /** Default 1. */
  readonly cost?: number | ((request: R) => Maybe<number>);
  /** Decided and reported, but never in the way. */
  readonly shadow?: boolean;
}

/** How a request ended. */
export interface ResponseOutcome<R> {
  readonly request: R;
  readonly status: number;
  /** False if the client was gone before the answer was complete. */
  readonly finished: boolean;
  /** How many bytes the body had, if the answer said so. */
  readonly bytes: number | undefined;
}

export interface RequestOptions<R> extends AddressOptions {
  /** One limit; or several in `limits`, decided together. */
  readonly limit?: RequestLimit<R>['limit'];
  readonly window?: Duration;
  readonly name?: string;
  readonly algorithm?: PolicyOptions['algorithm'];
  readonly buckets?: number;
  readonly burst?: number;
  readonly key?: KeySource<R>;
  readonly cost?: RequestLimit<R>['cost'];
  readonly limits?: readonly RequestLimit<R>[];
  /** Where the counters are. Default: this process's memory. */
  readonly store?: Store;
  readonly onFailure?: FailureAction;
  /** Requests for which nothing is decided. */
  readonly skip?: (request: R) => Maybe<boolean>;
  /** Addresses, networks such as `10.0.0.0/8` that always pass, or are always refused with 403. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Which requests count in the end: those that failed (400 and above), those that did not. */
  readonly count?: 'all' | 'failures' | 'successes';
  /** What the request really cost, known when it is over; undefined leaves the cost as it was. */
  readonly settle?: (outcome: ResponseOutcome<R>) => Maybe<number | undefined>;
  /** Decides and reports, but lets everybody pass. */
  readonly shadow?: boolean;
  /** Told what the limits say that are only watched, for each request that passes the others. */
  readonly onShadow?: (decision: Decision, request: R) => void;
  /** Default `'draft'`: the newest of the IETF. */
  readonly headers?: HeaderForm;
}

/** The names that express-rate-limit has for the same things. */
export interface ExpressRateLimitOptions<R> {
  readonly windowMs?: number;
  readonly max?: RequestLimit<R>['limit'];
  readonly keyGenerator?: (request: R, response: never) => Maybe<string | number>;
  readonly standardHeaders?: boolean | 'draft-6' | 'draft-7' | 'draft-8';
  readonly legacyHeaders?: boolean;
  readonly skipSuccessfulRequests?: boolean;
  readonly skipFailedRequests?: boolean;
  readonly passOnStoreError?: boolean;
  /** Our `name`. */
  readonly identifier?: string;
  /** Our `ipv6Prefix`; false is the whole address. */
  readonly ipv6Subnet?: number | false;
}

/** A limit with nothing left to guess. */
export interface ResolvedLimit<R> {
  readonly name: string;
  readonly policy: Omit<PolicyOptions, 'limit'>;
  readonly limit: RequestLimit<R>['limit'];
  readonly key: KeySource<R>;
  readonly cost: number | ((request: R) => Maybe<number>);
  readonly shadow: boolean;
}

export interface ResolvedOptions<R> {
  readonly limits: readonly ResolvedLimit<R>[];
  readonly address: AddressOptions;
  readonly store: Store | undefined;
  readonly onFailure: FailureAction | undefined;
  readonly skip: ((request: R) => Maybe<boolean>) | undefined;
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  readonly count: 'all' | 'failures' | 'successes';
  readonly settle: RequestOptions<R>['settle'] | undefined;
  readonly onShadow: RequestOptions<R>['onShadow'] | undefined;
  /** Says whether a request went well, if not its status does. */
  readonly succeeded: ((outcome: ResponseOutcome<R>) => boolean) | undefined;
  readonly forms: readonly HeaderForm[];
}

const LIMIT_FIELDS = [
  ...['name', 'limit', 'window', 'algorithm', 'buckets', 'burst', 'key', 'cost', 'shadow'],
  'onFailure',
];
const ADDRESS_FIELDS = ['trustProxy', 'forwardedHeader', 'ipv6Prefix', 'onWarning'];
/** What belongs to one limit, and is said in each of several. */
const ONE_LIMIT_FIELDS = [
  ...['name', 'window', 'algorithm', 'buckets', 'burst', 'key', 'cost'],
  ...['windowMs', 'keyGenerator', 'identifier'],
];
/** Options that are functions, in any adapter. */
const FUNCTION_FIELDS = [
  ...['skip', 'settle', 'keyGenerator', 'handler', 'address', 'onError', 'requestWasSuccessful'],
  'onShadow',
];
const OWN_FIELDS = [
  ...['limits', 'store', 'skip', 'allow', 'deny', 'count', 'settle', 'headers', 'onShadow'],
];
const FAMILIAR_FIELDS = [
  ...['windowMs', 'max', 'keyGenerator', 'standardHeaders', 'legacyHeaders'],
  ...['skipSuccessfulRequests', 'skipFailedRequests', 'passOnStoreError'],
  ...['identifier', 'ipv6Subnet'],
];

const COUNTS = ['all', 'failures', 'successes'];

function refuse(what: string, came: unknown): never {
  throw expected('ERR_INVALID_OPTION', what, came);
}

/** Refuses two names for one thing that disagree. */
function either<T>(ours: T | undefined, theirs: T | undefined, names: string): T | undefined {
  if (ours !== undefined && theirs !== undefined) refuse(`one of ${names}, not both`, theirs);
  return ours ?? theirs;
}

function checkKey(key: unknown): void {
  if (key === 'address' || typeof key === 'function') return;
  if (isRecord(key) && typeof key.header === 'string' && key.header !== '') return;
  refuse("`key` to be 'address', { header: 'name' } or a function", key);
}

/** Refuses what could not be called, or answered with, when a request comes. */
function checkKinds(given: object): void {
  const { statusCode: status } = given as { statusCode?: unknown };
  if (status !== undefined && !(isInteger(status, 100) && status < 1000)) {
    refuse('`statusCode` to be a status', status);
  }
  for (const [name, value] of Object.entries(given)) {
    if (!FUNCTION_FIELDS.includes(name) || value === undefined) continue;
    if (typeof value !== 'function') refuse(`\`${name}\` to be a function`, value);
  }
}

function checkCost(cost: unknown): void {
  if (typeof cost === 'function' || isInteger(cost, 1)) return;
  throw expected('ERR_INVALID_COST', '`cost` to be an integer >= 1 or a function', cost);
}

function checkList(name: string, list: unknown): void {
  if (!Array.isArray(list)) refuse(`\`${name}\` to be a list of addresses and networks`, list);
}

function checkLimits(given: object, limits: unknown): void {
  if (!Array.isArray(limits) || limits.length === 0) {
    refuse('`limits` to be an array of at least one limit', limits);
  }
  const stray = Object.entries(given).find(
    ([name, value]) => value !== undefined && ONE_LIMIT_FIELDS.includes(name),
  );
  if (stray !== undefined) refuse(`\`${stray[0]}\` in each of \`limits\`, not beside`, stray[1]);
}

function resolveLimit<R>(given: RequestLimit<R>, fallback: string): ResolvedLimit<R> {
  checkFields(given, LIMIT_FIELDS);
  const { name = fallback, limit, key = 'address', cost = 1, shadow = false, ...rest } = given;
  const policy = { ...rest, window: rest.window === undefined ? '1m' : rest.window };
  if (typeof name !== 'string' || name === '') refuse('`name` to be text', name);
  checkKey(key);
  checkCost(cost);
  if (typeof shadow !== 'boolean') refuse('`shadow` to be true or false', shadow);
  return { name, policy, limit, key: lowerCase(key), cost, shadow };
}

/** Headers are asked for by their names in lower case. */
function lowerCase<R>(key: KeySource<R>): KeySource<R> {
  return typeof key === 'object' ? { header: key.header.toLowerCase() } : key;
}

/** The header forms to send, in our words or in theirs. */
function formsOf(
  headers: HeaderForm | undefined,
  { standardHeaders, legacyHeaders }: ExpressRateLimitOptions<never>,
): HeaderForm[] {
  if (headers !== undefined && !Object.hasOwn(headerForms, headers)) {
    refuse(`\`headers\` to be one of ${Object.keys(headerForms).join(' ')}`, headers);
  }
  if (standardHeaders === undefined && legacyHeaders === undefined) return [headers ?? 'draft'];
  if (headers !== undefined) refuse('one of headers and standardHeaders, not both', headers);
  const standard: Record<string, HeaderForm> = {
    true: 'draft-6',
    false: 'none',
    'draft-6': 'draft-6',
    'draft-7': 'draft-7',
    'draft-8': 'draft',
  };
  const form = standard[String(standardHeaders ?? false)];
  if (form === undefined) refuse('`standardHeaders` to be a boolean or a draft', standardHeaders);
  // There, the old headers are on unless they are turned off.
  return (legacyHeaders ?? true) ? [form, 'legacy'] : [form];
}

function countOf({
  count,
  skipSuccessfulRequests,
  skipFailedRequests,
}: RequestOptions<never> & ExpressRateLimitOptions<never>): 'all' | 'failures' | 'successes' {
  if (count !== undefined && !COUNTS.includes(count)) {
    refuse(`\`count\` to be one of ${COUNTS.join(' ')}`, count);
  }
  if (skipSuccessfulRequests && skipFailedRequests) {
    refuse('one of skipSuccessfulRequests and skipFailedRequests, not both', true);
  }
  const theirs = skipSuccessfulRequests ? 'failures' : skipFailedRequests ? 'successes' : undefined;
  return either(count, theirs, 'count and those that skip requests') ?? 'all';
}

/** Makes one form of the options; `more` are the names that an adapter takes for itself. */
export function resolveOptions<R>(
  given: RequestOptions<R> & ExpressRateLimitOptions<R>,
  more: readonly string[] = [],
): ResolvedOptions<R> {
  const known = [...LIMIT_FIELDS, ...OWN_FIELDS, ...ADDRESS_FIELDS, ...FAMILIAR_FIELDS, ...more];
  checkFields(given, known);
  checkKinds(given);
  const { limits, store, skip, allow = [], deny = [], settle, onFailure, shadow = false } = given;
  const address = addressOptions(given);
  checkList('allow', allow);
  checkList('deny', deny);
  if (store !== undefined) checkMethods('`store` to be a store', store, 'decide');
  // Whoever speaks of windowMs expects what express-rate-limit does: five, unless told.
  const isExpressRateLimitOptions = given.windowMs !== undefined && limits === undefined;
  const limit =
    either(given.limit, given.max, 'limit and max') ?? (isExpressRateLimitOptions ? 5 : undefined);
  if ((limits === undefined) === (limit === undefined)) {
    refuse('`limit` with `window`, or `limits`', limits ?? limit);
  }
  if (limits !== undefined) checkLimits(given, limits);
  const passed = given.passOnStoreError ? 'allow' : undefined;
  const first = defaultName(store);
  const all = (limits ?? [onlyLimit(given, limit!)]).map((each, place) => {
    const fallback = place === 0 ? first : `${first}-${place + 1}`;
    return resolveLimit({ ...each, shadow: shadow || (each.shadow ?? false) }, fallback);
  });
  if (new Set(all.map(({ name }) => name)).size < all.length) {
    refuse('a `name` of its own for each limit', all.map(({ name }) => name).join(' '));
  }
  return {
    limits: all,
    address,
    store,
    onFailure: checkAction(either(onFailure, passed, 'onFailure and passOnStoreError')),
    skip,
    allow,
    deny,
    count: countOf(given as never),
    settle,
    onShadow: given.onShadow,
    succeeded: undefined,
    forms: formsOf(given.headers, given as never),
  };
}

/** What is said about addresses, under their name for the prefix as well. */
function addressOptions<R>(given: RequestOptions<R> & ExpressRateLimitOptions<R>): AddressOptions {
  const { ipv6Subnet } = given;
  const theirs = ipv6Subnet === false ? 128 : ipv6Subnet;
  const ipv6Prefix = either(given.ipv6Prefix, theirs, 'ipv6Prefix and ipv6Subnet');
  const present = Object.entries({ ...given, ipv6Prefix }).filter(
    ([name, value]) => ADDRESS_FIELDS.includes(name) && value !== undefined,
  );
  return Object.fromEntries(present);
}

/** Whether options say a limit, and not only what holds for those that others say. */
export function hasLimit(options: object): boolean {
  return ['limit', 'limits', 'max', 'windowMs'].some((name) => name in options);
}

/** Refuses what cannot be right in options that say no limit themselves. */
export function checkShared(options: object, more: readonly string[] = []): void {
  // With a store of its own, so that it does not count as one of those that share theirs.
  const { address } = resolveOptions({ ...options, limit: 1, store: undefined } as never, more);
  wholeAddress(address);
}

/** What a limit of its own takes from the options of all: everything but their limit. */
export function inherited<T extends object>(shared: T, own: object): Partial<T> {
  const left = ['limit', 'limits', 'max', 'window', 'windowMs', 'name', 'identifier'];
  if ('limits' in own) left.push(...ONE_LIMIT_FIELDS);
  if ('key' in own || 'keyGenerator' in own) left.push('key', 'keyGenerator');
  return Object.fromEntries(
    Object.entries(shared).filter(([name]) => !left.includes(name)),
  ) as Partial<T>;
}

/** How many limiters without a name have been built on a store. */
const unnamed = new WeakMap<Store, number>();

/**
 * Limiters that share a store must not share counters by accident, so each gets a name of its own:
 * the same one in every process that builds them in the same order. A name says that they shall.
 */
function defaultName(store: Store | undefined): string {
  if (store === undefined) return 'default';
  const count = (unnamed.get(store) ?? 0) + 1;
  unnamed.set(store, count);
  return count === 1 ? 'default' : `default.${count}`;
}

/** The limit that is spelt out among the options. */
function onlyLimit<R>(
  given: RequestOptions<R> & ExpressRateLimitOptions<R>,
  limit: RequestLimit<R>['limit'],
): RequestLimit<R> {
  const { algorithm, buckets, burst, cost } = given;
  const name = either(given.name, given.identifier, 'name and identifier');
  const window = either(given.window, given.windowMs, 'window and windowMs');
  const generate = given.keyGenerator as ((request: R) => Maybe<string | number>) | undefined;
  const key = either<KeySource<R>>(given.key, generate, 'key and keyGenerator');
  const optional = { name, window, algorithm, buckets, burst, key, cost };
  const present = Object.entries(optional).filter(([, value]) => value !== undefined);
  return { limit, ...Object.fromEntries(present) } as RequestLimit<R>;
}
