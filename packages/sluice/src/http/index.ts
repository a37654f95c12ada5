/** `sluice/http`: the parts that the adapters are made of, for those who need them one by one. */
export {
  type AddressOptions,
  type AddressReader,
  type AddressWarning,
  addressKey,
  clientAddress,
  type ForwardedHeader,
} from './client-address.ts';
export {
  type HeaderForm,
  type HeaderReport,
  headerForms,
  type LimitReport,
  retryAfter,
} from './headers.ts';
export { type LimitFetchOptions, limitFetch } from './limit-fetch.ts';
export type {
  ExpressRateLimitOptions,
  KeySource,
  RequestLimit,
  RequestOptions,
  ResponseOutcome,
} from './options.ts';
export { type ParsedRateLimit, parseRateLimit } from './parse-rate-limit.ts';
export { type Rejection, rejection } from './rejection.ts';
export {
  type DenialResponse,
  type Field,
  type RequestDecision,
  type RequestInfo,
  RequestLimiter,
} from './request-limiter.ts';
