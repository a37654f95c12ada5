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
  headerForms,
  type LimitReport,
  type Report,
  retryAfter,
} from './headers.ts';
export { type LimitFetchOptions, limitFetch } from './limit-fetch.ts';
export type {
  FamiliarOptions,
  KeySource,
  Outcome,
  RequestLimit,
  RequestOptions,
} from './options.ts';
export { type ParsedRateLimit, parseRateLimit } from './parse-rate-limit.ts';
export { type Rejection, rejection } from './rejection.ts';
export {
  type Facts,
  type Field,
  type Refusal,
  RequestLimiter,
  type Verdict,
} from './request-limiter.ts';
