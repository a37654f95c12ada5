/** `sluice/failure`: failure handling for any store. */
export type { BreakerState } from './breaker.ts';
export { type FailureOptions, type GuardedStore, withFailurePolicy } from './guarded-store.ts';
