/**
 * One endpoint behind every proxy: it asks about a request before passing it on. 200 lets the
 * request pass, 429 does not, and both tell about the limits. Any method will do, and bodies are
 * ignored.
 *
 *     /v1/forward-auth               the request is told in headers
 *     /v1/forward-auth?deny=403      the same for nginx, which knows 401 and 403 and takes all else
 *                                    for a fault
 *     /v1/forward-auth/ext-authz/... the request is this one, without the prefix, for Envoy
 *
 * The real status of a refusal is in `X-Sluice-Status` too, for those who ask for another one.
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
import { problemBody } from '../http/problems.ts';
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
  const gate = new Gate(app);
  const profile = PROXY_PROFILES[app.settings.proxy];
  // Envoy sends no headers that describe the request, so all that come are its client's.
  if (profile.described !== undefined) {
    const described: FactsOf = (incoming, addressOf) =>
      describedRequest(incoming, addressOf, profile);
    router.add(ANY_METHOD, PATH, 'proxied', (context) =>
      gate.answer(context, described, disguiseIn(context)),
    );
  }
  // What follows is the client's own path and query, and no word of it is for this service.
  router.add(ANY_METHOD, `${ENVOY_PREFIX}/*`, 'proxied', (context) =>
    gate.answer(context, fromEnvoy, undefined),
  );
}

type FactsOf = (incoming: IncomingMessage, addressOf: AddressOf) => ForwardedRequest;

const fromEnvoy: FactsOf = (incoming, addressOf) =>
  prefixedRequest(incoming, addressOf, PROXY_PROFILES.envoy, ENVOY_PREFIX);

/** The status of a refusal that was asked for instead of the real one. */
type Disguise = 403 | undefined;

class Gate {
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

  /** At once, if the store is in this process. */
  answer(context: RequestContext, factsOf: FactsOf, disguise: Disguise): void | Promise<void> {
    try {
      return this.#decide(context, factsOf(context.request, this.#addressOf), disguise);
    } catch (error) {
      this.#warnOfProfile(error);
      failed(context, error, disguise);
    }
  }

  /** Logs once that the proxy is not the one of `--proxy`: then every request is rejected. */
  #warnOfProfile(error: unknown): void {
    if (this.#hasWarned || !(error instanceof HttpError)) return;
    const { code, message } = error;
    if (code !== 'ERR_MISSING_HEADER') return;
    this.#hasWarned = true;
    this.#log.warn({ code }, message);
  }

