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
import { type Limit, type Policy, type Quote, SluiceError } from 'sluice';
import { DraftOfOne } from 'sluice/engine';
import { type HeaderForm, type Rejection, rejection } from 'sluice/http';
import { AmbiguousRequest } from '../ambiguous-request.ts';
import type { Configuration } from '../configuration.ts';
import type { Desk, LimitRequest, Verdict } from '../desk.ts';
import { asHttpError, badRequest, type Exchange, HttpError } from '../http/exchange.ts';
import { type Field, fieldsOf, verdictReport } from '../http/fields.ts';
import { problemBody } from '../http/problems.ts';
import { ANY_METHOD, type Router } from '../http/router.ts';
import type { Logger } from '../observe/log.ts';
import type { Parts } from '../parts.ts';
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

export function forwardAuthRoutes(router: Router, parts: Parts): void {
  const gate = new Gate(parts);
  const profile = PROXY_PROFILES[parts.settings.proxy];
  // Envoy sends no headers that describe the request, so all that come are its client's.
  if (profile.described !== undefined) {
    const described: FactsOf = (incoming, addressOf) =>
      describedRequest(incoming, addressOf, profile);
    router.add(ANY_METHOD, PATH, 'proxied', (exchange) =>
      gate.answer(exchange, described, disguiseIn(exchange)),
    );
  }
  // What follows is the client's own path and query, and no word of it is for this service.
  router.add(ANY_METHOD, `${ENVOY_PREFIX}/*`, 'proxied', (exchange) =>
    gate.answer(exchange, fromEnvoy, undefined),
  );
}

type FactsOf = (incoming: IncomingMessage, addressOf: AddressOf) => ForwardedRequest;

const fromEnvoy: FactsOf = (incoming, addressOf) =>
  prefixedRequest(incoming, addressOf, PROXY_PROFILES.envoy, ENVOY_PREFIX);

/** The status of a refusal that was asked for instead of the real one. */
type Disguise = 403 | undefined;

class Gate {
  readonly #desk: Desk;
  readonly #configuration: Configuration;
  readonly #form: HeaderForm;
  readonly #addressOf: AddressOf;
  readonly #log: Logger;
  #hasWarned = false;

  constructor({ desk, configuration, settings, log }: Parts) {
    this.#desk = desk;
    this.#configuration = configuration;
    this.#form = settings.headers;
    this.#addressOf = forwardedClient(settings, log);
    this.#log = log;
  }

