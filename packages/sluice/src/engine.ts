/**
 * `sluice/engine`: for services that ask a store themselves, where a limiter is too much or little.
 */
export { type CostFields, PolicyBook } from './book.ts';
export { DecisionRecord, jointDecision, PeekRecord } from './decision.ts';
export { expected, isInteger, isRecord } from './errors.ts';
export { DraftOfOne, reportOf } from './http/headers.ts';
export { soundKey } from './http/long-key.ts';
export { keyText, LONGEST_KEY } from './key.ts';
export { checkAction, LONGEST_WINDOW_MS } from './policy.ts';
export { type OnSent, type Recipient, refundOf, type SentCommand } from './store.ts';
export { KeyedHash } from './stores/memory/hash.ts';
