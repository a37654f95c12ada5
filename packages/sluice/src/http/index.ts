/** `sluice/http`: the parts of the adapters, for custom adapters. */
export {
  type AddressOptions,
  type AddressReader,
  type AddressWarning,
  addressKey,
  clientAddress,
  type ForwardedHeader,
  UNKNOWN_CLIENT,
} from './client-address.ts';
export type { ExpressRateLimitOptions } from './compat/express-rate-limit.ts';
export type { HeaderReport, LimitReport } from './header-report.ts';
export { type Header, type HeaderForm, headerForms, retryAfter } from './headers.ts';
export { type LimitFetchOptions, limitFetch } from './limit-fetch.ts';
export type {
  ConcurrencyLimit,
  HeaderKey,
  KeySource,
  PolicyLimit,
  RequestLimit,
  RequestOptions,
  ResponseOutcome,
} from './options.ts';
export { type ParsedRateLimit, parseRateLimit } from './parse-rate-limit.ts';
export { type Rejection, rejection } from './rejection.ts';
export type { RequestDecision, RequestInfo } from './request-decision.ts';
export { RequestLimiter } from './request-limiter.ts';
