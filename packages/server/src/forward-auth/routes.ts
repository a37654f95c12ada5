/**
 * Forward-auth endpoints. A proxy sends a subrequest before it forwards a request: 200 admits the
 * request, 429 denies it, both with rate-limit headers. The endpoints accept any method and ignore
 * the body.
 *
 *     /v1/forward-auth               headers describe the forwarded request
 *     /v1/forward-auth?deny=403      for nginx, which treats statuses other than 401 and 403 as
 *                                    errors
 *     /v1/forward-auth/ext-authz/... for Envoy: the request itself, with a path prefix
 *
 * `X-Sluice-Status` holds the original status of a denial, also with `deny=403`.
 */
import type { IncomingMessage } from 'node:http';
import { type CheckResult, type Limit, type Policy, SluiceError } from 'sluice';
import { SingleLimitHeaders } from 'sluice/engine';
import { type HeaderForm, type Rejection, rejection } from 'sluice/http';
import { AmbiguousRequest } from '../ambiguous-request.ts';
import type { AppContext } from '../app-context.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService, LimitRequest, ServiceDecision } from '../decision-service.ts';
import { decisionReport, type Field, fieldsOf } from '../http/fields.ts';
import { PROBLEM_TYPE, problemBody } from '../http/problems.ts';
import {
  asHttpError,
  badRequest,
  HttpError,
  type RequestContext,
} from '../http/request-context.ts';
import { ANY_METHOD, type Router } from '../http/router.ts';
import type { Logger } from '../observe/log.ts';
import { PROXY_PROFILES } from '../proxy-profiles.ts';
import { forwardedClient } from './client.ts';
import {
  type AddressOf,
  describedRequest,
  type ForwardedRequest,
  prefixedRequest,
} from './forwarded-request.ts';

const PATH = '/v1/forward-auth';
const ENVOY_PREFIX = `${PATH}/ext-authz`;

export function forwardAuthRoutes(router: Router, app: AppContext): void {
  const forwardAuth = new ForwardAuth(app);
  const profile = PROXY_PROFILES[app.settings.proxy];
  // Envoy does not describe the request in headers. On this route, clients behind Envoy could forge
  // them.
  if (profile.described !== undefined) {
    const described: RequestReader = (incoming, addressOf) =>
      describedRequest(incoming, addressOf, profile);
    router.add(ANY_METHOD, PATH, 'proxied', (context) =>
      forwardAuth.respond(context, described, denyStatusIn(context)),
    );
  }
  // The client chooses the rest of the path and the query, so `deny` is not read from the query.
  router.add(ANY_METHOD, `${ENVOY_PREFIX}/*`, 'proxied', (context) =>
    forwardAuth.respond(context, fromEnvoy, undefined),
  );
}

type RequestReader = (incoming: IncomingMessage, addressOf: AddressOf) => ForwardedRequest;

const fromEnvoy: RequestReader = (incoming, addressOf) =>
  prefixedRequest(incoming, addressOf, PROXY_PROFILES.envoy, ENVOY_PREFIX);

/** Replaces the status of every denial and error. Set by `?deny=403`. */
type DenyStatus = 403 | undefined;

class ForwardAuth {
  readonly #decisionService: DecisionService;
  readonly #configuration: Configuration;
  readonly #form: HeaderForm;
  readonly #addressOf: AddressOf;
  readonly #log: Logger;
  #hasWarned = false;

  constructor({ decisionService, configuration, settings, log }: AppContext) {
    this.#decisionService = decisionService;
    this.#configuration = configuration;
    this.#form = settings.headers;
    this.#addressOf = forwardedClient(settings, log);
    this.#log = log;
  }

  /** Decides and responds. Returns a promise only if the store is not in this process. */
  respond(
    context: RequestContext,
    readRequest: RequestReader,
    denyStatus: DenyStatus,
  ): void | Promise<void> {
    try {
      return this.#decide(context, readRequest(context.request, this.#addressOf), denyStatus);
    } catch (error) {
      this.#warnOfProfile(error);
      sendFailure(context, error, denyStatus);
    }
  }

  /**
   * Logs a missing header, but only once: if `--proxy` names the wrong proxy, the header is missing
   * in all requests.
   */
  #warnOfProfile(error: unknown): void {
    if (this.#hasWarned || !(error instanceof HttpError)) return;
    const { code, message } = error;
    if (code !== 'ERR_MISSING_HEADER') return;
    this.#hasWarned = true;
    this.#log.warn({ code }, message);
  }

