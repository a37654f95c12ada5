/** Decides requests for all adapters, by `skip`, network lists, enforced and shadow limits. */
import type { Limiter, Policies } from '../api.ts';
import type { Decision } from '../decision.ts';
import { emitWarning, type Warning, warnOnError } from '../warning.ts';
import { contains, type Network, readNetworks } from './address-networks.ts';
import { type ClientKeys, clientKeys } from './client-address.ts';
import { DecisionOutput } from './decision-output.ts';
import type { ResolvedLimit, ResolvedOptions, ResponseOutcome } from './options.ts';
import type { Rejection } from './rejection.ts';
import { type CheckOutcome, NO_DYNAMIC_LIMITS, RequestChecks } from './request-checks.ts';
import type { RequestDecision, RequestInfo } from './request-decision.ts';

const NONE: readonly CheckOutcome[] = [];
const NO_SHADOW: readonly Decision[] = [];

const PASSES: RequestDecision<unknown> = {
  passes: true,
  headers: [],
  rejection: undefined,
  decision: undefined,
  shadow: NO_SHADOW,
  settle: undefined,
  release: undefined,
};

const FORBIDDEN: Rejection = {
  status: 403,
  contentType: 'application/problem+json',
  body: JSON.stringify({ type: 'about:blank', title: 'Forbidden', status: 403 }),
};

const FIRST_FAILURE_STATUS = 400;

type Listener<R> = (decision: Decision, request: R) => void;

type OnWarning = (warning: Warning) => void;

/** Returns a function that reports the first error of the callback `name`. */
function errorReporter(name: string, onWarning: OnWarning): (error: unknown) => void {
  const warn = warnOnError(onWarning);
  let hasWarned = false;
  return (error) => {
    if (hasWarned) return;
    hasWarned = true;
    const message = `${name} failed (further failures are not reported): ${String(error)}`;
    void warn({ code: 'WARN_CALLBACK', message });
  };
}

/** Wraps a listener of the application. Its first error becomes a warning. */
function guardedListener<R>(
  name: string,
  listener: Listener<R>,
  onWarning: OnWarning,
): Listener<R> {
  const report = errorReporter(name, onWarning);
  const call = async (decision: Decision, request: R): Promise<void> => {
    try {
      await listener(decision, request);
    } catch (error) {
      report(error);
    }
  };
  return (decision, request) => void call(decision, request);
}

export class RequestLimiter<R> {
  readonly limiter: Limiter<Policies>;
  /** The window of each limit, by name. */
  readonly windowsMs: ReadonlyMap<string, number>;
  /** Whether decisions may have `settle`, which an adapter calls when the response has ended. */
  readonly settles: boolean;
  /**
   * Decides a request. Returns a promise only if the store is asynchronous or an option is a
   * function. A synchronous decision avoids several promises per request.
   */
  readonly decide: (info: RequestInfo<R>) => RequestDecision<R> | Promise<RequestDecision<R>>;
  readonly #options: ResolvedOptions<R>;
  readonly #checks: RequestChecks<R>;
  readonly #clients: ClientKeys;
  readonly #allow: readonly Network[];
  readonly #deny: readonly Network[];
  readonly #hasLists: boolean;
  readonly #enforced: readonly ResolvedLimit<R>[];
  readonly #shadow: readonly ResolvedLimit<R>[];
  readonly #output: DecisionOutput;
  readonly #onDecision: Listener<R> | undefined;
  readonly #onShadow: Listener<R> | undefined;
  /** Whether at least one of the limits is a concurrency limit. */
  readonly #hasConcurrencyLimit: boolean;
  readonly #onSettleError: (error: unknown) => void;

