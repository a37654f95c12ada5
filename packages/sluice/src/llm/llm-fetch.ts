/**
 * A `fetch` for the SDKs of OpenAI, Anthropic and compatible APIs: reserves requests, tokens, money
 * and a slot in one check before a call, and settles the actual usage when the call ends.
 *
 *     wait for the provider's limits ── acquire ── send ── 2xx: tap the body ── settle, release
 *              │ too long                │ denied    │ error or other status ──┘
 *            429                        429
 */
import type { Limiter, Policies } from '../api.ts';
import { sleep } from '../clock.ts';
import type { Admitted, Decision } from '../decision.ts';
import { checkMethods } from '../errors.ts';
import { tapBody } from './body-tap.ts';
import { CallRecord } from './call-record.ts';
import { Charges } from './charges.ts';
import { type Fetch, type ModelCall, modelCall, signalOf } from './model-call.ts';
import { type LlmFetchOptions, type ResolvedOptions, resolveOptions } from './options.ts';
import { type ProviderAccount, ProviderLimits } from './provider-limits.ts';
import { type Denial, denialResponse, errorResponse } from './rejection.ts';
import { type Plan, planOf } from './reserve.ts';
import type { Ending } from './settlement.ts';
import { Slot } from './slot.ts';

/** Errors of a connection that was never established, so that nothing was sent. */
const UNSENT = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ENETDOWN'],
  ...['UND_ERR_CONNECT_TIMEOUT', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
]);

function wasUnsent(error: unknown): boolean {
  const cause = (error as { cause?: { code?: string; errors?: { code?: string }[] } })?.cause;
  const codes = [cause?.code, ...(cause?.errors ?? []).map((each) => each.code)];
  return codes.some((code) => code !== undefined && UNSENT.has(code));
}

/** The abort reason of a wait that reaches its deadline. */
const TOO_LATE = new Error('The wait was longer than `maxWaitMs`');

interface Admission {
  /** Undefined if no limit applies to the call. */
  readonly decision: Admitted | undefined;
  /** Call this with the response of the provider, or without a response if the call failed. */
  readonly report: (response?: Response) => void;
}

/** Makes calls with one set of options. */
class LlmCaller {
  readonly #limiter: Limiter<Policies>;
  readonly #options: ResolvedOptions;
  readonly #providers: ProviderLimits;
  /** The number of calls that are not settled. */
  #inFlight = 0;

  constructor(limiter: Limiter<Policies>, options: ResolvedOptions) {
    this.#limiter = limiter;
    this.#options = options;
    this.#providers = new ProviderLimits(options.clock, options.maxHoldMs);
  }

  async fetch(input: Parameters<Fetch>[0], init: Parameters<Fetch>[1]): Promise<Response> {
    const { onDenied } = this.#options;
    const call = await modelCall(input, init);
    const signal = signalOf(input, init);
    const account = this.#providers.account(this.#options.accountOf(call));
    let plan: Plan;
    let admission: Admission | Denial;
    try {
      plan = await planOf(call, this.#options);
      admission = await this.#admit(plan, account, signal);
    } catch (error) {
      return errorResponse(call, error, onDenied);
    }
    if ('retryAfterMs' in admission) return denialResponse(call, admission, onDenied);
    const record = this.#open(call, plan, admission.decision);
    try {
      const response = await this.#options.fetch(input, init);
      admission.report(response);
      return this.#tapResponse(response, record, signal);
    } catch (error) {
      admission.report();
      record.end(endingOf(error, signal));
      throw error;
    }
  }

  /** Waits for the provider's limits and for those of the limiter. */
  async #admit(
    { limits, needs }: Plan,
    account: ProviderAccount,
    signal: AbortSignal | undefined,
  ): Promise<Admission | Denial> {
    const { clock, maxWaitMs } = this.#options;
    const deadlineMs = clock.now() + maxWaitMs;
    for (;;) {
      const holdMs = account.waitMs(needs);
      if (holdMs > deadlineMs - clock.now()) return { retryAfterMs: holdMs, policies: [] };
      if (holdMs > 0) {
        await sleep(clock, holdMs, signal);
        continue;
      }
      if (limits.length === 0) return { decision: undefined, report: account.sent(needs) };
      const decision = await this.#acquire(limits, Math.max(deadlineMs - clock.now(), 0), signal);
      if (!decision.allowed) return denialOf(decision);
      // The provider may have denied another call in the meantime.
      if (!signal?.aborted && account.waitMs(needs) === 0) {
        return { decision, report: account.sent(needs) };
      }
      await this.#limiter.refund(decision.receipt);
      signal?.throwIfAborted();
    }
  }

