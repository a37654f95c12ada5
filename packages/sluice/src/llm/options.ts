/** The options of `llmFetch`: documentation, validation and defaults. */
import type { Policies } from '../api.ts';
import { type Clock, scheduleInBackground, systemClock } from '../clock.ts';
import { checkInteger, checkMethods, expected } from '../errors.ts';
import { checkOptionNames } from '../http/check-options.ts';
import type { Key } from '../key.ts';
import type { CallSettlement, Unit } from './call-record.ts';
import type { Fetch, ModelCall } from './model-call.ts';
import { checkModels, type ModelTable } from './models.ts';
import type { TokenBound } from './token-bound.ts';

/** A limit of the limiter that calls are charged to. */
export interface CallLimit<P extends Policies = Policies> {
  /**
   * The limiter's policy to charge. Required.
   *
   * @example policy: 'tokensPerMinute'
   */
  readonly policy: keyof P & string;
  /**
   * The key to charge, or a function of the call. Required.
   *
   * @example key: 'openai'
   * @example key: (call) => ['model', call.model]
   */
  readonly key: Key | ((call: ModelCall) => Key | Promise<Key>);
}

/** An estimate of the tokens of a call, which is reserved instead of the upper bounds. */
export type TokenEstimate = TokenBound;

export interface LlmFetchOptions<P extends Policies = Policies> {
  /**
   * The limit on requests: each call costs 1. Default: none.
   *
   * @example requests: { policy: 'requestsPerMinute', key: 'openai' }
   */
  readonly requests?: CallLimit<P>;
  /**
   * The limit on tokens, input and output together. Default: none.
   *
   * @example tokens: { policy: 'tokensPerMinute', key: 'openai' }
   */
  readonly tokens?: CallLimit<P>;
  /**
   * The limit on input tokens, including cached ones. Default: none.
   *
   * @example inputTokens: { policy: 'inputPerMinute', key: 'anthropic' }
   */
  readonly inputTokens?: CallLimit<P>;
  /**
   * The limit on output tokens, including reasoning. Default: none.
   *
   * @example outputTokens: { policy: 'outputPerMinute', key: 'anthropic' }
   */
  readonly outputTokens?: CallLimit<P>;
  /**
   * The limit on money, in millionths of the currency of `models`. Default: none. A policy of
   * `5000000/1d` with prices in dollars is 5 dollars per day.
   *
   * @example money: { policy: 'dailyBudget', key: 'team-a' }
   */
  readonly money?: CallLimit<P>;
  /**
   * The limit on calls at the same time, a policy with `concurrency`. A call holds its slot until
   * its response has been read. Default: none.
   *
   * @example slot: { policy: 'inFlight', key: 'openai' }
   */
  readonly slot?: CallLimit<P>;
  /**
   * Prices and token caps by name of the model. A name also applies to its dated versions, and `*`
   * to all other models. Default: none.
   *
   * @example models: { 'gpt-4o': { input: 2.5, output: 10, maxOutputTokens: 16_384 } }
   */
  readonly models?: ModelTable;
  /**
   * Returns the tokens to reserve, for calls that use much less than their upper bounds. If a call
   * uses more than its estimate, the difference is charged past the limit. Default: the bounds.
   *
   * @example estimate: (call) => ({ inputTokens: Math.ceil(call.bodyBytes / 3) })
   */
  readonly estimate?: (
    call: ModelCall,
    bound: TokenBound,
  ) => TokenEstimate | undefined | Promise<TokenEstimate | undefined>;
  /**
   * The longest time to wait for capacity before a call is sent, in ms. Default 0: no waiting.
   *
   * @example maxWaitMs: 30_000
   */
  readonly maxWaitMs?: number;
  /**
   * The result of a denied call: `'respond'` returns a 429 response in the provider's error shape,
   * `'throw'` throws an error with the code `ERR_RATE_LIMITED`. Default `'respond'`, because SDKs
   * retry such a response after its `Retry-After`, and report a thrown error as a lost connection.
   *
   * @example onDenied: 'throw'
   */
  readonly onDenied?: 'respond' | 'throw';
  /**
   * The name of the account whose limits the provider reports, or a function that returns it. After
   * a 429, all calls of the account wait. Default: the host and the model.
   *
   * @example account: (call) => call.headers.get('openai-organization') ?? 'default'
   */
  readonly account?: string | ((call: ModelCall) => string);
  /**
   * The longest time for which the rate-limit headers of the provider can delay later calls, in ms.
   * With 0, these headers are ignored. Default 600,000 (10 minutes).
   *
   * @example maxHoldMs: 60_000
   */
  readonly maxHoldMs?: number;
  /**
   * If no chunk of a response was read for this time, in ms, the response is cancelled and the call
   * is settled. Default 600,000 (10 minutes).
   *
   * @example idleTimeoutMs: 120_000
   */
  readonly idleTimeoutMs?: number;
  /**
   * Called once for each call that was admitted, after it is settled. Default: none.
   *
   * @example onSettled: ({ call, charged }) => log.info({ model: call.model, ...charged })
   */
  readonly onSettled?: (settlement: CallSettlement) => unknown;
  /**
   * The function that sends the request. Default: the global `fetch`, looked up at each call.
   *
   * @example fetch: proxiedFetch
   */
  readonly fetch?: Fetch;
  /**
   * The clock for waits, renewals and timeouts. Default: the system clock.
   *
   * @example clock: new ManualClock()
   */
  readonly clock?: Clock;
}

