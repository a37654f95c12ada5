/**
 * Decides about requests: from what an adapter tells of a request to what it has to answer. All
 * adapters are thin around this.
 */
import type { Limiter, Policies, SyncLimiter } from '../api.ts';
import type { CheckResult, Decision } from '../decision.ts';
import { type ErrorCode, SluiceError } from '../errors.ts';
import { withFailurePolicy } from '../failure/guarded-store.ts';
import type { Key } from '../key.ts';
import { createLimiter } from '../limiter.ts';
import { definePolicy, type PolicyOptions } from '../policy.ts';
import type { Store } from '../store.ts';
import { emitWarning } from '../warning.ts';
import { contains, type Network, readNetworks } from './address-networks.ts';
import { type ClientKeys, clientKeys, type Origin, wholeAddress } from './client-address.ts';
import {
  type HeaderReport,
  headerForms,
  headerReport,
  retryAfter,
  SingleLimitHeaders,
} from './headers.ts';
import { normalizeKey } from './normalize-key.ts';
import type { ResolvedLimit, ResolvedOptions, ResponseOutcome } from './options.ts';
import { type Rejection, rejection } from './rejection.ts';

/** What an adapter tells about a request. */
export interface RequestInfo<R> extends Origin {
  readonly request: R;
}

export type Field = readonly [name: string, value: string];

/** What a request is answered that does not pass. */
export type DenialResponse = Omit<Rejection, 'status'> & { readonly status: number };

/** What is to be done with a request. */
export interface RequestDecision<R> {
  readonly passes: boolean;
  /** To be set on the answer, whatever it is. */
  readonly fields: readonly Field[];
  /** All of the fields as lines of a head, if others of their names may stand beside them. */
  readonly lines: string | undefined;
  /** What to answer a request that does not pass. */
  readonly rejection: DenialResponse | undefined;
  /** What was decided; undefined if the request was skipped, or is on a list. */
  readonly decision: Decision | undefined;
  /** What the limits say that are only watched. */
  readonly shadow: readonly Decision[];
  /** To be called once the request is over. Undefined if nothing depends on how it ends. */
  readonly over: ((outcome: ResponseOutcome<R>) => void) | undefined;
}

/** What was decided about a request, under which limits, where those are given by request. */
interface Checked {
  readonly decision: Decision;
  readonly amounts: ReadonlyMap<string, number>;
}

const NOBODY: readonly Decision[] = [];
const NO_AMOUNTS: ReadonlyMap<string, number> = new Map();

const PASSES: RequestDecision<unknown> = {
  passes: true,
  fields: [],
  lines: undefined,
  rejection: undefined,
  decision: undefined,
  shadow: NOBODY,
  over: undefined,
};

const FORBIDDEN: DenialResponse = {
  status: 403,
  contentType: 'application/problem+json',
  body: JSON.stringify({ type: 'about:blank', title: 'Forbidden', status: 403 }),
};

/** From this status on a request has failed. */
const FAILED_FROM = 400;

interface Asked {
  readonly policy: string;
  readonly key: Key;
  readonly cost: number;
}

export class RequestLimiter<R> {
  readonly limiter: Limiter<Policies>;
  /** Whether verdicts may have to be told how their requests end. */
  readonly settles: boolean;
  readonly #options: ResolvedOptions<R>;
  readonly #clients: ClientKeys;
  /** The whole address, for the lists: what counts as one client may be a network. */
  readonly #wholeAddressOf: ReturnType<typeof wholeAddress>;
  readonly #allow: readonly Network[];
  readonly #deny: readonly Network[];
  readonly #enforced: readonly ResolvedLimit<R>[];
  readonly #watched: readonly ResolvedLimit<R>[];
  readonly #windows = new Map<string, number>();
  /** The limit that is enforced, if it is the only one. */
  readonly #only: ResolvedLimit<R> | undefined;
  /** The fields of an answer, if there is one limit and the form is the newest. */
  readonly #draftOfOne: SingleLimitHeaders | undefined;
  /** The limiter, if everything about a request can be decided at once. */
  readonly #sync: SyncLimiter<Policies> | undefined;
  /** Whether there is nothing but one limit by address, as most apps have it. */
  readonly #isUsual: boolean;
  /** What was answered last to a request that did not pass, and the wait that it tells. */
  #refusal: DenialResponse | undefined;
  #refusalMs = 0;
  /** The limits of the request that is being checked or settled; read while that is called. */
  #limitNow: ReadonlyMap<string, number> = NO_AMOUNTS;
  #hasFailedToTell = false;

