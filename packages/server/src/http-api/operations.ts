/** What can be asked for over HTTP, as the description that is served tells it. */
import type { z } from 'zod';
import { ANY_METHOD } from '../http/router.ts';
import * as schemas from './schemas.ts';

export interface ApiOperation {
  readonly method: string;
  /** As the router has it: `/v1/keys/:policy/:key`. */
  readonly path: string;
  readonly summary: string;
  /** Who may come; without it, whoever has the admin token. */
  readonly isOpen?: true;
  /** What may stand in the query, each with its meaning. */
  readonly query?: Readonly<Record<string, string>>;
  readonly request?: z.ZodType;
  /** Several for a status whose body has several types. */
  readonly answers: Readonly<
    Record<number, ApiOperationResponse | readonly ApiOperationResponse[]>
  >;
}

export interface ApiOperationResponse {
  readonly description: string;
  readonly schema?: z.ZodType;
  /** Default `application/json`, if there is a schema; without either there is no body. */
  readonly type?: string;
}

const json = (description: string, schema: z.ZodType): ApiOperationResponse => ({
  description,
  schema,
});
const problem = (description: string): ApiOperationResponse => ({
  description,
  schema: schemas.Problem,
  type: 'application/problem+json',
});

const refusal = (description: string): ApiOperationResponse => ({
  ...problem(description),
  schema: schemas.ProxyRefusal,
});

const { CheckBody, CheckAnswer, Decision } = schemas;
const enforce = { enforce: '`true`: a denial of one check is a 429, with RateLimit fields' };
const checked = {
  200: json('what was decided, allowed or not', CheckAnswer),
  429: json('denied, and `enforce` was asked for', Decision),
  503: [
    json('denied because the store is unavailable, and `enforce` was asked for', Decision),
    problem('the store is unavailable, and the action is `throw`'),
  ],
};
const noPolicy = problem('there is no such policy');
const names = { policy: 'the name of the policy', key: 'the key; both are needed' };
const inspected = {
  200: json('what is held; with `held: false` nothing', schemas.KeyReport),
  404: noPolicy,
};
const undone = {
  200: json('it does not count any more', schemas.OverrideDeletion),
  404: problem('there is none'),
  409: problem('it is in the configuration files'),
};
const proxied = {
  200: { description: 'the request may pass; RateLimit fields tell about its limits' },
  403: refusal('the request may not pass, and `deny=403` was asked for'),
  429: refusal('the request may not pass'),
  503: refusal('the store is unavailable, and the action is `deny` or `throw`'),
};
const toDashboard = { description: 'to /dashboard/' };
const file = {
  304: { description: 'it is what the asker has' },
  404: problem('there is none, or the dashboard is not built'),
};