  constructor(options: ResolvedOptions<R>) {
    this.#options = options;
    this.#clients = clientKeys(options.address);
    this.#allow = readNetworks(options.allow, '`allow`');
    this.#deny = readNetworks(options.deny, '`deny`');
    this.#hasLists = this.#allow.length > 0 || this.#deny.length > 0;
    this.#enforced = options.limits.filter(({ shadow }) => !shadow);
    this.#shadow = options.limits.filter(({ shadow }) => shadow);
    const { onDecision, onShadow } = options;
    const { onWarning = emitWarning } = options.address;
    this.#onDecision = onDecision && guardedListener('onDecision', onDecision, onWarning);
    this.#onShadow = onShadow && guardedListener('onShadow', onShadow, onWarning);
    const callbacks = options.succeeded === undefined ? 'settle' : 'requestWasSuccessful or settle';
    this.#onSettleError = errorReporter(callbacks, onWarning);
    this.#checks = new RequestChecks(options, this.#clients);
    const { limiter, concurrency } = this.#checks;
    this.limiter = limiter;
    this.#hasConcurrencyLimit = concurrency.size > 0;
    this.settles =
      this.#hasConcurrencyLimit || options.count !== 'all' || options.settle !== undefined;
    this.windowsMs = this.#checks.windowsMs;
    const windows = this.#enforced.map(({ name }): [string, number] => [
      name,
      // A concurrency limit has no window.
      concurrency.has(name) ? 0 : this.windowsMs.get(name)!,
    ]);
    this.#output = new DecisionOutput(new Map(windows), options.forms);
    const isSync = this.#checks.isSync && options.skip === undefined;
    this.decide = isSync ? (info) => this.#decideSync(info) : (info) => this.#decideAsync(info);
  }

  #decideSync(info: RequestInfo<R>): RequestDecision<R> {
    const listed = this.#hasLists ? this.#decideByLists(info) : undefined;
    if (listed !== undefined) return listed;
    const decision = this.#checks.checkSync(this.#enforced, info);
    if (this.#onDecision !== undefined) this.#onDecision(decision, info.request);
    const checked = this.settles ? [{ decision, dynamicLimits: NO_DYNAMIC_LIMITS }] : NONE;
    return this.#result(decision, checked, NO_SHADOW);
  }

  async #decideAsync(info: RequestInfo<R>): Promise<RequestDecision<R>> {
    if (await this.#options.skip?.(info.request)) return PASSES;
    const listed = this.#hasLists ? this.#decideByLists(info) : undefined;
    if (listed !== undefined) return listed;
    const isEnforced = this.#enforced.length > 0;
    const enforced = isEnforced ? [await this.#checks.check(this.#enforced, info)] : NONE;
    const decision = enforced[0]?.decision;
    if (decision !== undefined) this.#onDecision?.(decision, info.request);
    // Shadow limits do not count requests that an enforced limit denied.
    const shadow = decision?.allowed === false ? NONE : await this.#checkShadow(info);
    return this.#result(
      decision,
      [...enforced, ...shadow],
      shadow.map((each) => each.decision),
    );
  }

  /** Returns the decision for a client in `allow` or `deny`, or undefined if it is in neither. */
  #decideByLists(info: RequestInfo<R>): RequestDecision<R> | undefined {
    const address = this.#clients.addressOf(info);
    if (address === undefined) return undefined;
    if (contains(this.#allow, address)) return PASSES;
    if (!contains(this.#deny, address)) return undefined;
    return { ...PASSES, passes: false, rejection: FORBIDDEN };
  }

  /** Checks each shadow limit by itself. An error in one must not affect the request. */
  async #checkShadow(info: RequestInfo<R>): Promise<readonly CheckOutcome[]> {
    const all: CheckOutcome[] = [];
    for (const limit of this.#shadow) {
      const checked = await this.#checks.check([limit], info).catch(() => undefined);
      if (checked === undefined) continue;
      all.push(checked);
      this.#onShadow?.(checked.decision, info.request);
    }
    return all;
  }

  #result(
    decision: Decision | undefined,
    checked: readonly CheckOutcome[],
    shadow: readonly Decision[],
  ): RequestDecision<R> {
    const passes = decision === undefined || decision.allowed;
    const release = passes && this.#hasConcurrencyLimit ? this.#checks.keep(checked) : undefined;
    return {
      passes,
      headers: decision === undefined ? [] : this.#output.headers(decision),
      rejection: passes ? undefined : this.#output.rejection(decision),
      decision,
      shadow,
      settle: passes && this.settles ? this.#settlement(checked, release) : undefined,
      release,
    };
  }

  #settlement(
    checked: readonly CheckOutcome[],
    release: (() => void) | undefined,
  ): NonNullable<RequestDecision<R>['settle']> {
    return (outcome, isStreaming) => {
      if (!isStreaming) release?.();
      // The response has been sent, so a failure of the store can no longer change it.
      this.#settle(checked, outcome).catch(() => {});
    };
  }

  async #settle(checked: readonly CheckOutcome[], outcome: ResponseOutcome<R>): Promise<void> {
    const cost = await this.#actualCost(outcome);
    if (cost !== undefined) await this.#checks.settle(checked, cost);
  }

  /** Returns the cost of a request that has ended. Undefined keeps the charge. */
  async #actualCost(outcome: ResponseOutcome<R>): Promise<number | undefined> {
    const { count, settle, succeeded } = this.#options;
    try {
      if (count === 'all') return await settle?.(outcome);
      const isSuccess = succeeded ?? (({ status }) => status < FIRST_FAILURE_STATUS);
      // A request without a complete response has failed, whatever its status is.
      const failed = !outcome.finished || !(await isSuccess(outcome));
      return failed === (count === 'failures') ? await settle?.(outcome) : 0;
    } catch (error) {
      this.#onSettleError(error);
      return undefined;
    }
  }
}
