/**
 * Limits guesses of the admin token, at sign-in and as bearer tokens, with Sluice's own engine.
 * Each address has its own limit, so that guesses from one address do not lock out others. While
 * there are many failed attempts from all addresses, each address has fewer attempts.
 *
 * Each process counts attempts in its own memory. All processes also count together in the store of
 * the service. If the store is unavailable, only the counts in memory apply.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import {
  type CheckResult,
  type Clock,
  createLimiter,
  type Limit,
  memoryStore,
  type SyncLimiter,
  systemClock,
} from 'sluice';
import { headerReport } from 'sluice/engine';
import { type AddressReader, clientAddress, headerForms, retryAfter } from 'sluice/http';
import type { DecisionService } from '../decision-service.ts';
import type { AttemptLimiter } from '../http/access.ts';
import { HttpError, type RequestContext } from '../http/request-context.ts';
import { LineSampler, type Logger } from '../observe/log.ts';
import { RESERVED_PREFIX } from '../policies.ts';
import type { Settings } from '../settings.ts';
import { withTimeout } from '../with-timeout.ts';
import { auditLine, auditLog } from './audit.ts';

export const ATTEMPTS_PER_MINUTE = 10;
/**
 * Failed attempts of all addresses together. If there are more, each address has only two attempts.
 */
export const FAILURES_PER_MINUTE = 100;

const WINDOW_MS = 60_000;
const POLICIES = { attempts: `${ATTEMPTS_PER_MINUTE}/1m`, failures: `${FAILURES_PER_MINUTE}/1m` };
const LIMITS = { attempts: ATTEMPTS_PER_MINUTE, failures: FAILURES_PER_MINUTE };
type PolicyName = keyof typeof POLICIES;

/** The key that all addresses share. */
const ALL_ADDRESSES = 'all';
/** Cost of an attempt beyond `FAILURES_PER_MINUTE`: two attempts use up the limit of an address. */
const COST_IN_FLOOD = ATTEMPTS_PER_MINUTE / 2;
/** Maximum number of addresses in memory. Further addresses evict others. */
const MAX_ADDRESSES = 10_000;
/** Maximum number of failures per minute that are logged individually. */
const MAX_LINES = 10;
/** Timeout for a decision of the store of the service. */
const STORE_TIMEOUT_MS = 500;

const TEXTS = {
  'sign-in': { message: 'sign-in failed', others: 'more failed sign-ins not logged' },
  token: { message: 'token rejected', others: 'more rejected tokens not logged' },
} as const;
type Action = keyof typeof TEXTS;

type AttemptSettings = Pick<Settings, 'trustProxy' | 'forwardedHeader' | 'ipv6Prefix'>;

export class TokenAttempts implements AttemptLimiter {
  readonly #limiter: SyncLimiter<typeof POLICIES>;
  readonly #decisionService: DecisionService;
  /** Whether the store is shared with other processes. */
  readonly #isShared: boolean;
  readonly #addressOf: AddressReader;
  readonly #failures: Readonly<Record<Action, LineSampler>>;