export const OPERATIONS: readonly ApiOperation[] = [
  {
    ...{ method: 'POST', path: '/v1/check', isOpen: true },
    summary: 'Decides one check, or a batch of them, and charges what is allowed.',
    ...{ query: enforce, request: CheckBody, answers: checked },
  },
  {
    ...{ method: 'POST', path: '/v1/peek', isOpen: true },
    summary: 'Says what a check would be answered, and charges nothing.',
    ...{ query: enforce, request: CheckBody, answers: checked },
  },
  {
    ...{ method: 'POST', path: '/v1/refund' },
    summary: 'Gives back what a check was charged. A receipt works once.',
    request: schemas.RefundRequest,
    answers: { 200: json('what was given back', schemas.RefundAnswer) },
  },
  {
    ...{ method: 'POST', path: '/v1/settle' },
    summary: 'Makes what a check was charged what it really cost. A receipt works once.',
    request: schemas.SettleRequest,
    answers: { 200: json('what was changed', schemas.SettleAnswer) },
  },
  {
    ...{ method: 'POST', path: '/v1/reset' },
    summary: 'Makes a key new.',
    request: schemas.ResetRequest,
    answers: { 200: json('it is new', schemas.ResetAnswer) },
  },
  {
    ...{ method: 'GET', path: '/v1/keys' },
    summary: 'What is held about a key, also one that cannot stand in a path.',
    ...{ query: names, answers: inspected },
  },
  {
    ...{ method: 'GET', path: '/v1/keys/:policy/:key' },
    summary: 'What is held about a key.',
    answers: inspected,
  },
  {
    ...{ method: 'DELETE', path: '/v1/keys/:policy/:key' },
    summary: 'Makes a key new.',
    answers: { 200: json('it is new', schemas.ResetAnswer), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/policies' },
    summary: 'All policies.',
    answers: { 200: json('as they count now', schemas.PolicyList) },
  },
  {
    ...{ method: 'GET', path: '/v1/policies/:policy' },
    summary: 'One policy.',
    answers: { 200: json('as it counts now', schemas.Policy), 404: noPolicy },
  },
  {
    ...{ method: 'PATCH', path: '/v1/policies/:policy' },
    summary: 'Puts a policy in shadow or enforces it, from the next decision on.',
    request: schemas.PolicyChange,
    answers: { 200: json('it counts', schemas.PolicyChanged), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/overrides' },
    summary: 'Keys that have a limit of their own.',
    query: { policy: 'the name of a policy: only its' },
    answers: { 200: json('those that count now', schemas.OverrideList) },
  },
  {
    ...{ method: 'POST', path: '/v1/overrides' },
    summary: 'Gives a key a limit of its own, from the next decision on.',
    request: schemas.OverrideRequest,
    answers: { 200: json('it counts', schemas.OverrideAnswer) },
  },
  {
    ...{ method: 'PUT', path: '/v1/overrides/:policy/:key' },
    summary: 'Gives a key a limit of its own, from the next decision on.',
    request: schemas.OverrideFields,
    answers: { 200: json('it counts', schemas.OverrideAnswer) },
  },
  {
    ...{ method: 'DELETE', path: '/v1/overrides' },
    summary: 'Takes one away again, also from a key that cannot stand in a path.',
    ...{ query: names, answers: undone },
  },
  {
    ...{ method: 'DELETE', path: '/v1/overrides/:policy/:key' },
    summary: 'Takes it away again.',
    answers: undone,
  },
  {
    ...{ method: 'GET', path: '/v1/session', isOpen: true },
    summary: 'Whether the admin side is open to this client.',
    answers: { 200: json('whether it is', schemas.SessionAnswer) },
  },
  {
    ...{ method: 'POST', path: '/v1/session', isOpen: true },
    summary: 'Signs in with the admin token, for eight hours; sets a cookie.',
    request: schemas.SignInRequest,
    answers: {
      200: json('signed in', schemas.SessionAnswer),
      401: problem('it is not the token'),
      429: problem('too many attempts from this address; `Retry-After` says how long to wait'),
    },
  },
  {
    ...{ method: 'DELETE', path: '/v1/session', isOpen: true },
    summary: 'Signs out: the session counts nowhere in this service any more.',
    answers: { 200: json('signed out', schemas.SessionAnswer) },
  },
  {
    ...{ method: 'POST', path: '/v1/reload' },
    summary: 'Reads the configuration files again.',
    answers: {
      200: json('they count', schemas.ReloadAnswer),
      422: problem('they have mistakes, and the old ones still count'),
    },
  },
  {
    ...{ method: 'GET', path: '/v1/top' },
    summary: 'The keys that are denied most, or allowed, of the last minutes.',
    query: {
      policy: 'the name of a policy',
      by: '`denied` (default) or `allowed`',
      count: 'how many, 20 by default',
    },
    answers: { 200: json('the most frequent first', schemas.TopReport), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/series' },
    summary: 'What was decided in the last minutes, second by second.',
    query: {
      seconds: 'how many, from 1 to 600, 300 by default',
      policy: 'the name of a policy: only its, beside the total',
    },
    answers: { 200: json('the oldest second first', schemas.SeriesReport), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/events' },
    summary: 'What happens, live: server-sent events, a tick each second.',
    query: {
      policy: 'the name of a policy: only its denials',
      key: 'a key, or a pattern with `*`: only its denials',
    },
    answers: {
      200: {
        description: 'until it is closed',
        schema: schemas.LiveEvent,
        type: 'text/event-stream',
      },
      404: noPolicy,
      503: problem('there are as many streams as there may be'),
    },
  },
  {
    ...{ method: 'GET', path: '/v1/openapi.json', isOpen: true },
    summary: 'This description.',
    answers: { 200: { description: 'OpenAPI 3.1', type: 'application/json' } },
  },
  {
    ...{ method: ANY_METHOD, path: '/v1/forward-auth', isOpen: true },
    summary: 'For proxies: whether the request that headers tell of may pass.',
    query: { deny: '`403`: the status of a refusal, for nginx' },
    answers: proxied,
  },
  {
    ...{ method: ANY_METHOD, path: '/v1/forward-auth/ext-authz/*', isOpen: true },
    summary: 'For Envoy: whether this request, without the prefix, may pass.',
    answers: proxied,
  },
  {
    ...{ method: 'POST', path: '/json', isOpen: true },
    summary: "Envoy's rate limit service in JSON.",
    request: schemas.RateLimitRequest,
    answers: {
      200: json('within the limits', schemas.RateLimitResponse),
      429: json('over a limit', schemas.RateLimitResponse),
    },
  },
  {
    ...{ method: 'GET', path: '/healthz', isOpen: true },
    summary: 'Whether the process is alive.',
    answers: { 200: json('it is', schemas.Alive) },
  },
  {
    ...{ method: 'GET', path: '/readyz', isOpen: true },
    summary: 'Whether it can decide.',
    query: { store: '`optional`: ready also without the store' },
    answers: { 200: json('it can', schemas.Ready), 503: json('it cannot', schemas.Ready) },
  },
  {
    ...{ method: 'GET', path: '/', isOpen: true },
    summary: 'Where things are; browsers are led to the dashboard.',
    answers: { 200: json('paths', schemas.Links), 302: toDashboard },
  },
  {
    ...{ method: 'GET', path: '/dashboard', isOpen: true },
    summary: 'The dashboard: a page that asks this API, at this path with a slash at its end.',
    answers: { 200: { description: 'the page', type: 'text/html' }, 302: toDashboard, ...file },
  },
  {
    ...{ method: 'GET', path: '/dashboard/assets/*', isOpen: true },
    summary: 'What the page is made of.',
    answers: { 200: { description: 'a file', type: '*/*' }, ...file },
  },
  {
    ...{ method: 'GET', path: '/metrics' },
    summary: 'Metrics for Prometheus.',
    answers: { 200: { description: 'in its text format', type: 'text/plain' } },
  },
];
