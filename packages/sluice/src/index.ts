/** The exports of `sluice`. */
export type { AcquireOptions } from './acquire/waiters.ts';
export type { LimitParams } from './algorithms/algorithm.ts';
export type { AlgorithmName, WindowAlgorithmName } from './algorithms/index.ts';
export type {
  CallOptions,
  CostOptions,
  DecisionListener,
  Limiter,
  LimiterOptions,
  LimitRequest,
  PeekOptions,
  Policies,
  SyncLimiter,
} from './api.ts';
export { type Clock, ManualClock, systemClock } from './clock.ts';
export type {
  Admitted,
  Charge,
  CheckResult,
  Decision,
  Degraded,
  Denied,
  LimitDecision,
  Receipt,
} from './decision.ts';
export { type ErrorCode, type ErrorCodes, SluiceError } from './errors.ts';
export { joinKey, type Key } from './key.ts';
export { createLimiter } from './limiter.ts';
export {
  type BlockOptions,
  type BlockParams,
  type ConcurrencyPolicyOptions,
  type Duration,
  definePolicy,
  type FailureAction,
  type LimitOfKey,
  type OperationOf,
  type Policy,
  type PolicyInput,
  type PolicyOptions,
  type WindowPolicyOptions,
} from './policy.ts';
export type { RunContext, RunOptions, RunResult } from './run/context.ts';
export type {
  Adjustment,
  Check,
  Hold,
  KeyState,
  Limit,
  Store,
  StoreFeature,
  SyncPolicyTable,
  SyncStore,
} from './store.ts';
export { type MemoryStoreOptions, memoryStore } from './stores/memory/memory-store.ts';
export type { Warning, WarningCode, WarningCodes } from './warning.ts';
