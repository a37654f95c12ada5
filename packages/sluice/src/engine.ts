/**
 * `sluice/engine`: for services that ask a store themselves, where a limiter is too much or little.
 */

export { DecisionRecord, jointDecision, PeekRecord } from './decision.ts';
export { expected, isInteger, isRecord } from './errors.ts';
export { headerReport, SingleLimitHeaders } from './http/headers.ts';
export { normalizeKey } from './http/normalize-key.ts';
export { keyText, MAX_KEY_LENGTH } from './key.ts';
export { checkAction, MAX_WINDOW_MS } from './policy.ts';
export { type CostFields, PolicyRegistry } from './policy-registry.ts';
export { type OnSent, type Recipient, refundOf, type SentCommand } from './store.ts';
export { KeyedHash } from './stores/memory/hash.ts';