  #decide(
    context: RequestContext,
    facts: ForwardedRequest,
    disguise: Disguise,
  ): void | Promise<void> {
    const requests = this.#configuration.requests.limitsFor(facts);
    if (requests === undefined || requests.length === 0) return allow(context, []);
    const limits = this.#limitsOf(requests);
    if ('violated' in limits) return this.#refuseForever(context, limits.violated, disguise);
    if (limits.length === 0) return allow(context, []);
    const decision = this.#decisionService.decide(limits);
    if (!(decision instanceof Promise)) return this.#tell(context, decision, limits, disguise);
    return decision.then(
      (known) => this.#tell(context, known, limits, disguise),
      (error: unknown) => failed(context, error, disguise),
    );
  }

  /**
   * A key may have a limit of its own that is lower than what a request costs: then no wait helps,
   * which is a refusal and no mistake of anybody's. In shadow it is not even that.
   */
  #limitsOf(requests: readonly LimitRequest[]): readonly Limit[] | { violated: readonly Limit[] } {
    try {
      return this.#decisionService.limits(requests);
    } catch (error) {
      if (!isTooDear(error)) throw error;
    }
    const dear = new Set(requests.filter((request) => this.#isTooDear(request)));
    const isShadow = ({ policy }: LimitRequest): boolean =>
      this.#decisionService.policies.isShadow(policy);
    const violated = [...dear].filter((request) => !isShadow(request));
    if (violated.length > 0) return { violated: violated.map((each) => this.#dearLimit(each)) };
    const watched = [...dear].map((each) => this.#dearLimit(each));
    // Nobody waits for what is only reported.
    this.#decisionService.denyForever(watched, true).catch(() => {});
    const rest = requests.filter((request) => !dear.has(request));
    return rest.length === 0 ? [] : this.#decisionService.limits(rest);
  }

  /** A limit with a cost above its capacity, which `desk.limits` rejects. */
  #dearLimit({ policy, key, cost, operation }: LimitRequest): Limit {
    const limit = this.#decisionService.policies.limit(policy, key, undefined, 1);
    return { ...limit, cost: cost ?? limit.policy.costs.get(operation ?? '') ?? 1 };
  }

  /** A refusal for good: there is no time to come back at. */
  async #refuseForever(
    context: RequestContext,
    limits: readonly Limit[],
    disguise: Disguise,
  ): Promise<void> {
    try {
      this.#tell(context, await this.#decisionService.denyForever(limits), limits, disguise);
    } catch (error) {
      failed(context, error, disguise);
    }
  }

  #isTooDear(request: LimitRequest): boolean {
    try {
      this.#decisionService.limits([request]);
      return false;
    } catch (error) {
      return isTooDear(error);
    }
  }

  #tell(
    context: RequestContext,
    decision: ServiceDecision,
    limits: readonly Limit[],
    disguise: Disguise,
  ): void {
    const { allowed, result } = decision;
    if (result === undefined) allow(context, []);
    else if (allowed) {
      const isUsual = limits.length === 1 && this.#form === 'draft';
      allow(context, isUsual ? usualFields(result, limits[0]) : this.#fields(decision, limits));
    } else {
      const report = decisionReport(result, limits);
      const refusal = rejection({ report, degraded: result.degraded });
      refuse(context, refusal, this.#fields(decision, limits), disguise);
    }
  }

  #fields(decision: ServiceDecision, limits: readonly Limit[]): readonly Field[] {
    return fieldsOf(decision, limits, this.#form);
  }
}

const usual = new WeakMap<Policy, SingleLimitHeaders>();

/** What passes under one limit: the parts of its fields that never change are made once. */
function usualFields(result: CheckResult, { policy }: Limit): readonly Field[] {
  let draft = usual.get(policy);
  if (draft === undefined) {
    draft = new SingleLimitHeaders(policy.name, policy.windowMs);
    usual.set(policy, draft);
  }
  return draft.headersFor(result);
}

function disguiseIn(context: RequestContext): Disguise {
  const { search } = context;
  if (search === '') return undefined;
  if (search === 'deny=403') return 403;
  // Caddy adds the query of the client's request, so all else means nothing here.
  return context.query.get('deny') === '403' ? 403 : undefined;
}

const isTooDear = (error: unknown): boolean =>
  error instanceof SluiceError && error.code === 'ERR_COST_ABOVE_LIMIT';

function failed(context: RequestContext, error: unknown, disguise: Disguise): void {
  const known =
    error instanceof AmbiguousRequest
      ? badRequest('ERR_AMBIGUOUS_REQUEST', error.message)
      : asHttpError(error);
  // What is wrong here goes to the log, and nobody can tell whether the request may pass.
  if (known.status === 500) throw error;
  const { status } = known;
  const body = JSON.stringify(problemBody(known));
  const refusal = status === 503 ? rejection({}) : { status, contentType: PROBLEM_TYPE, body };
  refuse(context, refusal, [], disguise);
}

const PROBLEM_TYPE = 'application/problem+json';

/** Written as a flat list, because that is the least work, and it is what is done most. */
function allow({ request, response }: RequestContext, fields: readonly Field[]): void {
  const lines = ['Content-Length', '0'];
  // From HTTP/1.1 on a connection stays open without a word, and proxies go by their own times.
  if (response.shouldKeepAlive && request.httpVersionMinor > 0) response.removeHeader('connection');
  for (const [name, value] of fields) lines.push(name, value);
  response.writeHead(200, lines);
  response.end();
}

type Refusal = Omit<Rejection, 'status' | 'contentType'> & { status: number; contentType: string };

function refuse(
  context: RequestContext,
  { status, contentType, body }: Refusal,
  fields: readonly Field[],
  disguise: Disguise,
): void {
  const lines = { ...Object.fromEntries(fields), 'X-Sluice-Status': String(status) };
  context.sendText(disguise ?? status, body, lines, contentType);
}