export const UNITS: readonly Unit[] = [
  'requests',
  'tokens',
  'inputTokens',
  'outputTokens',
  'money',
];
const LIMITS = [...UNITS, 'slot'] as const;
const FIELDS = [
  ...LIMITS,
  ...['models', 'estimate', 'maxWaitMs', 'onDenied', 'account', 'maxHoldMs', 'idleTimeoutMs'],
  ...['onSettled', 'fetch', 'clock'],
];

const TEN_MINUTES_MS = 600_000;
/** A longer timer would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Timers that do not keep the process alive: an unread response must not. */
const backgroundClock: Clock = { now: systemClock.now, schedule: scheduleInBackground };

export interface ResolvedOptions {
  readonly limits: Pick<LlmFetchOptions, Unit | 'slot'>;
  readonly models: ModelTable;
  readonly estimate: LlmFetchOptions['estimate'];
  readonly maxWaitMs: number;
  readonly onDenied: 'respond' | 'throw';
  readonly accountOf: (call: ModelCall) => string;
  readonly maxHoldMs: number;
  readonly idleTimeoutMs: number;
  readonly onSettled: LlmFetchOptions['onSettled'];
  readonly fetch: Fetch;
  /** For waits of the caller. */
  readonly clock: Clock;
  /** For renewals and timeouts. */
  readonly background: Clock;
}

function checkFunction(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'function') return;
  throw expected('ERR_INVALID_OPTION', `\`${name}\` to be a function`, value);
}

function checkLimits(options: LlmFetchOptions): void {
  const given = LIMITS.filter((name) => options[name as Unit] !== undefined);
  if (given.length === 0) {
    throw expected('ERR_INVALID_OPTION', `a limit, one of: ${LIMITS.join(' ')}`, undefined);
  }
  for (const name of given) {
    const limit = options[name as Unit];
    checkOptionNames(limit, ['policy', 'key']);
    if (limit?.policy === undefined || limit.key === undefined) {
      throw expected('ERR_INVALID_OPTION', `\`${name}\` to have a policy and a key`, limit);
    }
  }
}

/** Returns the options with their defaults. Throws if one is invalid. */
export function resolveOptions(options: LlmFetchOptions): ResolvedOptions {
  checkOptionNames(options, FIELDS);
  checkLimits(options);
  const { models = {}, estimate, maxWaitMs = 0, onDenied = 'respond', account, clock } = options;
  const { maxHoldMs = TEN_MINUTES_MS, idleTimeoutMs = TEN_MINUTES_MS, onSettled } = options;
  checkModels(models);
  for (const name of ['estimate', 'onSettled', 'fetch'] as const) {
    checkFunction(name, options[name]);
  }
  if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
    throw expected('ERR_INVALID_WAIT', '`maxWaitMs` to be a number >= 0', maxWaitMs);
  }
  if (onDenied !== 'respond' && onDenied !== 'throw') {
    throw expected('ERR_INVALID_OPTION', "`onDenied` to be 'respond' or 'throw'", onDenied);
  }
  if (account !== undefined && typeof account !== 'string') checkFunction('account', account);
  checkInteger('ERR_INVALID_OPTION', '`maxHoldMs`', maxHoldMs, 0);
  checkInteger('ERR_INVALID_OPTION', '`idleTimeoutMs`', idleTimeoutMs, 1, MAX_TIMEOUT_MS);
  if (clock !== undefined) checkMethods('`clock` to be a clock', clock, 'now', 'schedule');
  return {
    limits: options,
    ...{ models, estimate, maxWaitMs, onDenied, maxHoldMs, idleTimeoutMs, onSettled },
    accountOf: accountBy(account),
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    clock: clock ?? systemClock,
    background: clock ?? backgroundClock,
  };
}

function accountBy(account: LlmFetchOptions['account']): (call: ModelCall) => string {
  if (typeof account === 'function') return account;
  if (account !== undefined) return () => account;
  return ({ url, model }) => JSON.stringify([url.host, model]);
}
