/** The operations of the HTTP API, from which the OpenAPI document is generated. */
import type { z } from 'zod';
import { ANY_METHOD } from '../http/router.ts';
import * as schemas from './schemas.ts';

export interface ApiOperation {
  readonly method: string;
  /** In the form of the router: `/v1/keys/:policy/:key`. */
  readonly path: string;
  readonly summary: string;
  /** Set if the operation does not require the admin token. */
  readonly isOpen?: true;
  /** Query parameters and their descriptions. */
  readonly query?: Readonly<Record<string, string>>;
  readonly request?: z.ZodType;
  /** Responses by status. The value is a list if the body can have several types. */
  readonly responses: Readonly<
    Record<number, ApiOperationResponse | readonly ApiOperationResponse[]>
  >;
}

export interface ApiOperationResponse {
  readonly description: string;
  readonly schema?: z.ZodType;
  /** Default `application/json`. A response without type and schema has no body. */
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

const denial = (description: string): ApiOperationResponse => ({
  ...problem(description),
  schema: schemas.ProxyRefusal,
});

const { CheckBody, CheckResponse, Decision } = schemas;
const enforce = {
  enforce: '`true`: responds with 429 and RateLimit headers if a single check is denied',
};
const checked = {
  200: json('the decision, allowed or denied', CheckResponse),
  429: json('denied, with `enforce`', Decision),
  503: [
    json('denied because the store is unavailable, with `enforce`', Decision),
    problem('the store is unavailable and the action is `throw`'),
  ],
};
const noPolicy = problem('unknown policy');
const names = { policy: 'the name of the policy (required)', key: 'the key (required)' };
const ofCost = { cost: 'also returns the wait for a call of this cost' };
const inspected = {
  200: json('the state of the key; `held` is false if the store has no entry', schemas.KeyReport),
  404: noPolicy,
};
const overrideDeleted = {
  200: json('deleted', schemas.OverrideDeletion),
  404: problem('no such override'),
  409: problem('the configuration files define the override'),
};
const proxied = {
  200: { description: 'the request is allowed, with RateLimit headers' },
  403: denial('the request is denied, with `deny=403`'),
  429: denial('the request is denied'),
  503: denial('the store is unavailable and the action is `deny` or `throw`'),
};
const toDashboard = { description: 'redirect to /dashboard/' };
const file = {
  304: { description: 'not modified' },
  404: problem('no such file, or the dashboard is not installed'),
};

export const OPERATIONS: readonly ApiOperation[] = [
  {
    ...{ method: 'POST', path: '/v1/check', isOpen: true },
    summary: 'Decides one check or a batch of checks, and charges the allowed ones.',
    ...{ query: enforce, request: CheckBody, responses: checked },
  },
  {
    ...{ method: 'POST', path: '/v1/peek', isOpen: true },
    summary: 'Returns the decision of a check without charging it.',
    ...{ query: enforce, request: CheckBody, responses: checked },
  },
  {
    ...{ method: 'POST', path: '/v1/refund' },
    summary: 'Refunds the cost of a check. A receipt can be used once.',
    request: schemas.RefundRequest,
    responses: { 200: json('the refunded cost', schemas.RefundResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/settle' },
    summary: 'Adjusts the reserved cost of a check to the actual cost. A receipt can be used once.',
    request: schemas.SettleRequest,
    responses: { 200: json('the change of the cost', schemas.SettleResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/release' },
    summary: 'Releases the holds of a receipt. Window charges of the receipt stay.',
    request: schemas.HoldRequest,
    responses: { 200: json('whether all holds were active', schemas.ReleaseResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/renew' },
    summary: 'Renews the holds of a receipt: their leases start again.',
    request: schemas.HoldRequest,
    responses: { 200: json('whether all holds were active', schemas.RenewResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/blocks' },
    summary: 'Blocks a key of a policy that has a `block`. Replaces a running block.',
    request: schemas.BlockRequest,
    responses: { 200: json('blocked', schemas.BlockResponse) },
  },
  {
    ...{ method: 'DELETE', path: '/v1/blocks' },
    summary: 'Ends the block of a key. Its next block has the length of a first block.',
    ...{
      query: names,
      responses: { 200: json('not blocked', schemas.BlockResponse), 404: noPolicy },
    },
  },
  {
    ...{ method: 'POST', path: '/v1/reset' },
    summary: 'Resets a key.',
    request: schemas.ResetRequest,
    responses: { 200: json('reset', schemas.ResetResponse) },
  },
  {
    ...{ method: 'GET', path: '/v1/keys' },
    summary: 'Returns the state of a key. Accepts keys that cannot be part of a path.',
    ...{ query: { ...names, ...ofCost }, responses: inspected },
  },
  {
    ...{ method: 'GET', path: '/v1/keys/:policy/:key' },
    summary: 'Returns the state of a key.',
    ...{ query: ofCost, responses: inspected },
  },
  {
    ...{ method: 'DELETE', path: '/v1/keys/:policy/:key' },
    summary: 'Resets a key.',
    responses: { 200: json('reset', schemas.ResetResponse), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/policies' },
    summary: 'Lists all policies.',
    responses: { 200: json('the current policies', schemas.PolicyList) },
  },
  {
    ...{ method: 'GET', path: '/v1/policies/:policy' },
    summary: 'Returns a policy.',
    responses: { 200: json('the current policy', schemas.Policy), 404: noPolicy },
  },
  {
    ...{ method: 'PATCH', path: '/v1/policies/:policy' },
    summary: 'Turns shadow mode of a policy on or off, from the next decision on.',
    request: schemas.PolicyChange,
    responses: { 200: json('in effect', schemas.PolicyChanged), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/overrides' },
    summary: 'Lists overrides: limits of individual keys.',
    query: { policy: 'lists only the overrides of this policy' },
    responses: { 200: json('the current overrides', schemas.OverrideList) },
  },
  {
    ...{ method: 'POST', path: '/v1/overrides' },
    summary: 'Sets the limit of a key, from the next decision on.',
    request: schemas.OverrideRequest,
    responses: { 200: json('in effect', schemas.OverrideResponse) },
  },
  {
    ...{ method: 'PUT', path: '/v1/overrides/:policy/:key' },
    summary: 'Sets the limit of a key, from the next decision on.',
    request: schemas.OverrideFields,
    responses: { 200: json('in effect', schemas.OverrideResponse) },
  },
  {
    ...{ method: 'DELETE', path: '/v1/overrides' },
    summary: 'Deletes the override of a key. Accepts keys that cannot be part of a path.',
    ...{ query: names, responses: overrideDeleted },
  },
  {
    ...{ method: 'DELETE', path: '/v1/overrides/:policy/:key' },
    summary: 'Deletes the override of a key.',
    responses: overrideDeleted,
  },
  {
    ...{ method: 'GET', path: '/v1/session', isOpen: true },
    summary: 'Returns whether this client has admin access.',
    responses: { 200: json('the session', schemas.SessionResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/session', isOpen: true },
    summary: 'Signs in with the admin token for eight hours. Sets a cookie.',
    request: schemas.SignInRequest,
    responses: {
      200: json('signed in', schemas.SessionResponse),
      401: problem('wrong token'),
      429: problem('too many attempts from this address, with `Retry-After`'),
    },
  },
  {
    ...{ method: 'DELETE', path: '/v1/session', isOpen: true },
    summary: 'Signs out: ends the session in all processes.',
    responses: { 200: json('signed out', schemas.SessionResponse) },
  },
  {
    ...{ method: 'POST', path: '/v1/reload' },
    summary: 'Reloads the configuration files.',
    responses: {
      200: json('in effect', schemas.ReloadResponse),
      422: problem('the files are invalid; the previous configuration is in effect'),
    },
  },
  {
    ...{ method: 'GET', path: '/v1/top' },
    summary: 'Returns the keys with the most denied or allowed requests of the last minutes.',
    query: {
      policy: 'the name of a policy',
      by: '`denied` (default) or `allowed`',
      count: 'maximum number of keys (default: 20)',
    },
    responses: { 200: json('most frequent first', schemas.TopReport), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/series' },
    summary: 'Returns the decisions of the last minutes by second, or of the last day by minute.',
    query: {
      seconds: 'number of seconds, from 1 to 600 (default: 300)',
      minutes: 'number of minutes, from 1 to 1440, instead of seconds',
      step: 'minutes per step, a divisor of `minutes` (default: 1)',
      policy: 'returns only this policy and the total',
      count: 'maximum number of policies, from 0 to 100 (default: 100)',
    },
    responses: { 200: json('oldest step first', schemas.SeriesReport), 404: noPolicy },
  },
  {
    ...{ method: 'GET', path: '/v1/events' },
    summary: 'Streams live statistics as server-sent events, one tick per second.',
    query: {
      policy: 'sends only denials of this policy',
      key: 'sends only denials of this key, or of keys that match a pattern with `*`',
    },
    responses: {
      200: {
        description: 'an event stream',
        schema: schemas.LiveEvent,
        type: 'text/event-stream',
      },
      404: noPolicy,
      503: problem('too many event streams'),
    },
  },
  {
    ...{ method: 'GET', path: '/v1/openapi.json', isOpen: true },
    summary: 'Returns this document.',
    responses: { 200: { description: 'OpenAPI 3.1', type: 'application/json' } },
  },
  {
    ...{ method: ANY_METHOD, path: '/v1/forward-auth', isOpen: true },
    summary: 'For proxies: decides the request that the headers describe.',
    query: { deny: '`403`: responds with 403 instead of 429, for nginx' },
    responses: proxied,
  },
  {
    ...{ method: ANY_METHOD, path: '/v1/forward-auth/ext-authz/*', isOpen: true },
    summary: 'For Envoy: decides this request, without the path prefix.',
    responses: proxied,
  },
  {
    ...{ method: 'POST', path: '/json', isOpen: true },
    summary: "Envoy's rate limit service in JSON.",
    request: schemas.RateLimitRequest,
    responses: {
      200: json('within the limits', schemas.RateLimitResponse),
      429: json('over a limit', schemas.RateLimitResponse),
    },
  },
  {
    ...{ method: 'GET', path: '/healthz', isOpen: true },
    summary: 'Liveness probe.',
    responses: { 200: json('alive', schemas.Alive) },
  },
  {
    ...{ method: 'GET', path: '/readyz', isOpen: true },
    summary: 'Readiness probe: whether the service can decide.',
    query: { store: '`optional`: ready even if the store is unavailable' },
    responses: { 200: json('ready', schemas.Ready), 503: json('not ready', schemas.Ready) },
  },
  {
    ...{ method: 'GET', path: '/', isOpen: true },
    summary: 'Lists entry points; redirects browsers to the dashboard.',
    responses: { 200: json('paths', schemas.Links), 302: toDashboard },
  },
  {
    ...{ method: 'GET', path: '/dashboard', isOpen: true },
    summary: 'The dashboard page, at this path with a trailing slash.',
    responses: { 200: { description: 'the page', type: 'text/html' }, 302: toDashboard, ...file },
  },
  {
    ...{ method: 'GET', path: '/dashboard/assets/*', isOpen: true },
    summary: 'Assets of the dashboard.',
    responses: { 200: { description: 'a file', type: '*/*' }, ...file },
  },
  {
    ...{ method: 'GET', path: '/metrics' },
    summary: 'Metrics for Prometheus.',
    responses: { 200: { description: 'the Prometheus text format', type: 'text/plain' } },
  },
];