  constructor(
    settings: AttemptSettings,
    decisionService: DecisionService,
    log: Logger,
    clock: Clock = systemClock,
  ) {
    const { trustProxy, forwardedHeader, ipv6Prefix } = settings;
    const store = memoryStore({ maxKeys: MAX_ADDRESSES });
    this.#limiter = createLimiter({ policies: POLICIES, store, clock });
    this.#decisionService = decisionService;
    // A synchronous store is in the memory of this process.
    this.#isShared = !('decideSync' in decisionService.store);
    this.#addressOf = clientAddress({
      ...{ forwardedHeader, ipv6Prefix },
      ...(trustProxy !== undefined && { trustProxy }),
      onWarning: ({ code, message }) => log.warn({ code }, message),
    });
    const lines = (action: Action): LineSampler => {
      const options = { maxLines: MAX_LINES, periodMs: WINDOW_MS, ...TEXTS[action] };
      return new LineSampler(auditLog(log), options, clock);
    };
    this.#failures = { 'sign-in': lines('sign-in'), token: lines('token') };
  }

  /**
   * Charges a sign-in, whether the token is right or wrong. Rejects with an error of status 429 if
   * the address has made too many attempts.
   */
  signIn(context: RequestContext, isRight: boolean): Promise<void> {
    return this.#attempt(context, 'sign-in', isRight, true);
  }

  /**
   * Charges only wrong tokens, because clients send the right token with each request. While an
   * address has made too many attempts, the right token is rejected as well. Otherwise a client
   * could go on guessing.
   */
  bearer(context: RequestContext, isRight: boolean): Promise<void> {
    return this.#attempt(context, 'token', isRight, !isRight);
  }

  async #attempt(
    context: RequestContext,
    action: Action,
    isRight: boolean,
    isCharged: boolean,
  ): Promise<void> {
    const { socket } = context.request;
    const address = this.#addressOf(socket.remoteAddress, (name) => context.header(name));
    // The attempt is charged synchronously, so that concurrent requests cannot all pass.
    const local = this.#countInMemory(address, isRight, isCharged);
    const joint = local.allowed ? await this.#countInStore(address, isRight, isCharged) : local;
    if (!isRight || !joint.allowed) this.#log(context, action);
    if (joint.allowed) return;
    const message = `Expected at most ${ATTEMPTS_PER_MINUTE} attempts per minute, got more`;
    throw new HttpError(429, 'ERR_TOO_MANY_ATTEMPTS', message, undefined, fieldsOf(joint));
  }

  #countInMemory(address: string, isRight: boolean, isCharged: boolean): Outcome {
    const limiter = this.#limiter;
    const isFlood = !limiter.peekSync('failures', ALL_ADDRESSES, { cost: 1 }).allowed;
    const cost = isFlood && isCharged ? COST_IN_FLOOD : 1;
    const decision = isCharged
      ? limiter.checkSync('attempts', address, { cost })
      : limiter.peekSync('attempts', address, { cost });
    if (decision.allowed && !isRight) limiter.checkSync('failures', ALL_ADDRESSES);
    return decision;
  }

  /** Resolves to the decision of the shared store; allowed if the store does not reply in time. */
  async #countInStore(address: string, isRight: boolean, isCharged: boolean): Promise<Outcome> {
    if (!this.#isShared) return ALLOWED;
    const flood = isCharged ? await this.#decide('failures', ALL_ADDRESSES, 1, true) : undefined;
    const cost = flood?.allowed === false ? COST_IN_FLOOD : 1;
    const outcome = (await this.#decide('attempts', address, cost, !isCharged)) ?? ALLOWED;
    if (outcome.allowed && !isRight) await this.#decide('failures', ALL_ADDRESSES, 1, false);
    return outcome;
  }

  #decide(
    name: PolicyName,
    key: string,
    cost: number,
    peek: boolean,
  ): Promise<CheckResult | undefined> {
    const limit = this.#limit(name, key, cost);
    const decided = this.#decisionService.store.decide([
      { limits: [limit], peek, onFailure: 'local' },
    ]);
    return withTimeout(
      STORE_TIMEOUT_MS,
      decided.then(([result]) => result),
    );
  }

  #limit(name: PolicyName, key: string, cost: number): Limit {
    const options = { limit: LIMITS[name], window: WINDOW_MS };
    return this.#decisionService.inlineLimit(`${RESERVED_PREFIX}${name}`, options, key, cost);
  }

  #log(context: RequestContext, action: Action): void {
    const lines = this.#failures[action];
    if (lines.canWrite()) lines.write(auditLine(context, { action, ok: false }));
  }

  /** Logs the number of failures that were not logged individually. */
  close(): void {
    for (const lines of Object.values(this.#failures)) lines.flush();
  }
}

type Outcome = Pick<CheckResult, 'allowed' | 'retryAfterMs' | 'atMs' | 'limits'>;
const ALLOWED: Outcome = { allowed: true, retryAfterMs: 0, atMs: 0, limits: [] };

/**
 * Returns the headers of a denial. They always have the form `draft`, from which the sign-in page
 * reads how long to wait.
 */
function fieldsOf(outcome: Outcome): OutgoingHttpHeaders {
  const named = outcome.limits.map((each) => ({ ...each, policy: 'attempts' }));
  const report = headerReport(outcome, named, () => WINDOW_MS);
  return Object.fromEntries([...headerForms.draft(report), retryAfter(report)!]);
}
