/**
 * `sluice/engine`: parts of the library for services that call a store directly, and descriptions
 * of algorithms and keys.
 */

export type {
  AlgorithmInfo,
  CountedWindow,
  DescribedState,
  EntriesDescription,
  KeyDescription,
  LevelDescription,
  LogEntry,
  WindowsDescription,
} from './algorithms/description.ts';
export {
  algorithmInfo,
  algorithmNames,
  describeKey,
  isConcurrency,
  optionOf,
  windowAlgorithmNames,
} from './algorithms/index.ts';
export { DecisionRecord, jointDecision, PeekRecord } from './decision.ts';
export { closestName, didYouMean } from './did-you-mean.ts';
export { DURATION, durationCode, durationMs, MAX_WINDOW_MS } from './duration.ts';
export { expected, isInteger, isRecord } from './errors.ts';
export { countText, durationText, windowText } from './format.ts';
export { headerReport } from './http/header-report.ts';
export { normalizeKey } from './http/normalize-key.ts';
export { SingleLimitHeaders } from './http/single-limit-headers.ts';
export { keyText, MAX_KEY_LENGTH } from './key.ts';
export { checkAction, checkDuration, FAILURE_ACTIONS } from './policy.ts';
export { type CostFields, MAX_LIMITS, PolicyRegistry } from './policy-registry.ts';
export {
  decideBySubmit,
  type OnSent,
  type Recipient,
  refundOf,
  type SentCommand,
} from './store.ts';
export { KeyedHash } from './stores/memory/hash.ts';
