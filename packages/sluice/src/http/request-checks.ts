/** Checks the limits of requests. Evaluates keys, costs and limits, which may be functions. */
import { isConcurrency } from '../algorithms/index.ts';
import type { Limiter, Policies, SyncLimiter } from '../api.ts';
import { systemClock } from '../clock.ts';
import { type CheckResult, type Decision, DecisionRecord, jointDecision } from '../decision.ts';
import { withFailurePolicy } from '../failure/guarded-store.ts';
import { type Key, keyText } from '../key.ts';
import { createLimiter, type LimiterCore } from '../limiter.ts';
import type { PolicyOptions } from '../policy.ts';
import type { Store } from '../store.ts';
import type { ClientKeys } from './client-address.ts';
import { throwWithStatus } from './http-error.ts';
import { normalizeKey } from './normalize-key.ts';
import type { KeySource, ResolvedLimit, ResolvedOptions } from './options.ts';
import type { RequestInfo } from './request-decision.ts';

/** A decision, and by policy the limits that `limit` functions returned for the request. */
export interface CheckOutcome {
  readonly decision: Decision;
  readonly dynamicLimits: ReadonlyMap<string, number>;
}

interface Check {
  readonly policy: string;
  readonly key: Key;
  readonly cost: number;
}

export const NO_DYNAMIC_LIMITS: ReadonlyMap<string, number> = new Map();

export class RequestChecks<R> {
  readonly limiter: Limiter<Policies>;
  /** The limits on requests that are handled at the same time. */
  readonly concurrency: ReadonlySet<string>;
  /** Whether `checkSync` can be used: the store is synchronous and no option is a function. */
  readonly isSync: boolean;
  /** The window of each limit, by name. */
  readonly windowsMs: ReadonlyMap<string, number>;
  readonly #clients: ClientKeys;
  readonly #onFailure: ResolvedOptions<R>['onFailure'];
  /** The limits that functions returned for the current call. The limiter reads them at once. */
  #dynamicLimits = NO_DYNAMIC_LIMITS;

  constructor(options: ResolvedOptions<R>, clients: ClientKeys) {
    const { limits, onFailure } = options;
    this.#clients = clients;
    this.#onFailure = onFailure;
    const limiter = options.limiter ?? this.#ownLimiter(options);
    this.limiter = limiter as unknown as Limiter<Policies>;
    // `policy` throws for a name that the limiter does not have.
    this.windowsMs = new Map(
      limits.map(({ name }) => [name, limiter.policies.policy(name).windowMs]),
    );
    this.concurrency = new Set(
      limits.map(({ name }) => name).filter((name) => isConcurrency(limiter.policies.policy(name))),
    );
    this.isSync = 'decideSync' in limiter.store && limits.every(isStatic);
  }