  constructor(options: ResolvedOptions<R>) {
    this.#options = options;
    this.settles = options.count !== 'all' || options.settle !== undefined;
    this.#clients = clientKeys(options.address);
    this.#wholeAddressOf = wholeAddress({ ...options.address, onWarning: () => {} });
    this.#allow = readNetworks(options.allow, '`allow`');
    this.#deny = readNetworks(options.deny, '`deny`');
    this.#enforced = options.limits.filter(({ shadow }) => !shadow);
    this.#watched = options.limits.filter(({ shadow }) => shadow);
    const store = guarded(options.store);
    const policies = Object.fromEntries(
      options.limits.map((limit) => [limit.name, this.#policyOf(limit)]),
    );
    this.limiter = createLimiter({ policies, ...(store && { store }) }) as Limiter<Policies>;
    const isSync = store === undefined || 'decideSync' in store;
    this.#sync =
      isSync && isImmediate(options) ? (this.limiter as SyncLimiter<Policies>) : undefined;
    for (const { name, policy } of options.limits) {
      this.#windows.set(name, definePolicy(name, { ...policy, limit: 1 }).windowMs);
    }
    this.#only = this.#enforced.length === 1 ? this.#enforced[0] : undefined;
    if (this.#only !== undefined && options.forms.join() === 'draft') {
      const { name } = this.#only;
      this.#draftOfOne = new SingleLimitHeaders(name, this.#windows.get(name)!);
    }
    this.#isUsual =
      this.#sync !== undefined &&
      this.#only?.key === 'address' &&
      this.#only.cost === 1 &&
      this.#allow.length + this.#deny.length === 0;
  }

  #policyOf({ name, limit, policy }: ResolvedLimit<R>): PolicyOptions {
    return {
      ...policy,
      limit: typeof limit === 'function' ? () => this.#limitNow.get(name)! : limit,
    };
  }

  /** Decides by a connection alone, if that is known and all that counts. */
  decideBy(connection: object | null | undefined): RequestDecision<R> | undefined {
    if (!this.#isUsual || !connection) return undefined;
    const key = this.#clients.known(connection);
    return key === undefined
      ? undefined
      : this.#decideNow(this.#sync!.checkSync(this.#only!.name, key));
  }

  /** Decides at once if nothing has to be waited for, which spares a server many promises. */
  decide(info: RequestInfo<R>): RequestDecision<R> | Promise<RequestDecision<R>> {
    if (this.#isUsual) {
      // The same as below with nothing that is not needed: here it counts.
      const decision = this.#sync!.checkSync(this.#only!.name, this.#clients.of(info));
      return this.#decideNow(decision);
    }
    if (this.#sync === undefined) return this.#decideLater(info);
    const listed = this.#listed(info);
    if (listed !== undefined) return listed;
    return this.#decideNow(this.#checkNow(this.#sync, info));
  }

  #decideNow(decision: Decision): RequestDecision<R> {
    if (!this.settles) return this.#verdict(decision, NOBODY);
    return this.#verdict(decision, NOBODY, this.#settlement([{ decision, amounts: NO_AMOUNTS }]));
  }

  async #decideLater(info: RequestInfo<R>): Promise<RequestDecision<R>> {
    const { request } = info;
    const { skip } = this.#options;
    if (skip !== undefined && (await skip(request))) return PASSES;
    const listed = this.#listed(info);
    if (listed !== undefined) return listed;
    const isEnforced = this.#enforced.length > 0;
    const enforced = isEnforced ? [await this.#check(this.#enforced, info)] : [];
    // A request that is refused anyway uses nothing up of what is only watched.
    const passes = enforced.every(({ decision }) => decision.allowed);
    const watched = passes ? await this.#watch(info) : [];
    const shadow = watched.map(({ decision }) => decision);
    const over = this.settles ? this.#settlement([...enforced, ...watched]) : undefined;
    if (!isEnforced) return { ...PASSES, shadow, over };
    return this.#verdict(enforced[0].decision, shadow, over);
  }

  /** What the limits say that are only watched. They must not be in the way, whatever happens. */
  async #watch(info: RequestInfo<R>): Promise<readonly Checked[]> {
    const watched: Checked[] = [];
    for (const limit of this.#watched) {
      const checked = await this.#check([limit], info).catch(() => undefined);
      if (checked === undefined) continue;
      watched.push(checked);
      void this.#tell(checked.decision, info.request);
    }
    return watched;
  }

  /** A listener's own failure is told, once, and is in nobody's way. */
  async #tell(decision: Decision, request: R): Promise<void> {
    try {
      await this.#options.onShadow?.(decision, request);
    } catch (error) {
      if (this.#hasFailedToTell) return;
      this.#hasFailedToTell = true;
      const { onWarning = emitWarning } = this.#options.address;
      const message = `onShadow has failed, and is not told of again: ${String(error)}`;
      onWarning({ code: 'WARN_LISTENER_FAILED', message });
    }
  }

  #verdict(
    decision: Decision,
    shadow: readonly Decision[],
    over: RequestDecision<R>['over'] = undefined,
  ): RequestDecision<R> {
    const { allowed: passes, degraded } = decision;
    const last = passes ? over : undefined;
    const draft = degraded === undefined ? this.#draftOfOne : undefined;
    if (draft !== undefined) {
      const fields = draft.fieldsOf(decision);
      const refusal = passes ? undefined : this.#refusalOfOne(decision);
      const { lines } = draft;
      return { passes, fields, lines, rejection: refusal, decision, shadow, over: last };
    }
    const report = this.#report(decision);
    const isAway = degraded !== undefined && degraded.action !== 'local';
    const fields = this.#fields(report, isAway);
    const refusal = passes ? undefined : rejection({ report, degraded });
    const lines = undefined;
    return { passes, fields, lines, rejection: refusal, decision, shadow, over: last };
  }