  #decide(
    context: RequestContext,
    request: ForwardedRequest,
    denyStatus: DenyStatus,
  ): void | Promise<void> {
    const requests = this.#configuration.requests.limitsFor(request);
    if (requests === undefined || requests.length === 0) return allow(context, []);
    const limits = this.#limitsOf(requests);
    if ('violated' in limits) return this.#denyForever(context, limits.violated, denyStatus);
    if (limits.length === 0) return allow(context, []);
    const decision = this.#decisionService.decide(limits);
    if (!(decision instanceof Promise)) return this.#send(context, decision, limits, denyStatus);
    return decision.then(
      (later) => this.#send(context, later, limits, denyStatus),
      (error: unknown) => sendFailure(context, error, denyStatus),
    );
  }

  /**
   * Returns the validated limits. If an override is below the cost of the request, its limit can
   * never allow the request. Such limits are returned as `violated` if they are enforced. In shadow
   * mode they are only reported.
   */
  #limitsOf(requests: readonly LimitRequest[]): readonly Limit[] | { violated: readonly Limit[] } {
    try {
      return this.#decisionService.limits(requests);
    } catch (error) {
      if (!isCostAboveLimit(error)) throw error;
    }
    const tooLarge = new Set(requests.filter((request) => this.#isTooLarge(request)));
    const isShadow = ({ policy }: LimitRequest): boolean =>
      this.#decisionService.policies.isShadow(policy);
    const enforced = [...tooLarge].filter((request) => !isShadow(request));
    if (enforced.length > 0) return { violated: enforced.map((each) => this.#tooLargeLimit(each)) };
    const shadow = [...tooLarge].map((each) => this.#tooLargeLimit(each));
    // This call only reports the denials, so the response does not wait for it.
    this.#decisionService.denyForever(shadow, true).catch(() => {});
    const rest = requests.filter((request) => !tooLarge.has(request));
    return rest.length === 0 ? [] : this.#decisionService.limits(rest);
  }

  /** Returns a limit whose cost is above its capacity. `DecisionService.limits` would reject it. */
  #tooLargeLimit({ policy, key, cost, operation }: LimitRequest): Limit {
    const limit = this.#decisionService.policies.limit(policy, key, undefined, 1);
    return { ...limit, cost: cost ?? limit.policy.costs.get(operation ?? '') ?? 1 };
  }

  async #denyForever(
    context: RequestContext,
    limits: readonly Limit[],
    denyStatus: DenyStatus,
  ): Promise<void> {
    try {
      this.#send(context, await this.#decisionService.denyForever(limits), limits, denyStatus);
    } catch (error) {
      sendFailure(context, error, denyStatus);
    }
  }

  #isTooLarge(request: LimitRequest): boolean {
    try {
      this.#decisionService.limits([request]);
      return false;
    } catch (error) {
      return isCostAboveLimit(error);
    }
  }

  #send(
    context: RequestContext,
    decision: ServiceDecision,
    limits: readonly Limit[],
    denyStatus: DenyStatus,
  ): void {
    const { allowed, result } = decision;
    if (result === undefined) allow(context, []);
    else if (allowed) {
      const isSingle = limits.length === 1 && this.#form === 'draft';
      allow(context, isSingle ? singleFields(result, limits[0]) : this.#fields(decision, limits));
    } else {
      const report = decisionReport(result, limits);
      const denial = rejection({ report, degraded: result.degraded });
      deny(context, denial, this.#fields(decision, limits), denyStatus);
    }
  }

  #fields(decision: ServiceDecision, limits: readonly Limit[]): readonly Field[] {
    return fieldsOf(decision, limits, this.#form);
  }
}

const headersOfPolicy = new WeakMap<Policy, SingleLimitHeaders>();

/** Fast path for one limit: avoids formatting the constant parts of the headers each time. */
function singleFields(result: CheckResult, { policy }: Limit): readonly Field[] {
  let headers = headersOfPolicy.get(policy);
  if (headers === undefined) {
    headers = new SingleLimitHeaders(policy.name, policy.windowMs);
    headersOfPolicy.set(policy, headers);
  }
  return headers.headersFor(result);
}

function denyStatusIn(context: RequestContext): DenyStatus {
  const { search } = context;
  if (search === '') return undefined;
  if (search === 'deny=403') return 403;
  // Caddy appends the query of the client's request, so other parameters are ignored.
  return context.query.get('deny') === '403' ? 403 : undefined;
}

const isCostAboveLimit = (error: unknown): boolean =>
  error instanceof SluiceError && error.code === 'ERR_COST_ABOVE_LIMIT';

function sendFailure(context: RequestContext, error: unknown, denyStatus: DenyStatus): void {
  const failure =
    error instanceof AmbiguousRequest
      ? badRequest('ERR_AMBIGUOUS_REQUEST', error.message)
      : asHttpError(error);
  // The server logs internal errors and responds with 500, also with `deny=403`.
  if (failure.status === 500) throw error;
  const { status } = failure;
  const body = JSON.stringify(problemBody(failure));
  const denial = status === 503 ? rejection({}) : { status, contentType: PROBLEM_TYPE, body };
  deny(context, denial, [], denyStatus);
}

/** Responds with 200. The headers are a flat list, the form that `writeHead` handles fastest. */
function allow({ request, response }: RequestContext, fields: readonly Field[]): void {
  const lines = ['Content-Length', '0'];
  // The `Connection` header is not needed: HTTP/1.1 connections stay open without it, and proxies
  // use their own idle timeouts.
  if (response.shouldKeepAlive && request.httpVersionMinor > 0) response.removeHeader('connection');
  for (const [name, value] of fields) lines.push(name, value);
  response.writeHead(200, lines);
  response.end();
}

type Denial = Omit<Rejection, 'status' | 'contentType'> & { status: number; contentType: string };

function deny(
  context: RequestContext,
  { status, contentType, body }: Denial,
  fields: readonly Field[],
  denyStatus: DenyStatus,
): void {
  const lines = { ...Object.fromEntries(fields), 'X-Sluice-Status': String(status) };
  context.sendText(denyStatus ?? status, body, lines, contentType);
}