  /**
   * Waits for the limits of the limiter. While other calls are in flight, a call is not denied
   * before its deadline, because the settlements of the others may free capacity.
   */
  async #acquire(
    limits: Plan['limits'],
    maxWaitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    // With a `maxWaitMs` of 0, `acquire` would deny the call while the store decides another call.
    if (maxWaitMs === 0) return this.#limiter.check(limits);
    if (this.#inFlight === 0) {
      return this.#limiter.acquire(limits, { maxWaitMs, ...(signal && { signal }) });
    }
    signal?.throwIfAborted();
    const waiting = new AbortController();
    const abort = (): void => waiting.abort(signal!.reason);
    const stop = this.#options.clock.schedule(maxWaitMs, () => waiting.abort(TOO_LATE));
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await this.#limiter.acquire(limits, { signal: waiting.signal });
    } catch (error) {
      if (error !== TOO_LATE) throw error;
      // Decides a last time without waiting. A denial contains the time to wait.
      return this.#limiter.acquire(limits, { maxWaitMs: 0 });
    } finally {
      stop();
      signal?.removeEventListener('abort', abort);
    }
  }

  #open(call: ModelCall, plan: Plan, admission: Admitted | undefined): CallRecord {
    const { background, onSettled } = this.#options;
    const { facts, units } = plan;
    const all = admission?.receipt.charges ?? [];
    // The hold that was just taken expires last, so `resetAfterMs` is its lease. If the store could
    // not decide, there is no hold, and `resetAfterMs` may be 0.
    const leaseMs = admission?.limits.at(-1)?.resetAfterMs ?? 0;
    const hold = plan.hasSlot && leaseMs > 0 ? all.at(-1) : undefined;
    const record = new CallRecord({
      ...{ call, facts, units, onSettled },
      charges:
        units.length === 0
          ? undefined
          : new Charges(this.#limiter, all.slice(0, units.length), background),
      slot: hold && new Slot(this.#limiter, hold, leaseMs, background),
    });
    this.#inFlight++;
    record.onEnd(() => {
      this.#inFlight--;
    });
    return record;
  }

  #tapResponse(response: Response, record: CallRecord, signal: AbortSignal | undefined): Response {
    const { ok, body, status, statusText, headers, url, redirected } = response;
    if (!ok || body === null) {
      record.end(ok ? 'completed' : 'rejected');
      return response;
    }
    if (typeof body.getReader !== 'function') {
      // A body that is no web stream, of another implementation of fetch, cannot be measured.
      record.end('abandoned');
      return response;
    }
    const { background: clock, idleTimeoutMs } = this.#options;
    const stream = tapBody(body, record, { clock, idleTimeoutMs, signal });
    const copy = new Response(stream, { status, statusText, headers });
    // The constructor of `Response` does not accept these fields.
    return Object.defineProperties(copy, {
      url: { value: url },
      redirected: { value: redirected },
    });
  }
}

function endingOf(error: unknown, signal: AbortSignal | undefined): Ending {
  if (signal?.aborted) return 'aborted';
  return wasUnsent(error) ? 'unsent' : 'failed';
}

function denialOf({ retryAfterMs, limits }: Decision): Denial {
  const violated = limits.filter(({ allowed }) => !allowed).map(({ policy }) => policy);
  return { retryAfterMs, policies: [...new Set(violated)] };
}

/**
 * Returns a `fetch` that stays within the limits of a limiter. Pass it to the SDK of the provider.
 *
 *     const openai = new OpenAI({
 *       fetch: llmFetch(limiter, { tokens: { policy: 'tokensPerMinute', key: 'openai' } }),
 *     });
 */
export function llmFetch<const P extends Policies>(
  limiter: Limiter<P>,
  options: LlmFetchOptions<P>,
): Fetch {
  checkMethods('a limiter', limiter, 'acquire', 'settle');
  const resolved = resolveOptions(options as LlmFetchOptions);
  const caller = new LlmCaller(limiter as unknown as Limiter<Policies>, resolved);
  return (input, init) => caller.fetch(input, init);
}