  #ownLimiter({ limits, store }: ResolvedOptions<R>): LimiterCore {
    const policies = Object.fromEntries(limits.map((each) => [each.name, this.#policyOf(each)]));
    const given = store === undefined ? {} : { store: withDefaultFailurePolicy(store) };
    return createLimiter({ policies, ...given }) as unknown as LimiterCore;
  }

  #policyOf({ name, limit, policy }: ResolvedLimit<R>): PolicyOptions {
    if (policy && 'concurrency' in policy) return policy;
    if (typeof limit !== 'function') return { ...policy!, limit: limit === 0 ? 1 : limit! };
    // Outside of a check, as in `inspect`, no request determines the limit, so it is 1.
    const limitOf = (): number =>
      this.#dynamicLimits.has(name) ? this.#dynamicLimits.get(name)! : 1;
    return { ...policy!, limit: limitOf };
  }

  /** Checks limits without functions among their options. */
  checkSync(limits: readonly ResolvedLimit<R>[], info: RequestInfo<R>): Decision {
    const limiter = this.limiter as SyncLimiter<Policies>;
    const { name, key, cost } = limits[0];
    try {
      if (limits.length > 1) return limiter.checkSync(this.#staticChecks(limits, info));
      // The default cost is not passed, which avoids the validation of options on every call.
      const options = cost === 1 ? undefined : { cost: cost as number };
      return limiter.checkSync(name, normalizeKey(this.#keyOf(key, info) as Key), options);
    } catch (error) {
      return throwWithStatus(error);
    }
  }

  #staticChecks(limits: readonly ResolvedLimit<R>[], info: RequestInfo<R>): Check[] {
    return limits.map(({ name, key, cost }) => ({
      policy: name,
      key: normalizeKey(this.#keyOf(key, info) as Key),
      cost: cost as number,
    }));
  }

  async check(limits: readonly ResolvedLimit<R>[], info: RequestInfo<R>): Promise<CheckOutcome> {
    const { request } = info;
    const checks: Check[] = [];
    const dynamicLimits = new Map<string, number>();
    let blocked: Decision | undefined;
    for (const { name, limit, key, cost } of limits) {
      if (typeof limit === 'function') dynamicLimits.set(name, await limit(request));
      const check = {
        policy: name,
        key: normalizeKey((await this.#keyOf(key, info)) ?? this.#clients.of(info)),
        cost: typeof cost === 'function' ? await cost(request) : cost,
      };
      checks.push(check);
      const most = typeof limit === 'function' ? dynamicLimits.get(name) : limit;
      if (most === 0) blocked ??= denialOf(check, this.windowsMs.get(name)!);
    }
    if (blocked !== undefined) return { decision: blocked, dynamicLimits };
    const free = checks.filter(({ cost }) => cost === 0);
    const charged = checks.filter(({ cost }) => cost !== 0);
    const decision = charged.length > 0 ? await this.#charge(charged, dynamicLimits) : undefined;
    if (free.length === 0) return { decision: decision!, dynamicLimits };
    this.#dynamicLimits = dynamicLimits;
    // A request of cost 0 always passes, so a failure of the store must not deny it.
    const peeked = await this.limiter.peek(free, { onFailure: 'allow' });
    return { decision: withFreeLimits(decision, peeked, checks), dynamicLimits };
  }

  #charge(
    checks: readonly Check[],
    dynamicLimits: CheckOutcome['dynamicLimits'],
  ): Promise<Decision> {
    const onFailure = this.#onFailure;
    const [{ policy, key, cost }] = checks;
    // There is no `await` until the limiter reads the limits, so no other request replaces them.
    this.#dynamicLimits = dynamicLimits;
    return checks.length > 1
      ? this.limiter.check(checks, { onFailure }).catch(throwWithStatus)
      : this.limiter.check(policy, key, { cost, onFailure }).catch(throwWithStatus);
  }

  /** Renews the holds of admitted checks until the returned function releases them. */
  keep(checked: readonly CheckOutcome[]): () => void {
    const limiter = this.limiter as unknown as LimiterCore;
    const releases = checked.map(({ decision, dynamicLimits }) => {
      if (decision.receipt === undefined) return () => {};
      this.#dynamicLimits = dynamicLimits;
      return limiter.keep(decision);
    });
    return () => {
      for (const release of releases) release();
    };
  }

  /** Adjusts the cost of earlier checks to `cost`. */
  async settle(checked: readonly CheckOutcome[], cost: number): Promise<void> {
    for (const { decision, dynamicLimits } of checked) {
      if (decision.receipt === undefined) continue;
      this.#dynamicLimits = dynamicLimits;
      await this.limiter.settle(decision.receipt, cost);
    }
  }

  #keyOf(
    source: KeySource<R>,
    info: RequestInfo<R>,
  ): Key | number | undefined | Promise<Key | number | undefined> {
    if (typeof source === 'function') return source(info.request);
    if (source !== 'address') {
      const value = info.header(source.header);
      // With this prefix, a header that contains an address does not use the limit of that address.
      if (value !== undefined && value !== '') return ['header', value];
    }
    return this.#clients.of(info);
  }
}

/** Whether the synchronous check can decide a limit: it is enforced and has no function. */
function isStatic<R>({ limit, key, cost, shadow }: ResolvedLimit<R>): boolean {
  if (shadow || limit === 0 || cost === 0) return false;
  return ![limit, key, cost].some((each) => typeof each === 'function');
}

/**
 * Returns the denial of a request whose limit is 0. The store is not called. `retryAfterMs` is one
 * window, because the limit may be higher by then.
 */
function denialOf({ policy, key, cost }: Check, windowMs: number): Decision {
  const result = { free: 0, resetAfterMs: windowMs };
  const atMs = systemClock.now();
  return new DecisionRecord(policy, keyText(key), cost, 0, windowMs, atMs, result) as Decision;
}

/**
 * Adds the limits for which the cost of a request is 0 to the decision of the other limits. The
 * added limits are shown in headers, but neither deny the request nor have a charge in the receipt.
 */
function withFreeLimits(
  decision: Decision | undefined,
  peeked: CheckResult,
  checks: readonly Check[],
): Decision {
  const free = peeked.limits.map((each) => ({ ...each, allowed: true, retryAfterMs: 0 }));
  const charged = [...(decision?.limits ?? [])];
  const inOrder = checks.map(({ cost }) => (cost === 0 ? free : charged).shift()!);
  const joint = jointDecision(inOrder, false);
  const { allowed = true, retryAfterMs = 0, receipt } = decision ?? {};
  const { limits } = joint;
  return { ...peeked, ...decision, ...joint, limits, allowed, retryAfterMs, receipt } as Decision;
}

/** Adds failure handling to a store that can fail and has none. */
function withDefaultFailurePolicy(store: Store): Store {
  if ('decideSync' in store || 'breaker' in store) return store;
  return withFailurePolicy(store);
}