  /** At once, if the store is in this process. */
  answer(exchange: Exchange, factsOf: FactsOf, disguise: Disguise): void | Promise<void> {
    try {
      return this.#decide(exchange, factsOf(exchange.request, this.#addressOf), disguise);
    } catch (error) {
      this.#warnOfProfile(error);
      failed(exchange, error, disguise);
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

  #decide(exchange: Exchange, facts: ForwardedRequest, disguise: Disguise): void | Promise<void> {
    const requests = this.#configuration.requests.limitsFor(facts);
    if (requests === undefined || requests.length === 0) return allow(exchange, []);
    const limits = this.#limitsOf(requests);
    if ('violated' in limits) return this.#refuseForever(exchange, limits.violated, disguise);
    if (limits.length === 0) return allow(exchange, []);
    const verdict = this.#desk.decide(limits);
    if (!(verdict instanceof Promise)) return this.#tell(exchange, verdict, limits, disguise);
    return verdict.then(
      (known) => this.#tell(exchange, known, limits, disguise),
      (error: unknown) => failed(exchange, error, disguise),
    );
  }

  /**
   * A key may have a limit of its own that is lower than what a request costs: then no wait helps,
   * which is a refusal and no mistake of anybody's. In shadow it is not even that.
   */
  #limitsOf(requests: readonly LimitRequest[]): readonly Limit[] | { violated: readonly Limit[] } {
    try {
      return this.#desk.limits(requests);
    } catch (error) {
      if (!isTooDear(error)) throw error;
    }
    const dear = new Set(requests.filter((request) => this.#isTooDear(request)));
    const isShadow = ({ policy }: LimitRequest): boolean => this.#desk.policies.isShadow(policy);
    const violated = [...dear].filter((request) => !isShadow(request));
    if (violated.length > 0) return { violated: violated.map((each) => this.#dearLimit(each)) };
    const watched = [...dear].map((each) => this.#dearLimit(each));
    // Nobody waits for what is only reported.
    this.#desk.denyForever(watched, true).catch(() => {});
    const rest = requests.filter((request) => !dear.has(request));
    return rest.length === 0 ? [] : this.#desk.limits(rest);
  }

  /** A limit with a cost above its capacity, which `desk.limits` rejects. */
  #dearLimit({ policy, key, cost, operation }: LimitRequest): Limit {
    const limit = this.#desk.policies.limit(policy, key, undefined, 1);
    return { ...limit, cost: cost ?? limit.policy.costs.get(operation ?? '') ?? 1 };
  }

  /** A refusal for good: there is no time to come back at. */
  async #refuseForever(
    exchange: Exchange,
    limits: readonly Limit[],
    disguise: Disguise,
  ): Promise<void> {
    try {
      this.#tell(exchange, await this.#desk.denyForever(limits), limits, disguise);
    } catch (error) {
      failed(exchange, error, disguise);
    }
  }

  #isTooDear(request: LimitRequest): boolean {
    try {
      this.#desk.limits([request]);
      return false;
    } catch (error) {
      return isTooDear(error);
    }
  }

  #tell(exchange: Exchange, verdict: Verdict, limits: readonly Limit[], disguise: Disguise): void {
    const { allowed, quote } = verdict;
    if (quote === undefined) allow(exchange, []);
    else if (allowed) {
      const isUsual = limits.length === 1 && this.#form === 'draft';
      allow(exchange, isUsual ? usualFields(quote, limits[0]) : this.#fields(verdict, limits));
    } else {
      const report = verdictReport(quote, limits);
      const refusal = rejection({ report, degraded: quote.degraded });
      refuse(exchange, refusal, this.#fields(verdict, limits), disguise);
    }
  }

  #fields(verdict: Verdict, limits: readonly Limit[]): readonly Field[] {
    return fieldsOf(verdict, limits, this.#form);
  }
}

const usual = new WeakMap<Policy, DraftOfOne>();

/** What passes under one limit: the parts of its fields that never change are made once. */
function usualFields(quote: Quote, { policy }: Limit): readonly Field[] {
  let draft = usual.get(policy);
  if (draft === undefined) {
    draft = new DraftOfOne(policy.name, policy.windowMs);
    usual.set(policy, draft);
  }
  return draft.fieldsOf(quote);
}

function disguiseIn(exchange: Exchange): Disguise {
  const { search } = exchange;
  if (search === '') return undefined;
  if (search === 'deny=403') return 403;
  // Caddy adds the query of the client's request, so all else means nothing here.
  return exchange.query.get('deny') === '403' ? 403 : undefined;
}

const isTooDear = (error: unknown): boolean =>
  error instanceof SluiceError && error.code === 'ERR_COST_ABOVE_LIMIT';

function failed(exchange: Exchange, error: unknown, disguise: Disguise): void {
  const known =
    error instanceof AmbiguousRequest
      ? badRequest('ERR_AMBIGUOUS_REQUEST', error.message)
      : asHttpError(error);
  // What is wrong here goes to the log, and nobody can tell whether the request may pass.
  if (known.status === 500) throw error;
  const { status } = known;
  const body = JSON.stringify(problemBody(known));
  const refusal = status === 503 ? rejection({}) : { status, contentType: PROBLEM_TYPE, body };
  refuse(exchange, refusal, [], disguise);
}

const PROBLEM_TYPE = 'application/problem+json';

/** Written as a flat list, because that is the least work, and it is what is done most. */
function allow({ request, response }: Exchange, fields: readonly Field[]): void {
  const lines = ['Content-Length', '0'];
  // From HTTP/1.1 on a connection stays open without a word, and proxies go by their own times.
  if (response.shouldKeepAlive && request.httpVersionMinor > 0) response.removeHeader('connection');
  for (const [name, value] of fields) lines.push(name, value);
  response.writeHead(200, lines);
  response.end();
}

type Refusal = Omit<Rejection, 'status' | 'contentType'> & { status: number; contentType: string };

function refuse(
  exchange: Exchange,
  { status, contentType, body }: Refusal,
  fields: readonly Field[],
  disguise: Disguise,
): void {
  const lines = { ...Object.fromEntries(fields), 'X-Sluice-Status': String(status) };
  exchange.sendText(disguise ?? status, body, lines, contentType);
}