  /** Refusals come in floods, and of one limit those with the same wait are the same. */
  #refusalOfOne(decision: Decision): DenialResponse {
    if (this.#refusal === undefined || decision.retryAfterMs !== this.#refusalMs) {
      this.#refusal = Object.freeze(rejection({ report: this.#report(decision) }));
      this.#refusalMs = decision.retryAfterMs;
    }
    return this.#refusal;
  }

  #listed(info: RequestInfo<R>): RequestDecision<R> | undefined {
    if (this.#allow.length + this.#deny.length === 0) return undefined;
    const address = this.#wholeAddressOf(info);
    if (contains(this.#allow, address)) return PASSES;
    if (!contains(this.#deny, address)) return undefined;
    return { ...PASSES, passes: false, rejection: FORBIDDEN };
  }

  #checkNow(limiter: SyncLimiter<Policies>, info: RequestInfo<R>): Decision {
    try {
      const asked = this.#enforced.map(({ name, key, cost }) => ({
        policy: name,
        key: normalizeKey(this.#keyOf(key, info) as Key),
        cost: cost as number,
      }));
      if (asked.length > 1) return limiter.checkSync(asked);
      const [{ policy, key, cost }] = asked;
      return limiter.checkSync(policy, key, { cost });
    } catch (error) {
      return asHttpError(error);
    }
  }

  async #check(limits: readonly ResolvedLimit<R>[], info: RequestInfo<R>): Promise<Checked> {
    const asked: Asked[] = [];
    const amounts = new Map<string, number>();
    for (const { name, limit, key, cost } of limits) {
      const { request } = info;
      if (typeof limit === 'function') amounts.set(name, await limit(request));
      asked.push({
        policy: name,
        key: normalizeKey(await this.#keyOf(key, info)),
        cost: typeof cost === 'function' ? await cost(request) : cost,
      });
    }
    const { onFailure } = this.#options;
    const [{ policy, key, cost }] = asked;
    // From here to the call nothing is awaited, so no other request can come between.
    this.#limitNow = amounts;
    const decision = await (asked.length > 1
      ? this.limiter.check(asked, { onFailure }).catch(asHttpError)
      : this.limiter.check(policy, key, { cost, onFailure }).catch(asHttpError));
    return { decision, amounts };
  }

  #keyOf(
    source: ResolvedLimit<R>['key'],
    info: RequestInfo<R>,
  ): Key | number | Promise<Key | number> {
    if (typeof source === 'function') return source(info.request);
    if (source !== 'address') {
      const value = info.header(source.header);
      // Told apart from an address, so that a header cannot spend what an address has.
      if (value !== undefined && value !== '') return ['header', value];
    }
    return this.#clients.of(info);
  }

  #report(result: CheckResult): HeaderReport {
    // One limit says itself what it says as a whole.
    const limits = this.#enforced.length === 1 ? [result] : result.limits;
    return headerReport(result, limits, (policy) => this.#windows.get(policy)!);
  }

  /** A store that is away has measured nothing, so then only the wait is told. */
  #fields(report: HeaderReport, isAway: boolean): readonly Field[] {
    const { forms } = this.#options;
    const fields = isAway ? [] : forms.flatMap((form) => headerForms[form](report));
    const wait = forms.every((form) => form === 'none') ? undefined : retryAfter(report);
    return wait === undefined ? fields : [...fields, wait];
  }

  /** What to do when the request is over, where its cost depends on how it ends. */
  #settlement(checked: readonly Checked[]): (outcome: ResponseOutcome<R>) => void {
    return (outcome) => {
      // The answer is out, so there is nobody to tell if this fails.
      this.#settle(checked, outcome).catch(() => {});
    };
  }

  async #settle(checked: readonly Checked[], outcome: ResponseOutcome<R>): Promise<void> {
    const { count, settle, succeeded } = this.#options;
    const isWell = succeeded?.(outcome) ?? outcome.status < FAILED_FROM;
    const failed = !outcome.finished || !isWell;
    const isSpared = count === 'all' ? false : failed !== (count === 'failures');
    const actual = isSpared ? 0 : await settle?.(outcome);
    if (actual === undefined) return;
    for (const { decision, amounts } of checked) {
      if (decision.receipt === undefined) continue;
      this.#limitNow = amounts;
      await this.limiter.settle(decision.receipt, actual);
    }
  }
}

/** Whether nothing about a request is the caller's code, which may take its time. */
function isImmediate<R>({ limits, skip }: ResolvedOptions<R>): boolean {
  const isPlain = ({ limit, key, cost, shadow }: ResolvedLimit<R>): boolean =>
    !shadow && ![limit, key, cost].some((each) => typeof each === 'function');
  return skip === undefined && limits.every(isPlain);
}

/** What frameworks answer these errors with: the others are mistakes of the server. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  ERR_STORE_UNAVAILABLE: 503,
  // A request that is larger than the whole limit can never pass.
  ERR_COST_ABOVE_LIMIT: 413,
};

/** A store that may fail has somebody who takes care of that. */
function guarded(store: Store | undefined): Store | undefined {
  if (store === undefined || 'decideSync' in store || 'breaker' in store) return store;
  return withFailurePolicy(store);
}

/** The status of an error of ours that a client is to be told of. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof SluiceError ? STATUSES[error.code] : undefined;
}

/** Gives an error the status that frameworks answer it with. */
function asHttpError(error: unknown): never {
  const status = statusOf(error);
  throw status === undefined
    ? error
    : Object.assign(error as Error, { status, statusCode: status });
}
